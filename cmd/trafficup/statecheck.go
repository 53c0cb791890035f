package main

import (
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newStateCommand(sys *system, asJSON *bool) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "state",
		Short: "verify the state directory",
	}
	check := &cobra.Command{
		Use:   "check",
		Short: "verify ledger, dead letters, reports, breakers and rights",
		Long: `Verify a state directory: every sum of the ledger, every dead letter, every report,
the breakers, the rights of the files, and what crashes left. A warning names what
needs no repair; the code is 1 when something failed. Only reads, also beside a
running upload, whose last entry may then show as cut off.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError(cmd.CommandPath()+" --help", "unexpected argument %q", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runStateCheck(sys, cmd.Flags(), *asJSON)
		},
	}
	addStateFlags(check.Flags())
	cmd.AddCommand(check)
	return cmd
}

func runStateCheck(sys *system, flags *pflag.FlagSet, asJSON bool) error {
	_, st, err := lookAt(sys)
	if err != nil {
		return err
	}
	entries, err := st.fs.ReadDir(st.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &failure{exitFailed, "", fmt.Errorf("state directory: %w", err)}
	}
	c := &checker{state: st, out: sys.stdout, json: asJSON}
	if used(entries) {
		c.rights()
		c.ledger()
		c.deadLetters("dead letters", st.letters())
		c.deadLetters("archive", st.archive())
		c.reports()
		c.breakers()
	} else {
		c.found(finding{Result: checkOK, What: "directory", Message: "nothing has run here yet", File: st.dir})
	}
	switch {
	case c.err != nil:
		return c.err
	case c.failed:
		return reported(exitFailed)
	}
	return nil
}

// The results of a check.
const (
	checkOK      = "ok"
	checkWarning = "warning"
	checkFailed  = "failed"
)

// finding is one line of the check.
type finding struct {
	Type    string `json:"message_type"`
	Result  string `json:"result"`
	What    string `json:"what"` // the part of the state directory
	File    string `json:"file,omitzero"`
	Line    int64  `json:"line,omitzero"`
	Offset  *int64 `json:"offset,omitzero"`
	Message string `json:"message"`
}

// checker verifies a state directory and prints what it finds.
type checker struct {
	*state
	out    io.Writer
	json   bool
	faulty bool  // the part at hand has more than ok to say
	failed bool  // something has
	err    error // of writing
}

func (c *checker) found(f finding) {
	f.Type, f.File, f.Message = "check", printable(f.File), printable(f.Message)
	c.faulty = c.faulty || f.Result != checkOK
	c.failed = c.failed || f.Result == checkFailed
	if c.err != nil {
		return
	}
	if c.json {
		var line []byte
		if line, c.err = json.Marshal(f); c.err == nil {
			_, c.err = c.out.Write(append(line, '\n'))
		}
		return
	}
	place := f.File
	if f.Line > 0 {
		place += fmt.Sprintf(":%d", f.Line)
	}
	if f.Offset != nil {
		place += fmt.Sprintf(" at byte %d", *f.Offset)
	}
	if place != "" {
		place += ": "
	}
	_, c.err = fmt.Fprintf(c.out, "%-7s  %-12s  %s%s\n", f.Result, f.What, place, f.Message)
}

// ok says that a part is sound, unless something else was said of it.
func (c *checker) ok(what, format string, a ...any) {
	if !c.faulty {
		c.found(finding{Result: checkOK, What: what, Message: fmt.Sprintf(format, a...)})
	}
	c.faulty = false
}

func (c *checker) cannotRead(what string, err error) {
	c.found(finding{Result: checkFailed, What: what, Message: "cannot be read: " + err.Error()})
}
