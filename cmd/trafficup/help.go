package main

import (
	"slices"
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
		if !slices.Contains(allOptions, section) {
			section = ""
		}
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
func init() {
	cobra.AddTemplateFunc("flagGroups", flagGroups)
	cobra.AddTemplateFunc("exitTable", exitTable)
}

// deliveryExits are the codes of the commands that deliver, or read as these do.
const deliveryExits = `Exit status:
  0         every record acked, now or earlier
  1         failed: local fault (disk, permissions, internal)
  3         finished; some records need a person (invalid, rejected, conflict)
  4         finished or stopped early; some records wait: run it again
  5         not authorised
  6         another run holds the state directory
  7         input missing, empty, unreadable, truncated or still being written
  10        usage or configuration
  130, 143  SIGINT, SIGTERM: wound down cleanly
Where several hold, the first in this order wins: 1, 5, 10, 6, 130/143, 7, 4, 3.
An unknown code means failure.
`

// Lines of the tables of other commands.
const (
	faultLine   = "1         failed: local fault (disk, permissions, internal)"
	lettersLine = "7         a file of letters is missing, or part of it is unreadable"
	usageLine   = "10        usage or configuration"
	refusedLine = "10        usage, configuration, or refused: nothing was changed"

	failoverLine = "6         another failover holds the state directory"

	notConfirmedLine = "1         failed or not confirmed: all was taken back, unless it says that it stands"
)

// otherExits are the codes above 0 of commands that use more than 1 and 10 or
// mean something else by them, by their path below the program's name.
var otherExits = map[string][]string{
	"deadletters list":   {faultLine, lettersLine, usageLine},
	"deadletters show":   {faultLine, lettersLine, "10        usage or configuration; there is no such letter"},
	"deadletters export": {faultLine, "3         done; records of more than one line were left out", lettersLine, usageLine},
	"deadletters drop":   {faultLine, "6         a run holds the state directory", lettersLine, usageLine},
	"explain":            {faultLine, "10        usage or configuration; nothing is known of the record"},
	"state check":        {"1         something failed, or cannot be read", usageLine},
	"config check":       {faultLine, "10        usage; the configuration has mistakes"},
	"netshape":           {notConfirmedLine, refusedLine, "130, 143  SIGINT, SIGTERM: all was taken back, or nothing was measured"},
	"netshape plan":      {faultLine, refusedLine},
	"netshape apply":     {notConfirmedLine, refusedLine, "130, 143  SIGINT, SIGTERM: all was taken back"},
	"netshape clear":     {notConfirmedLine, refusedLine, "130, 143  SIGINT, SIGTERM: all was taken back"},
	"netshape confirm":   {"1         failed; or it stands, and is not kept for the next boot, which it says", "10        usage, or nothing waits for confirmation"},
	"netshape rollback":  {faultLine, "10        usage, or nothing waits for confirmation"},
	"netshape measure":   {faultLine, usageLine, "130, 143  SIGINT, SIGTERM"},
	"netshape watch":     {faultLine, refusedLine},
	"failover run":       {faultLine, failoverLine, usageLine},
	"failover once":      {faultLine, "4         no uplink carries, or none is known to: everything stays as it is", failoverLine, usageLine},
	"failover remove":    {faultLine, "6         a failover runs, and would put them back", usageLine},
	"failover simulate":  {faultLine, "7         a recording is missing, unreadable or says nothing", usageLine},
	"doctor":             {"1         something failed", usageLine, "130, 143  SIGINT, SIGTERM"},
}

// exitTable lists the codes that a command uses. The program's own help shows
// those of upload.
func exitTable(cmd *cobra.Command) string {
	_, name, _ := strings.Cut(cmd.CommandPath(), " ")
	switch name {
	case "", "upload", "replay", "validate":
		return deliveryExits
	}
	lines := otherExits[name]
	if lines == nil {
		lines = []string{faultLine, usageLine}
	}
	return "Exit status:\n  0         done\n  " + strings.Join(lines, "\n  ") + "\n"
}

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
