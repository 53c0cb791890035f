package main

import (
	"os/exec"
	"strings"
	"testing"
)

// The arrows between packages go one way.
func TestArrows(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "trafficup/internal/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		pkg, imports, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !strings.HasPrefix(pkg, "trafficup/") {
			continue
		}
		for _, dep := range strings.Fields(imports) {
			for _, no := range []string{"github.com/spf13/", "github.com/schollz/", "trafficup/cmd"} {
				if strings.HasPrefix(dep, no) {
					t.Errorf("%s imports %s: only the command may", pkg, dep)
				}
			}
			if pkg == "trafficup/internal/uploader" && strings.HasPrefix(dep, "trafficup/") && dep != "trafficup/internal/envelope" && dep != "trafficup/internal/histogram" {
				t.Errorf("%s imports %s: it declares what it needs instead", pkg, dep)
			}
		}
	}
}
