package main

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"trafficup/internal/config"
)

// version is set by the linker for releases.
var version = ""

func versionString() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "devel"
}

// run executes the command line and returns the exit code.
func run(sys system) int {
	var asJSON bool
	root := newRootCommand(&sys, &asJSON)
	root.SetArgs(sys.args)
	root.SetIn(sys.stdin)
	root.SetOut(sys.stdout)
	root.SetErr(sys.stderr)
	return finish(root.ExecuteContext(sys.soft), asJSON, sys.stderr)
}

func newRootCommand(sys *system, asJSON *bool) *cobra.Command {
	root := &cobra.Command{
		Use:           "trafficup",
		Short:         "deliver a night's traffic logs over links that fail, exactly once in effect",
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			err := readConfig(sys, cmd)
			if sys.config.Loaded != nil && sys.config.Output.JSON {
				*asJSON = true
			}
			if err != nil {
				err = sys.goOn(cmd, err, *asJSON)
			}
			return err
		},
	}
	root.PersistentFlags().BoolVar(asJSON, "json", false, "print one JSON object a line on stdout")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError(cmd.CommandPath()+" --help", "%w%s", err, nearFlag(cmd, err))
	})
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetUsageTemplate(usageTemplate)
	root.SetHelpTemplate(`{{with (or .Long .Short)}}{{. | trimTrailingWhitespaces}}

{{end}}{{.UsageString}}
{{exitTable .}}`)
	root.AddCommand(
		newUploadCommand(sys, asJSON),
		newValidateCommand(sys, asJSON),
		newReplayCommand(sys, asJSON),
		newDeadlettersCommand(sys, asJSON),
		newExplainCommand(sys, asJSON),
		newStatusCommand(sys, asJSON),
		newBreakerCommand(sys, asJSON),
		newStateCommand(sys, asJSON),
		newConfigCommand(sys, asJSON),
		newDoctorCommand(sys, asJSON),
		newNetshapeCommand(sys, asJSON),
		newFailoverCommand(sys, asJSON),
		newSandboxCommand(sys),
		&cobra.Command{
			Use: "version", Short: "print the version", Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error {
				if *asJSON {
					return unheard(writeLine(sys.stdout, struct {
						Type    string `json:"message_type"`
						Version string `json:"version"`
						Go      string `json:"go"`
					}{"version", versionString(), runtime.Version()}))
				}
				_, err := fmt.Fprintln(sys.stdout, "trafficup "+versionString())
				return unheard(err)
			},
		},
	)
	for _, c := range everyCommand(root) {
		if c.HasSubCommands() {
			groupOnly(c)
		}
		if args := c.Args; args != nil {
			c.Args = func(cmd *cobra.Command, a []string) error {
				if err := args(cmd, a); err != nil {
					return usageError(cmd.CommandPath()+" --help", "%w%s", err, nearCommand(cmd, a))
				}
				return nil
			}
		}
	}
	return root
}

func everyCommand(c *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		all = append(all, everyCommand(sub)...)
	}
	return all
}

// nearCommand says what a command that does not exist was meant to be.
func nearCommand(cmd *cobra.Command, args []string) string {
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	if len(args) > 0 {
		if n := config.Nearest(args[0], names); n != "" {
			return "; did you mean " + n + "?"
		}
	}
	return ""
}

// nearFlag says what a flag that does not exist was meant to be.
func nearFlag(cmd *cobra.Command, err error) string {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return ""
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if n := config.Nearest(strings.ReplaceAll(unknown.GetSpecifiedName(), "_", "-"), names); n != "" {
		return "; did you mean --" + n + "?"
	}
	return ""
}
