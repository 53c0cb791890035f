package dscpmark

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"testing"
	"time"

	"trafficup/internal/nstest"
)

// As many uplinks as are taken can be read back, by who comes anew, too; one more
// is refused by name before anything is asked of the kernel.
func TestManyUplinks(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	cfg := example
	cfg.Table = "a_table_of_the_longest_name_0123"
	cfg.Interfaces = nil
	for i := range maxInterfaces {
		cfg.Interfaces = append(cfg.Interfaces, fmt.Sprintf("uplink_number%02d", i))
	}
	apply(t, l.edge, cfg)
	s := nstest.Inside(t, l.edge, func() (State, error) { return Read(cfg.Table) })
	if want, err := Fingerprint(cfg); err != nil || s.Fingerprint != want {
		t.Errorf("%v, %s", err, s.Damage)
	}
	cfg.Interfaces = append(cfg.Interfaces, "more")
	for _, try := range []func(Config) error{Apply, Check, Config.Validate} {
		if err := try(cfg); !errors.Is(err, ErrManyUplinks) {
			t.Error(err)
		}
	}
}

// A table with an owner is told of as such, and not as a want of rights.
func TestOwnedTable(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	nft := exec.Command("ip", "netns", "exec", l.edge, "nft", "-i")
	words, err := nft.StdinPipe()
	if err == nil {
		err = nft.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = words.Close(), nft.Wait() }()
	if _, err := io.WriteString(words, "add table inet trafficup { flags owner; }\n"); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if readIn(t, l.edge).Present {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	s := readIn(t, l.edge)
	if !s.Present {
		t.Skip("this nft or kernel gives tables no owner")
	}
	if !s.Owned || s.Fingerprint != "" {
		t.Errorf("%+v", s)
	}
	for what, do := range map[string]func() error{
		"apply": func() error { return Apply(example) }, "check": func() error { return Check(example) }, "delete": func() error { return Delete("") },
	} {
		if _, err := nstest.TryInside(l.edge, func() (any, error) { return nil, do() }); !errors.Is(err, ErrOwned) || errors.Is(err, ErrPermission) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
