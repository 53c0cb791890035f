package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"trafficup/testdata/scenarios"
)

// ErrUnknownScenario is returned by [Builtin] for a name that is neither a
// built-in scenario nor a file.
var ErrUnknownScenario = errors.New("unknown scenario")

// Names returns the built-in scenarios, sorted.
func Names() []string {
	files, _ := fs.Glob(scenarios.Files, "*.scenario") // the pattern is constant and good
	for i, f := range files {
		files[i] = strings.TrimSuffix(f, ".scenario")
	}
	return files
}

// Builtin returns the built-in scenario of that name; "" is calm. Any other
// name is read as the path of a scenario file. Errors wrap
// [ErrUnknownScenario] or [ErrScenario].
func Builtin(name string) (Scenario, error) {
	if name == "" {
		name = "calm"
	}
	data, err := fs.ReadFile(scenarios.Files, name+".scenario")
	if err != nil {
		data, err = os.ReadFile(name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return Scenario{}, fmt.Errorf("%w %q: neither a file nor one of %s", ErrUnknownScenario, name, strings.Join(Names(), ", "))
	}
	if err != nil {
		return Scenario{}, fmt.Errorf("read scenario: %w", err)
	}
	s, err := ParseScenario(data)
	if err != nil {
		return Scenario{}, fmt.Errorf("%s: %w", name, err)
	}
	s.Name = name
	return s, nil
}
