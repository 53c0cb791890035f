package doctor

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestSecret(t *testing.T) {
	name := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(name, []byte("CANARY"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, []Finding{Secret(name, false), SecretWithin(name)}, "ok secret: for its owner alone", "ok secret: for its owner alone")
	if err := os.Chmod(name, 0o644); err != nil {
		t.Fatal(err)
	}
	expect(t, []Finding{Secret(name, false), SecretWithin(name), Secret(name, true)},
		"warning secret: mode 0644", "warning secret: mode 0644", "ok secret: service manager")
	expect(t, []Finding{Secret(name+"x", false), SecretWithin(name + "x"), Secret(filepath.Dir(name), false)},
		"failed secret: no such file", "failed secret: no such file", "failed secret: not a regular file")
}

func TestCertificate(t *testing.T) {
	now, dir := time.Now(), t.TempDir()
	file := func(name string, content []byte, mode os.FileMode) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, content, mode); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for name, c := range map[string]struct {
		from, to time.Duration
		mode     os.FileMode
		want     []string
	}{
		"good":    {-day, 100 * day, 0o600, []string{"ok certificate: belongs to its key; issued by trafficup test, it ends on"}},
		"open":    {-day, 100 * day, 0o640, []string{"ok certificate: ", "warning certificate: is open to others (mode 0640)"}},
		"soon":    {-day, 10 * day, 0o600, []string{"warning certificate: in 9 days"}},
		"expired": {-2 * day, -day, 0o600, []string{"failed certificate: ended on"}},
		"early":   {day, 100 * day, 0o600, []string{"failed certificate: begins on"}},
	} {
		_, cert, key := newCert(t, now.Add(c.from), now.Add(c.to))
		expect(t, Certificate(file(name+".pem", cert, 0o644), file(name+".key", key, c.mode), now), c.want...)
	}
	expect(t, Certificate(filepath.Join(dir, "good.pem"), filepath.Join(dir, "open.key"), now), "failed certificate: belong together")
	expect(t, Certificate(filepath.Join(dir, "none"), filepath.Join(dir, "open.key"), now), "failed certificate: no such file")
}
