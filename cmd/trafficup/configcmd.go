package main

import (
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"trafficup/internal/config"
)

func newConfigInitCommand(sys *system) *cobra.Command {
	return &cobra.Command{
		Use:   "init [FILE]",
		Short: "write a commented example with every option, to FILE or stdout",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return unheard(config.WriteExample(sys.stdout))
			}
			// It may come to hold a token, and must not take the place of one that does.
			f, err := os.OpenFile(args[0], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return usageError(exampleHint(args[0], err), "write example: %w", err)
			}
			err = config.WriteExample(f)
			if cerr := f.Close(); err == nil {
				err = cerr
			}
			if err != nil {
				return &failure{exitFailed, "", fmt.Errorf("write example: %w", err)}
			}
			return nil
		},
	}
}

// exampleHint is what to do where the example cannot be written to file.
func exampleHint(file string, err error) string {
	dir := filepath.Dir(file)
	switch _, missing := os.Stat(dir); {
	case errors.Is(err, fs.ErrPermission):
		return "run it with sudo, or name a file of your own: trafficup config init trafficup.yaml"
	case errors.Is(missing, fs.ErrNotExist):
		return fmt.Sprintf("mkdir -p %s && trafficup config init %s", quoted(dir), quoted(file))
	}
	return "name a file that is not there yet"
}

// addQuietOptions gives a command every option, without filling its help.
func addQuietOptions(cmd *cobra.Command) {
	addConfigFlags(cmd.Flags())
	all := append(slices.Clone(allOptions), "netshape")
	addOptionFlags(cmd.Flags(), all, all)
}

func newConfigCheckCommand(sys *system, asJSON *bool) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "find every mistake in the file, the environment and the flags",
		Long: `Find every mistake in the file (or the one that a run would read), the environment
and the flags, and say where it is and what would be right. Takes all flags of
upload. Exit code 0, or 10 when something is wrong. trafficup doctor looks further,
at what the options name.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.MaximumNArgs(1)(cmd, args); err != nil || len(args) == 0 {
				return err
			}
			return cmd.Flags().Set("config", args[0])
		},
		RunE: func(*cobra.Command, []string) error {
			c := sys.config
			c.warnOfCalendars()
			if *asJSON {
				return unheard(checkedJSON(sys.stdout, c))
			}
			for _, w := range c.Warnings {
				fmt.Fprintf(sys.stderr, "trafficup: warning: %s\n", printable(w.String()))
			}
			read := "no file"
			if len(c.Files) > 0 {
				read = strings.Join(c.Files, ", ")
			}
			_, err := fmt.Fprintf(sys.stdout, "ok (%s)\n", printable(read))
			return unheard(err)
		},
	}
	addQuietOptions(cmd)
	return cmd
}

func checkedJSON(w io.Writer, c Config) error {
	texts := []string{}
	for _, f := range c.Warnings {
		texts = append(texts, f.String())
	}
	return writeLine(w, struct {
		Type     string   `json:"message_type"`
		Files    []string `json:"files"`
		Warnings []string `json:"warnings"`
	}{"config", append([]string{}, c.Files...), texts})
}

func newConfigShowCommand(sys *system, asJSON *bool) *cobra.Command {
	var changed bool
	cmd := &cobra.Command{
		Use:   "show",
		Short: "print every value in force, and where it came from",
		Long: `Print every value in force, and where it came from: default, the file with its
line, the variable, or the flag. Secrets are ***. Takes all flags of upload.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			lines := sys.config.Lines()
			if changed {
				var kept []config.Line
				for _, l := range lines {
					if l.Origin.Layer != "default" {
						kept = append(kept, l)
					}
				}
				lines = kept
			}
			if *asJSON {
				return unheard(shownJSON(sys.stdout, lines))
			}
			return unheard(shownText(sys.stdout, lines))
		},
	}
	addQuietOptions(cmd)
	cmd.Flags().BoolVar(&changed, "changed", false, "leave out defaults")
	return cmd
}

func shownText(w io.Writer, lines []config.Line) error {
	width := 0
	for _, l := range lines {
		width = max(width, min(60, len(l.Key)+2+len(l.Value)))
	}
	for _, l := range lines {
		if _, err := fmt.Fprintf(w, "%-*s  # %s\n", width, printable(l.Key+": "+l.Value), printable(l.Origin.String())); err != nil {
			return err
		}
	}
	return nil
}

func shownJSON(w io.Writer, lines []config.Line) error {
	for _, l := range lines {
		err := writeLine(w, struct {
			Type  string `json:"message_type"`
			Key   string `json:"key"`
			Value string `json:"value"`
			Layer string `json:"layer"`
			Place string `json:"place,omitzero"`
		}{"option", l.Key, l.Value, l.Origin.Layer, l.Origin.Place})
		if err != nil {
			return err
		}
	}
	return nil
}

// writeLine writes v as one line of JSON.
func writeLine(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err == nil {
		_, err = w.Write(append(line, '\n'))
	}
	return err
}
