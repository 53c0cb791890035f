package edgelab

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"testing"
)

// together is how many tests run at once, unless it is said. They mostly wait, but
// a machine that is busy loses the answers to probes.
const together = 8

func TestMain(m *testing.M) {
	flag.Parse()
	if p := flag.Lookup("test.parallel"); p.Value.String() == p.DefValue {
		_ = flag.Set("test.parallel", strconv.Itoa(together)) // it is a number
	}
	code := m.Run()
	if dir, err := workshop(); err == nil {
		_ = os.RemoveAll(dir) // it is below the system's directory for such
	}
	os.Exit(code)
}

var workshop = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "edgelab") })

// program builds trafficup, once. The detector of races looks at the packages'
// own tests, which need no network that is real.
func program(t *testing.T) string {
	t.Helper()
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("the program is not built for the race detector")
	}
	path, err := built()
	fatal(t, err)
	return path
}

var built = sync.OnceValues(func() (string, error) {
	dir, err := workshop()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "trafficup")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", path, "trafficup/cmd/trafficup")
	cmd.Stderr = os.Stderr
	return path, cmd.Run()
})

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// needs ends a test that lacks a part: with an error where all is to be tried.
func needs(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal("this needs " + what)
	}
	t.Skip("this needs " + what)
}
