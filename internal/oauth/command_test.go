//go:build unix

package oauth

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A command that fails may repeat on stderr what it printed, as it is or encoded.
func TestCommandRepeatsItsToken(t *testing.T) {
	for name, c := range map[string]struct{ out, complaint, want string }{
		"alone":            {"CANARYcmd", "bad CANARYcmd", "bad ***"},
		"short":            {"CANA", "bad CANA", "bad ***"},
		"a number":         {"12345678", "bad 12345678", "bad ***"},
		"JSON":             {`{"access_token":"CANARYcmd"}`, "no access_token: CANARYcmd", "no access_token: ***"},
		"JSON, deep":       {`{"data":[{"token":"CANARY\/cmd"}]}`, "bad CANARY/cmd", "bad ***"},
		"JSON on stderr":   {`{"access_token":"CANARYcmd"}`, `{"access_token":"CANARYcmd"}`, `{"access_token":"***"}`},
		"JSON, cut":        {`{"access_token":"CANARYcmd","x`, "bad CANARYcmd", "bad ***"},
		"among words":      {"your token is CANARYcmd now", "this is bad: CANARYcmd", "this is bad: ***"},
		"lines":            {"token:\nCANARYcmd", "bad token CANARYcmd", "bad token ***"},
		"encoded":          {"CANARY+cmd", "bad CANARY%2bcmd CANARY&#43;cmd CANARY\\u002bcmd", "bad *** *** ***"},
		"of a common word": {"please log in", "please log in", "please log in"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Command([]string{"/bin/sh", "-c", `printf '%s\n' "$0"; printf '%s\n' "$1" >&2; exit 3`, c.out, c.complaint}).Token(t.Context())
			if !errors.Is(err, ErrUnavailable) || !strings.HasSuffix(err.Error(), "exit status 3: "+c.want) {
				t.Errorf("%v", err)
			}
		})
	}
}

// A child that holds the output open when the command has ended well keeps nobody
// waiting for long, and stays.
func TestCommandLeavesAChild(t *testing.T) {
	pid := filepath.Join(t.TempDir(), "pid")
	tok, err := Command([]string{"/bin/sh", "-c", `sleep 77 & echo $! > "$0"; echo T0KEN`, pid}).Token(t.Context())
	if err != nil || tok.Value.Reveal() != "T0KEN" {
		t.Error(tok, err)
	}
	child := readPID(t, pid)
	if err := syscall.Kill(child, syscall.SIGKILL); err != nil {
		t.Error("the child was killed: ", err)
	}
}

// When a command's time is over its children are ended as well.
func TestCommandsChildrenAreKilled(t *testing.T) {
	pid := filepath.Join(t.TempDir(), "pid")
	s := Command([]string{"/bin/sh", "-c", `sleep 78 & echo $! > "$0"; wait; echo T0KEN`, pid}).(*refresher)
	s.timeout = 300 * time.Millisecond
	if _, err := s.Token(t.Context()); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "token command /bin/sh: has not answered for ") {
		t.Error(err)
	}
	child := readPID(t, pid)
	for range 500 {
		if !alive(child) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("the child lives")
	_ = syscall.Kill(child, syscall.SIGKILL)
}

// alive tells whether a process runs. One that has ended may stay for a while,
// when nobody asks how.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err == nil {
		return !strings.Contains(string(stat), ") Z ")
	}
	return syscall.Kill(pid, 0) == nil
}

func readPID(t *testing.T, name string) int {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}
