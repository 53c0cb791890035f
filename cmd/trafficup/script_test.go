package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") && filepath.Base(os.Args[0]) != "trafficup" {
		sys := realSystem()
		sys.machine = htbMachine
		os.Exit(run(sys)) // what the tests of netshape start, and what apply starts then
	}
	testscript.Main(m, map[string]func(){"trafficup": main})
}

// The commands, as cron and people call them. Each script has a state
// directory of its own.
func TestScripts(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("NIGHT", filepath.Join(root, "testdata", "night"))
			e.Setenv("CASES", filepath.Join(root, "testdata", "cases"))
			e.Setenv("XDG_STATE_HOME", filepath.Join(e.WorkDir, "state"))
			e.Setenv("HOME", e.WorkDir)
			return os.Mkdir(filepath.Join(e.WorkDir, "state"), 0o700)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": exits},
	})
}

// exits runs a program and asserts its exit code: exits 3 trafficup upload …
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARG…")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := "0"
	if err != nil {
		code = trimPrefix(err.Error(), "exit status ")
	}
	if code != args[0] {
		ts.Fatalf("%v: exit %s, want %s\nstdout: %s\nstderr: %s", args[1:], code, args[0], ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	}
}

func trimPrefix(s, prefix string) string {
	if len(s) > len(prefix) && s[:len(prefix)] == prefix {
		return s[len(prefix):]
	}
	return s
}
