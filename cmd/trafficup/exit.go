package main

import (
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"

	"trafficup/internal/api"
	"trafficup/internal/source"
	"trafficup/internal/uploader"
)

// Exit codes, as in the table of help.
const (
	exitOK      = 0
	exitFailed  = 1
	exitPerson  = 3
	exitWaiting = 4
	exitAuth    = 5
	exitLocked  = 6
	exitInput   = 7
	exitUsage   = 10
	exitSignal  = 128 // plus the signal's number
)

// failure is an error with its exit code and what to type next.
type failure struct {
	code int
	hint string
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func usageError(hint, format string, a ...any) error {
	return &failure{exitUsage, hint, fmt.Errorf(format, a...)}
}

// exitCode is the code of a run that ended with s and err.
func exitCode(s uploader.Summary, err error, signal int) int {
	switch {
	case errors.Is(err, uploader.ErrLocal) || s.LettersLost > 0:
		return exitFailed
	case errors.Is(err, uploader.ErrAuth):
		return exitAuth
	case errors.Is(err, uploader.ErrConfig), errors.Is(err, uploader.ErrPoison):
		return exitUsage
	case errors.Is(err, uploader.ErrStopped) && signal != 0:
		return exitSignal + signal
	case len(s.Faults) > 0:
		return exitInput
	case err != nil || s.Waiting() > 0:
		return exitWaiting
	case s.Refused() > 0:
		return exitPerson
	}
	return exitOK
}

// heavier is the code that wins where both hold.
func heavier(a, b int) int {
	rank := func(code int) int {
		switch code {
		case exitFailed:
			return 8
		case exitAuth:
			return 7
		case exitUsage:
			return 6
		case exitLocked:
			return 5
		case exitInput:
			return 3
		case exitWaiting:
			return 2
		case exitPerson:
			return 1
		case exitOK:
			return 0
		}
		return 4 // a signal
	}
	if rank(b) > rank(a) {
		return b
	}
	return a
}

// explain turns an error into code and hint.
func explain(err error) (code int, hint string) {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.code, f.hint
	}
	if f, ok := errors.AsType[*source.FileError](err); ok {
		return exitInput, f.Hint
	}
	switch {
	case errors.Is(err, uploader.ErrLocal):
		return exitFailed, localHint(err)
	case errors.Is(err, uploader.ErrNoToken):
		return exitWaiting, tokenHint + "; then run the same command again: every record keeps its key"
	case errors.Is(err, uploader.ErrAuth):
		return exitAuth, "check the credentials under api.auth: trafficup config show"
	case errors.Is(err, uploader.ErrConfig):
		return exitUsage, configHint(err)
	case errors.Is(err, uploader.ErrPoison):
		return exitUsage, "see what the API refuses: mend the URL or the records, then run the same command again; --poison-stop=0 goes on all the same"
	case errors.Is(err, uploader.ErrClosed):
		return exitWaiting, "run the same command again after the maintenance; every record keeps its key"
	case errors.Is(err, uploader.ErrStopped), errors.Is(err, uploader.ErrDeadline), errors.Is(err, uploader.ErrHalted):
		return exitWaiting, "run the same command again to continue; every record keeps its key"
	}
	return exitFailed, ""
}

// tokenHint says what to do where there is no token to send.
const tokenHint = "see where the token is to come from: trafficup config show; trafficup doctor tries it"

// configHint says what to do about a path that cannot work as it is set up.
func configHint(err error) string {
	for _, h := range []struct {
		fault error
		hint  string
	}{
		{api.ErrClock, "set the clock of this machine"},
		{api.ErrCertificate, "see whether the certificate names the host of the URL and is still good, whether tls.ca_file holds who issued it, and whether the clock is right"},
		{api.ErrTLSVersion, "the server of this path has to speak TLS 1.2 or later"},
		{api.ErrRedirect, "check the URL of the path: it may have moved, or a login page answers for it"},
		{api.ErrProxyLogin, "put the proxy's login into its URL, http://user:password@host:port"},
		{api.ErrNotHTTP2, "leave http: 2 out of the path's settings"},
	} {
		if errors.Is(err, h.fault) {
			return h.hint + "; then run the same command again: every record keeps its key"
		}
	}
	return "check the settings of the path, its URL first; then run the same command again: every record keeps its key"
}

// localHint says what to do about a fault of this machine.
func localHint(err error) string {
	const again = ", then run the same command again: every record keeps its key"
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		return "make room in the state directory" + again
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return "make it writable, or give another --state-dir" + again
	}
	return "see what is wrong with the disk or the state directory" + again
}

// reported marks an outcome that the user has been told of: only its code is left.
type reported int

func (reported) Error() string { return "see above" }

// concluded is a run that was reported, in the words for those who read JSON.
type concluded struct {
	code       reported
	text, hint string
}

func (c concluded) Error() string { return c.text }
func (c concluded) Unwrap() error { return c.code }

// finish prints what is left to say of err and returns the exit code.
func finish(err error, asJSON bool, stderr io.Writer) int {
	if err == nil {
		return exitOK
	}
	if r, ok := errors.AsType[reported](err); ok {
		if asJSON && r != exitOK {
			c, _ := errors.AsType[concluded](err)
			exitError(stderr, int(r), c.text, c.hint)
		}
		return int(r)
	}
	code, hint := explain(err)
	if asJSON {
		exitError(stderr, code, strings.ReplaceAll(err.Error(), "\n ", ";"), hint)
		return code
	}
	prefix := "error: "
	for line := range strings.SplitSeq(err.Error(), "\n") { // only what a configuration lists has more than one
		fmt.Fprintf(stderr, "trafficup: %s%s\n", prefix, printable(line))
		prefix = ""
	}
	if hint != "" {
		fmt.Fprintf(stderr, "trafficup: hint: %s\n", hint)
	}
	return code
}

func exitError(w io.Writer, code int, msg, hint string) {
	line, err := json.Marshal(struct {
		Type  string `json:"message_type"`
		Code  int    `json:"code"`
		Error string `json:"error,omitzero"`
		Hint  string `json:"hint,omitzero"`
	}{"exit_error", code, printable(msg), hint})
	if err == nil {
		fmt.Fprintf(w, "%s\n", line)
	}
}
