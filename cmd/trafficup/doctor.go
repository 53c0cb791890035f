package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"trafficup/internal/doctor"
	"trafficup/internal/secret"
)

func newDoctorCommand(sys *system, asJSON *bool) *cobra.Command {
	var edge bool
	cmd := &cobra.Command{
		Use:   "doctor [FILE|DIR|-]...",
		Short: "look at all that a run depends on, before it does",
		Long: `Look at all that a run depends on: configuration, environment, clock, state
directory, input, and for each path names, proxy, certificates, an answer and the
login. Takes all flags of upload: with the same ones it looks at the same things.

Each line says ok, warning or failed, and below the latter two what to do. The
code is 1 when something failed. Nothing is sent but a HEAD request or two a path;
nothing stays on the disk but a token, where a run would keep it. No check takes
longer than five seconds, or what --connect-timeout and --request-timeout allow.`,
		RunE: func(_ *cobra.Command, args []string) error {
			return runDoctor(sys, *asJSON, args, edge)
		},
	}
	addRunFlags(cmd.Flags(), allOptions...)
	cmd.Flags().BoolVar(&edge, "edge", false, "look at rights and kernel for shaping and failover, at who else shapes and routes, and ask all targets by each uplink, too")
	return cmd
}

func runDoctor(sys *system, asJSON bool, inputs []string, edge bool) error {
	d := newExamination(sys, inputs, edge)
	defer d.close()
	p := doctorPrinter{out: sys.stdout, json: asJSON, masks: d.masks}
	sys.graceful.Store(true) // a signal waits for the file in the state directory to be removed
	err := doctor.Run(sys.soft, d.checks(), p.print)
	switch {
	case errors.Is(err, context.Canceled) && sys.signal.Load() != 0:
		return &failure{exitSignal + int(sys.signal.Load()), "", errors.New("stopped by a signal")}
	case err != nil:
		return unheard(err)
	case p.failed:
		return reported(exitFailed)
	}
	return nil
}

// doctorPrinter prints findings, one a line, without secrets.
type doctorPrinter struct {
	out    io.Writer
	json   bool
	masks  *secret.Redactor
	failed bool // something has
}

func (p *doctorPrinter) print(f doctor.Finding) error {
	p.failed = p.failed || f.Result == doctor.Failed
	message, do := printable(p.masks.Redact(f.Message)), printable(p.masks.Redact(f.Do))
	if p.json {
		return writeLine(p.out, struct {
			Type    string        `json:"message_type"`
			Result  doctor.Result `json:"result"`
			What    string        `json:"what"`
			Path    string        `json:"path,omitzero"`
			Message string        `json:"message"`
			Do      string        `json:"do,omitzero"`
		}{"check", f.Result, f.What, f.Path, message, do})
	}
	what := f.What
	if f.Path != "" {
		what = f.Path + " " + what
	}
	_, err := fmt.Fprintf(p.out, "%-7s  %-19s  %s\n", f.Result, printable(what), message)
	if err == nil && do != "" {
		_, err = fmt.Fprintf(p.out, "%9s%s\n", "", do)
	}
	return err
}
