package main

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"trafficup/internal/deadletter"
)

type exportOptions struct {
	filter  filterOptions
	out     string
	letters bool
}

func newExportCommand(sys *system) *cobra.Command {
	var o exportOptions
	cmd := &cobra.Command{
		Use:   "export [FILE...]",
		Short: "print the records of letters, as they were read, one a line",
		Long: `Print the records of letters, as they were read, one a line: records of mixed
forms make mixed lines. The row of a table comes as the record that was made of it,
or, where none could be made, as it stood, without its header. A record with a line
break inside is left out.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runExport(sys, cmd.Flags(), o, args)
		},
	}
	addStateFlags(cmd.Flags())
	o.filter.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&o.out, "out", "", "write to this `FILE`, which must not exist, instead of stdout")
	cmd.Flags().BoolVar(&o.letters, "letters", false, "whole letters instead of their records")
	return cmd
}

func runExport(sys *system, fs *pflag.FlagSet, o exportOptions, args []string) error {
	filter, err := o.filter.filter(time.Now())
	if err != nil {
		return err
	}
	b, err := look(sys, args)
	if err != nil {
		return err
	}
	n := 0
	if o.out == "" {
		n, err = b.export(sys.stdout, filter, o.letters)
		err = unheard(err)
	} else {
		n, err = b.exportTo(o.out, filter, o.letters)
	}
	if err == nil && n == 0 {
		fmt.Fprintln(sys.stderr, "trafficup: no dead letters")
	}
	return cmp.Or(err, b.end())
}

// exportTo makes a file, or none when there is nothing to write or it cannot be
// written to its end.
func (b *box) exportTo(name string, filter deadletter.Filter, whole bool) (n int, err error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return 0, usageError("", "%s exists already", name)
	}
	if err != nil {
		return 0, err
	}
	n, err = b.export(f, filter, whole)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil || n == 0 {
		_ = os.Remove(name)
	}
	return n, err
}

// export writes letters or their records and returns how many. A record that is
// more than one line has no place among lines and is left out.
func (b *box) export(w io.Writer, filter deadletter.Filter, whole bool) (n int, err error) {
	out := bufio.NewWriter(w)
	var skipped []string
	err = b.each(filter.Match, func(e *deadletter.Entry) error {
		line := withoutEnd(e.Record())
		if whole {
			var err error
			if line, err = e.Encode(); err != nil {
				return err
			}
			line = line[:len(line)-1]
		} else if bytes.ContainsAny(line, "\n\r") {
			if b.leftOut++; b.leftOut <= maxShown {
				skipped = append(skipped, fmt.Sprintf("%s (%s:%d)", cmp.Or(e.Key, e.SpotID, "-"), e.Ref.File, e.Ref.Line))
			}
			return nil
		}
		n++
		_, _ = out.Write(line)
		return out.WriteByte('\n')
	})
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		return n, err
	}
	if b.leftOut > maxShown {
		skipped = append(skipped, fmt.Sprintf("and %d more", b.leftOut-maxShown))
	}
	if b.leftOut > 0 {
		b.warn("left out %s of more than one line: %s; --letters has them", plural(b.leftOut, "record"), strings.Join(skipped, ", "))
	}
	return n, nil
}

// withoutEnd takes the line end off a row of a table, which has kept it.
func withoutEnd(row []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(row, []byte("\n")), []byte("\r"))
}
