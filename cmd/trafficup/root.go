package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
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
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	root.PersistentFlags().BoolVar(asJSON, "json", false, "print one JSON object a line on stdout")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError(cmd.CommandPath()+" --help", "%w", err)
	})
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetHelpTemplate(`{{with (or .Long .Short)}}{{. | trimTrailingWhitespaces}}

{{end}}{{.UsageString}}
` + exitTable)
	root.AddCommand(
		newUploadCommand(sys, asJSON),
		newValidateCommand(sys, asJSON),
		newReplayCommand(sys, asJSON),
		newDeadlettersCommand(sys, asJSON),
		newExplainCommand(sys, asJSON),
		newStatusCommand(sys, asJSON),
		newStateCommand(sys, asJSON),
		newSandboxCommand(sys),
		&cobra.Command{
			Use: "version", Short: "print the version", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "trafficup "+versionString())
				return err
			},
		},
	)
	for _, c := range append(root.Commands(), root) {
		if args := c.Args; args != nil {
			c.Args = func(cmd *cobra.Command, a []string) error {
				if err := args(cmd, a); err != nil {
					return usageError(cmd.CommandPath()+" --help", "%w", err)
				}
				return nil
			}
		}
	}
	return root
}
