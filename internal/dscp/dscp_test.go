package dscp

import "testing"

func TestUsual(t *testing.T) {
	for class, name := range map[string]string{"bulk": "le", "interactive": "af21", "control": "ef"} {
		want, err := Parse(name)
		if got, ok := Usual(class); err != nil || !ok || got != want {
			t.Errorf("%s is %d, %v; want %s, %d", class, got, ok, name, want)
		}
	}
	if got, ok := Usual("none"); ok {
		t.Errorf("none is %d", got)
	}
}

func TestParse(t *testing.T) {
	for in, want := range map[string]int{"le": 1, "LE": 1, "cs1": 8, "af21": 18, "ef": 46, "0": 0, "63": 63, "0x2e": 46, "default": 0} {
		if got, err := Parse(in); err != nil || got != want {
			t.Errorf("%s is %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "64", "-1", "af14", "bulk", "256"} {
		if got, err := Parse(in); err == nil {
			t.Errorf("%q was taken for %d", in, got)
		}
	}
}
