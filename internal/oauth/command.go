package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"trafficup/internal/secret"
)

const (
	commandTimeout = 10 * time.Second
	minInterval    = 10 * time.Second
	ahead          = 0.2
)

// Command returns the source of the token that a program prints: the token alone,
// or JSON with access_token and, in seconds, expires_in. The program is run
// without a shell, has ten seconds, and is run again when most of the lifetime is
// over and when its token is refused. When its time is over, all that it started is
// killed with it, but for what has left its process group. The first line it writes to stderr is
// quoted in the error, so it must not be a secret.
func Command(argv []string) Source {
	return &refresher{
		name:    commandName(argv),
		fetch:   func(ctx context.Context, _ secret.Secret) (grant, error) { return run(ctx, argv) },
		timeout: commandTimeout, minInterval: minInterval, ahead: ahead,
	}
}

// commandName leaves the arguments out: they may hold secrets.
func commandName(argv []string) string {
	if len(argv) == 0 {
		return "token command"
	}
	return "token command " + argv[0]
}

func run(ctx context.Context, argv []string) (grant, error) {
	if len(argv) == 0 {
		return grant{}, denied("token command is empty")
	}
	var out, complaint bounded
	name := commandName(argv)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &complaint
	cmd.WaitDelay = time.Second // its children may hold the pipes open
	grouped(cmd)
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		return grant{}, denied(fmt.Sprintf("%s: %v", name, err))
	}
	err := cmd.Wait()
	switch {
	case ctx.Err() != nil:
		err = fmt.Errorf("has not answered for %s", time.Since(begun).Round(100*time.Millisecond))
	case out.over:
		err = fmt.Errorf("printed more than %d KiB", maxAnswer>>10)
	case errors.Is(err, exec.ErrWaitDelay):
		err = nil // it ended well; a child that it left behind has its output
	}
	if err != nil {
		line, _, _ := strings.Cut(strings.TrimSpace(string(complaint.kept)), "\n")
		line = secret.Hide(line, values(out.kept)...) // it may repeat what it printed
		return grant{}, unavailable(strings.TrimSuffix(fmt.Sprintf("%s: %v: %s", name, err, line), ": "))
	}
	g, err := printed(out.kept)
	if err != nil {
		return grant{}, unavailable(fmt.Sprintf("%s: %v", name, err))
	}
	return g, nil
}

// values returns what may be secret of an output: the strings of JSON, else its
// words, without the short ones that any message has.
func values(out []byte) []string {
	const shortWord = 8
	var doc any
	if json.Unmarshal(out, &doc) == nil {
		if all := texts(doc); len(all) > 0 {
			return all
		}
	}
	words := strings.FieldsFunc(string(out), func(r rune) bool { return strings.ContainsRune(" \t\r\n\"',{}", r) })
	if len(words) == 1 {
		return words
	}
	return slices.DeleteFunc(words, func(w string) bool { return len(w) < shortWord })
}

// texts returns the strings of a JSON document, but not the names of members.
func texts(doc any) (all []string) {
	switch d := doc.(type) {
	case string:
		return []string{d}
	case []any:
		for _, v := range d {
			all = append(all, texts(v)...)
		}
	case map[string]any:
		for _, v := range d {
			all = append(all, texts(v)...)
		}
	}
	return all
}

// printed reads what a command printed. No error shows any of it.
func printed(out []byte) (grant, error) {
	if !bytes.HasPrefix(bytes.TrimSpace(out), []byte("{")) {
		value, err := secret.Clean(out)
		if err != nil {
			return grant{}, fmt.Errorf("its output %w", err)
		}
		if err := Valid(value); err != nil {
			return grant{}, fmt.Errorf("its output %w", err)
		}
		return grant{value: value}, nil
	}
	a, ok := decode(out)
	if !ok {
		return grant{}, errors.New("its output is not the JSON of a token")
	}
	return a.grant()
}

// bounded keeps the first maxAnswer bytes and drops the rest, so that a program
// that talks much is not stopped by it. The buffer is not embedded: its ReadFrom
// would be used in place of Write.
type bounded struct {
	kept []byte
	over bool
}

func (b *bounded) Write(p []byte) (int, error) {
	keep := min(len(p), maxAnswer-len(b.kept))
	b.over = b.over || keep < len(p)
	b.kept = append(b.kept, p[:keep]...)
	return len(p), nil
}
