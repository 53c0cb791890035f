package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"trafficup/internal/config"
)

// Config is the settings of a command, and where they came from.
type Config struct{ *config.Loaded }

// optionFlag is an option's flag. It keeps the text: all layers are read, and
// complained about, in one place.
type optionFlag struct {
	kind, def string
	list      bool // given twice, both count
	texts     []string
}

func (f *optionFlag) String() string {
	if len(f.texts) == 0 {
		return f.def
	}
	return f.text()
}

func (f *optionFlag) text() string {
	if f.list {
		return strings.Join(f.texts, ",")
	}
	return f.texts[len(f.texts)-1]
}

func (f *optionFlag) Set(s string) error { f.texts = append(f.texts, s); return nil }
func (f *optionFlag) Type() string       { return f.kind }

// addConfigFlags adds the flags that say where the configuration is.
func addConfigFlags(fs *pflag.FlagSet) {
	fs.String("config", "", "configuration `FILE` (default: $TRAFFICUP_CONFIG, ./trafficup.yaml, the user's, /etc/trafficup/trafficup.yaml)")
	fs.StringArray("set", nil, "any option by its key: `KEY=VALUE`")
}

// addOptionFlags adds the flags of the options whose key has one of the
// prefixes; those of hidden ones are taken and not shown in help.
func addOptionFlags(fs *pflag.FlagSet, prefixes, hidden []string) {
	has := func(key string, list []string) bool {
		return slices.ContainsFunc(list, func(p string) bool { return key == p || strings.HasPrefix(key, p+".") })
	}
	for _, o := range config.Options() {
		if o.Flag == "" || o.Key == "output.json" || !has(o.Key, prefixes) {
			continue
		}
		f := &optionFlag{kind: o.Kind(), def: o.Default(), list: strings.HasSuffix(o.Kind(), "s")}
		fs.Var(f, o.Flag, o.Help)
		flag := fs.Lookup(o.Flag)
		section, _, _ := strings.Cut(o.Key, ".")
		flag.Annotations = map[string][]string{"section": {section}}
		flag.Hidden = has(o.Key, hidden)
		if f.kind == "bool" {
			flag.NoOptDefVal = "true"
		}
		if slices.Contains([]string{`""`, "[]", "{}", "0", "0s", "0B", "false"}, f.def) {
			flag.DefValue = "" // nothing worth a word
		}
	}
}

var allOptions = []string{"api", "upload", "retry", "breaker", "redis", "envelope", "log", "output"}

// readConfig reads the settings of a command that has flags for them.
func readConfig(sys *system, cmd *cobra.Command) error {
	fs := cmd.Flags()
	named := fs.Lookup("config")
	if named == nil {
		return nil
	}
	src := config.Sources{File: named.Value.String(), Environ: sys.environ, Checks: []func(*config.Loaded){func(l *config.Loaded) { Config{l}.check(sys) }}}
	for _, o := range config.Options() {
		if f := fs.Lookup(o.Flag); f != nil && f.Changed {
			text := f.Value.String()
			if of, ok := f.Value.(*optionFlag); ok {
				text = of.text()
			}
			src.Flags = append(src.Flags, config.Setting{Key: o.Key, Text: text, Place: "--" + o.Flag})
		}
	}
	settings, err := fs.GetStringArray("set")
	if err != nil {
		return err
	}
	for _, s := range settings {
		key, text, ok := strings.Cut(s, "=")
		if !ok {
			return usageError("", "--set %s: write KEY=VALUE", key)
		}
		src.Flags = append(src.Flags, config.Setting{Key: strings.TrimSpace(key), Text: text, Place: "--set"})
	}
	sys.sources = src
	l, err := config.Load(src)
	sys.config = Config{l}
	if err != nil {
		return &failure{exitUsage, configurationHint(err), err}
	}
	return nil
}

// configurationHint is what to do about a configuration with mistakes.
func configurationHint(err error) string {
	e, ok := errors.AsType[*config.Error](err)
	if !ok || e.Denied == "" {
		return "trafficup config init lists every option with its key, variable and default"
	}
	what, mode := e.Denied, "640"
	if _, err := os.Stat(what); errors.Is(err, fs.ErrPermission) { // it is the directory that is closed
		what, mode = filepath.Dir(what), "750"
	}
	if what == "." { // which is nobody's to open for a file that need not be there
		return "go to a directory that you may read, or give a file of your own: --config FILE"
	}
	return fmt.Sprintf("run it with sudo, or let your group read it: sudo chgrp \"$(id -gn)\" %s && sudo chmod %s %s; or give a file of your own: --config FILE", quoted(what), mode, quoted(what))
}

// withoutConfig marks, among a command's annotations, one that can do what it is for
// by the state directory alone.
const withoutConfig = "without_config"

// goOn lets a command that needs no configuration go on without one that is at fault,
// but for what the command line says.
func (s *system) goOn(cmd *cobra.Command, err error, asJSON bool) error {
	e, ok := errors.AsType[*config.Error](err)
	fromFlag := func(f config.Fault) bool { return f.Origin.Layer == "flag" }
	if cmd.Annotations[withoutConfig] == "" || !ok || slices.ContainsFunc(e.Faults, fromFlag) {
		return err
	}
	s.config.Netshape = config.Default().Netshape
	text := strings.ReplaceAll(e.Error(), "\n  ", "; ") + ": going on without it, by what is in the state directory"
	if asJSON {
		return writeLine(s.stderr, struct {
			Type    string `json:"message_type"`
			Message string `json:"message"`
		}{"warning", printable(text)})
	}
	s.warn(text)
	return nil
}

// stateDir is where runs keep what must outlive them. It need not exist.
func stateDir(c Config, getenv func(string) string) (string, error) {
	dir := c.Upload.StateDir
	for _, d := range []string{getenv("STATE_DIRECTORY"), join(getenv("XDG_STATE_HOME"), "trafficup"), join(getenv("HOME"), ".local/state/trafficup")} {
		if dir == "" {
			dir = d
		}
	}
	if dir == "" {
		return "", usageError("give --state-dir", "no state directory: neither $STATE_DIRECTORY nor $HOME is set")
	}
	return dir, nil
}

func join(base, sub string) string {
	if base == "" {
		return ""
	}
	return filepath.Join(base, sub)
}

// getenv is the value of a variable of the environment.
func (s *system) getenv(name string) string {
	for _, e := range s.environ {
		if value, ok := strings.CutPrefix(e, name+"="); ok {
			return value
		}
	}
	return ""
}

// configCommand groups what is done with the configuration itself.
func newConfigCommand(sys *system, asJSON *bool) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "write, check and show the configuration",
	}
	cmd.AddCommand(newConfigInitCommand(sys), newConfigCheckCommand(sys, asJSON), newConfigShowCommand(sys, asJSON), newConfigSchemaCommand(sys))
	return cmd
}

// groupOnly makes cmd one that needs one of its subcommands. Flags of theirs are let
// pass: of a command that does not exist it is the name that is wrong.
func groupOnly(cmd *cobra.Command) {
	cmd.FParseErrWhitelist.UnknownFlags = true
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return fmt.Errorf("no command %s; there are: %s", args[0], subcommands(cmd))
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return usageError(cmd.CommandPath()+" --help", "say what to do: %s", subcommands(cmd))
	}
}

func subcommands(cmd *cobra.Command) string {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return strings.Join(names, ", ")
}

func newConfigSchemaCommand(sys *system) *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "print a JSON Schema of the file, for editors", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := config.WriteSchema(sys.stdout); err != nil {
				return unheard(err)
			}
			_, err := fmt.Fprintln(sys.stdout)
			return unheard(err)
		},
	}
}
