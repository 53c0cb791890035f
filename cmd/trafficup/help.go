package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"trafficup/internal/config"
)

// flagGroups lists the flags of a command by what they are for.
func flagGroups(cmd *cobra.Command) string {
	groups := map[string]*pflag.FlagSet{}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		section := strings.Join(f.Annotations["section"], "")
		if groups[section] == nil {
			groups[section] = pflag.NewFlagSet("", pflag.ContinueOnError)
		}
		groups[section].AddFlag(f)
	})
	var b strings.Builder
	for _, section := range append([]string{""}, allOptions...) {
		g := groups[section]
		if g == nil || !g.HasAvailableFlags() {
			continue
		}
		title := "Flags"
		if section != "" {
			title = "Flags for " + config.SectionHelp(section)
		}
		b.WriteString("\n" + title + ":\n" + g.FlagUsagesWrapped(100))
	}
	return b.String()
}

// Its functions are all commands' alone: to be set once.
func init() { cobra.AddTemplateFunc("flagGroups", flagGroups) }

// usageTemplate is cobra's with the flags in groups.
const usageTemplate = `Usage:{{if .Runnable}}
  {{.UseLine}}{{end}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} [command]{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if or .IsAvailableCommand (eq .Name "help")}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}
{{flagGroups .}}{{if .HasAvailableInheritedFlags}}
Global flags:
{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}
{{end}}{{if .HasAvailableSubCommands}}
{{.CommandPath}} [command] --help says more about a command.
{{end}}`
