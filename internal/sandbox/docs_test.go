package sandbox

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// What docs/sandbox.md shows is what the parser reads: the example, and every
// statement of the tables with all that it may have and without.
func TestDocs(t *testing.T) {
	data, err := os.ReadFile("../../docs/sandbox.md")
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(data), "```\n")
	if len(parts) != 3 {
		t.Fatalf("%d code blocks", len(parts)/2)
	}
	if s, err := ParseScenario([]byte(parts[1])); err != nil || len(s.rules) != 4 {
		t.Errorf("example: %v, %+v", err, s)
	}
	optional := regexp.MustCompile(` \[[^]]*\]`)
	words := strings.NewReplacer("[", "", "]", "", "SHARE", "2% of calls", "WORD", "some-word")
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(parts[2], -1)
	if len(rows) != 12 {
		t.Errorf("%d statements", len(rows))
	}
	for _, row := range rows {
		for _, text := range []string{words.Replace(row[1]), words.Replace(optional.ReplaceAllString(row[1], ""))} {
			if _, err := ParseScenario([]byte(text)); err != nil {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
	for _, name := range Names() {
		if !strings.Contains(parts[0], "| `"+name+"` |") {
			t.Errorf("%s is not described", name)
		}
	}
}
