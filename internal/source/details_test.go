package source_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"trafficup/internal/envelope"
	"trafficup/internal/source"
)

func TestCaseDetails(t *testing.T) {
	for _, f := range []string{"TIM-01_air-times.ndjson", "TIM-01_air-times.csv"} {
		opaque := runRules(t, filepath.Join(cases, "files", f), source.Options{}, envelope.Rules{Fields: map[string]string{"air_time": "off"}})
		if opaque.sent != 19 || opaque.rejected != 0 {
			t.Errorf("%s with air_time off: sent %d, rejected %d, want 19 and 0", f, opaque.sent, opaque.rejected)
		}
	}
	blank := run(t, filepath.Join(cases, "files/INP-16_blank-lines.ndjson"), source.Options{})
	if fmt.Sprint(blank.lines) != "[2 6]" {
		t.Errorf("records at lines %v, want 2 and 6", blank.lines)
	}
	mixed := run(t, filepath.Join(cases, "files/INP-04_mixed-eol.csv"), source.Options{})
	for _, r := range mixed.records {
		if !bytes.HasSuffix(r.Body, []byte(`"length":"30"}`)) {
			t.Errorf("body %s", r.Body)
		}
	}
	both := run(t, filepath.Join(cases, "files/INP-19_name-case.ndjson"), source.Options{})
	if string(both.records[0].Body) != `{"Title": "A", "title": "B"}` {
		t.Errorf("body %s", both.records[0].Body)
	}
	esc := run(t, filepath.Join(cases, "files/INP-34_escapes.ndjson"), source.Options{})
	raw, _ := os.ReadFile(filepath.Join(cases, "files/INP-34_escapes.ndjson"))
	for _, r := range esc.records {
		if !bytes.Contains(raw, r.Body) {
			t.Errorf("body is not the bytes of the file: %s", r.Body)
		}
	}
	missing := run(t, filepath.Join(cases, "files/INP-27_header-missing-key.csv"), source.Options{})
	if !strings.Contains(missing.refused.Hint, "--derive-keys") {
		t.Errorf("hint %q", missing.refused.Hint)
	}
	derived := run(t, filepath.Join(cases, "files/INP-27_header-missing-key.csv"), source.Options{DeriveKeys: true})
	if derived.sent != 2 || !strings.HasPrefix(derived.records[0].Key, "tu1-") {
		t.Errorf("derived %+v", derived)
	}
	r := derived.records[0]
	if r.Key != envelope.DeriveKey("", "", "S001", r.Body) {
		t.Errorf("key %s is not the one of the body %s", r.Key, r.Body)
	}
	comma := run(t, filepath.Join(cases, "files/INP-14_trailing-comma.ndjson"), source.Options{})
	if !strings.Contains(comma.reasons[0], "trailing comma") {
		t.Errorf("reason %q", comma.reasons[0])
	}
}
