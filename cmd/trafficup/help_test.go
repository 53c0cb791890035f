package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var codeOfTable = regexp.MustCompile(`(?m)^  (\d+(?:, \d+)?) +\S`)

// Every command lists its own codes: those that deliver all of them, the others
// what they use.
func TestExitTables(t *testing.T) {
	all := []string{"0", "1", "3", "4", "5", "6", "7", "10", "130, 143"}
	most := map[string][]string{
		"": all, "upload": all, "replay": all, "validate": all,
		"deadletters list": {"0", "1", "7", "10"}, "deadletters show": {"0", "1", "7", "10"},
		"deadletters export": {"0", "1", "3", "7", "10"}, "deadletters drop": {"0", "1", "6", "7", "10"},
		"failover run": {"0", "1", "6", "10"}, "failover once": {"0", "1", "4", "6", "10"}, "failover remove": {"0", "1", "6", "10"}, "failover simulate": {"0", "1", "7", "10"},
		"doctor": {"0", "1", "10", "130, 143"}, "netshape apply": {"0", "1", "10", "130, 143"}, "netshape clear": {"0", "1", "10", "130, 143"},
		"netshape": {"0", "1", "10", "130, 143"}, "netshape measure": {"0", "1", "10", "130, 143"},
	}
	var asJSON bool
	known := map[string]bool{}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		_, name, _ := strings.Cut(cmd.CommandPath(), " ")
		known[name] = true
		want := most[name]
		if want == nil {
			want = []string{"0", "1", "10"}
		}
		var got []string
		for _, m := range codeOfTable.FindAllStringSubmatch(exitTable(cmd), -1) {
			got = append(got, m[1])
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q lists %q, want %q", name, got, want)
		}
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk(newRootCommand(new(system), &asJSON))
	for name := range otherExits {
		if !known[name] {
			t.Errorf("there is no command %q", name)
		}
	}
}
