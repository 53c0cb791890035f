package source_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"trafficup/internal/envelope"
	"trafficup/internal/source"
)

const cases = "../../testdata/cases"

// tally is what becomes of a file: read, decoded, and held by its keys as a run
// would do it.
type tally struct {
	sent, rejected int
	reasons        []string
	lines          []int64 // of the sent
	records        []envelope.Record
	duplicate      int
	conflict       int
	refused        *source.FileError // by Open
	end            *source.FileError // behind the records
	cutOff         int
}

func run(t *testing.T, path string, o source.Options) tally {
	t.Helper()
	return runRules(t, path, o, envelope.Rules{})
}

func runRules(t *testing.T, path string, o source.Options, rules envelope.Rules) (out tally) {
	t.Helper()
	v, err := envelope.NewValidator(rules)
	if err != nil {
		t.Fatal(err)
	}
	r, err := source.Open(path, o)
	if err != nil {
		if out.refused, _ = errors.AsType[*source.FileError](err); out.refused == nil {
			t.Fatalf("open: %T is no *FileError", err)
		}
		return out
	}
	defer r.Close()
	bodies, spots := map[string]string{}, map[string]string{}
	for {
		it, err := r.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			if out.end, _ = errors.AsType[*source.FileError](err); out.end == nil {
				t.Fatalf("next: %T is no *FileError", err)
			}
			if _, err := r.Next(); err != io.EOF {
				t.Errorf("after the file error: %v, want io.EOF", err)
			}
			return out
		}
		if it.Reject != nil {
			out.rejected++
			out.reasons = append(out.reasons, it.Reject.Reason)
			if it.Reject.CutOff {
				out.cutOff++
			}
			if len(it.Reject.Sample) > 1024 {
				t.Errorf("sample of %d bytes", len(it.Reject.Sample))
			}
			continue
		}
		rec, err := v.Decode(bytes.Clone(it.Raw))
		if err != nil {
			out.rejected++
			out.reasons = append(out.reasons, err.Error())
			continue
		}
		spot := rec.Station + "\x00" + rec.AirDate + "\x00" + rec.SpotID
		if body, seen := bodies[rec.Key]; seen {
			if body == string(rec.Body) {
				out.duplicate++
			} else {
				out.conflict++
			}
			continue
		}
		if rec.Station != "" && rec.AirDate != "" {
			if k, seen := spots[spot]; seen && k != rec.Key {
				out.conflict++
				continue
			}
			spots[spot] = rec.Key
		}
		bodies[rec.Key] = string(rec.Body)
		out.sent++
		out.lines = append(out.lines, it.Line)
		out.records = append(out.records, rec)
	}
}

func table(t *testing.T, name string) (rows [][]string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(cases, name))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range strings.Split(strings.TrimSpace(string(b)), "\n")[1:] {
		rows = append(rows, strings.Split(l, "\t"))
	}
	return rows
}

// within reads "3", "1-2" or ">=1".
func within(n int, s string) (ok, isNumber bool) {
	if rest, ok := strings.CutPrefix(s, ">="); ok {
		lo, err := strconv.Atoi(rest)
		return n >= lo, err == nil
	}
	lo, hi, isRange := strings.Cut(s, "-")
	if !isRange {
		hi = lo
	}
	a, err1 := strconv.Atoi(lo)
	b, err2 := strconv.Atoi(hi)
	return a <= n && n <= b, err1 == nil && err2 == nil
}

// exact are the rows of the table in free text or with a choice, decided.
var exact = map[string]struct {
	sent, rejected int
	fault          error // of the file
}{
	"INP-01_bom-midfile.ndjson":         {sent: 3},                           // a mark at a line start is dropped
	"INP-06_nul-run-prefix.ndjson":      {sent: 2},                           // the run is skipped
	"INP-06_nul-escape.ndjson":          {sent: 1, rejected: 1},              // control characters are refused in values
	"INP-10_trailing-junk.ndjson.gz":    {sent: 3, fault: source.ErrRefused}, // an error, after all records
	"INP-12_zstd-named-ndjson.ndjson":   {sent: 3},                           // read by content, as the next three
	"INP-12_gzip-named-ndjson.ndjson":   {sent: 3},                           //
	"INP-12_plain-named-gz.ndjson.gz":   {sent: 3},                           //
	"INP-12_csv-named-ndjson.ndjson":    {sent: 2},                           //
	"INP-14_trailing-comma.ndjson":      {rejected: 2},                       // one rule for both lines: refused, the reason says so
	"INP-14_json-array.ndjson":          {sent: 2},                           // an array is an accepted form
	"INP-15_cut-last-record.ndjson":     {2, 1, source.ErrTruncated},         //
	"INP-19_name-case.ndjson":           {sent: 1, rejected: 3},              //
	"INP-23_payload-types.ndjson":       {sent: 1, rejected: 10},             // empty map and empty name are refused
	"INP-25_bare-quotes.csv":            {sent: 2, rejected: 1},              // IT"S is text, "Box" tail is not
	"INP-25_unclosed-quote.csv":         {sent: 499, rejected: 1},            // only the row of the open quote
	"INP-27_header-forms.csv":           {sent: 1},                           // case and outer blanks do not matter
	"INP-27_header-twins.csv":           {fault: source.ErrRefused},          //
	"INP-27_header-missing-key.csv":     {fault: source.ErrRefused},          //
	"INP-32_header-unsafe-keys.ndjson":  {sent: 2, rejected: 8},              //
	"INP-39_log-forging.ndjson":         {sent: 1, rejected: 3},              //
	"TIM-01_air-times.ndjson":           {sent: 6, rejected: 13},             // air_time is checked, not opaque: HH:MM:SS, 00-30
	"TIM-01_air-times.csv":              {sent: 6, rejected: 13},             // the same
	"INP-11_bomb-256MiB-line.ndjson.gz": {sent: 2, rejected: 1},              // the line unfolds to 256 MiB
	"INP-22_deep-100k.ndjson":           {sent: 2, rejected: 1},              //
	"INP-06_nul-in-value.csv":           {sent: 1, rejected: 1},              //
	"INP-08_two-members.ndjson.gz":      {sent: 3},                           //
	"INP-10_zero-padded.ndjson.gz":      {sent: 3},                           //
	"INP-07_line-10MiB.ndjson":          {sent: 2, rejected: 1},              //
}

func TestManifest(t *testing.T) {
	for _, row := range table(t, "MANIFEST.tsv") {
		file, wantSent, wantRejected := row[1], row[4], row[5]
		t.Run(file, func(t *testing.T) {
			path := filepath.Join(cases, "files", file)
			if file == "INP-07_line-10MiB.ndjson" {
				path = filepath.Join(t.TempDir(), file)
				long := `{"spot_id": "S002", "idempotency_key": "key-2026-002", "payload": {"title": "` + strings.Repeat("x", 10<<20) + `"}}`
				if err := os.WriteFile(path, []byte(good(1)+"\n"+long+"\n"+good(3)+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got := run(t, path, source.Options{})
			t.Logf("sent %d rejected %d duplicate %d conflict %d refused %v end %v: %q", got.sent, got.rejected, got.duplicate, got.conflict, got.refused, got.end, clip(got.reasons))
			if want, ok := exact[file]; ok {
				fault := got.end
				if got.refused != nil {
					fault = got.refused
				}
				if got.sent != want.sent || got.rejected != want.rejected {
					t.Errorf("sent %d, rejected %d, want %d and %d", got.sent, got.rejected, want.sent, want.rejected)
				}
				if (fault == nil) != (want.fault == nil) || fault != nil && !errors.Is(fault, want.fault) {
					t.Errorf("fault %v, want %v", fault, want.fault)
				}
			} else if got.refused != nil || got.end != nil {
				t.Errorf("file fault: %v %v", got.refused, got.end)
			}
			if ok, num := within(got.sent, wantSent); num && !ok {
				t.Errorf("sent %d, the table says %s", got.sent, wantSent)
			}
			// A row whose sent column is prose holds under a condition that is decided above.
			_, plain := within(0, wantSent)
			if ok, num := within(got.rejected+got.conflict, wantRejected); plain && num && !ok {
				t.Errorf("rejected %d, the table says %s", got.rejected+got.conflict, wantRejected)
			}
			if _, decided := exact[file]; !decided && !plain {
				t.Errorf("row %q is not decided", wantSent)
			}
		})
	}
}

func clip(reasons []string) []string {
	if len(reasons) > 20 {
		reasons = reasons[:20]
	}
	return reasons
}

func good(n int) string {
	return fmt.Sprintf(`{"spot_id": "S%03d", "idempotency_key": "key-2026-%03d", "payload": {"title": "Spot %d", "length": "30"}}`, n, n, n)
}

func TestExpected(t *testing.T) {
	// The right_behaviour column is prose; this is what it says in numbers.
	want := map[string]struct {
		sent, rejected, duplicate, conflict int
		fault                               error
		reason                              string
	}{
		"E01_utf8_bom.ndjson":               {sent: 2},
		"E02_utf16le_bom.ndjson":            {sent: 2},
		"E03_trailing_ctrl_z.ndjson":        {sent: 2},
		"E04_windows1252_title.ndjson":      {rejected: 1, reason: "not UTF-8 at byte"},
		"E06_duplicate_identical.ndjson":    {sent: 1, duplicate: 1},
		"E07_same_key_other_content.ndjson": {sent: 1, conflict: 1},
		"E08_same_spot_other_key.ndjson":    {sent: 1, conflict: 1},
		"E10_short_key.ndjson":              {rejected: 1, reason: "idempotency_key: 7 characters, at least 8"},
		"E11_payload_not_text.ndjson":       {rejected: 6, reason: "payload.house_number: must be text, found number"},
		"E12_repeated_member.ndjson":        {rejected: 1, reason: "duplicate member spot_id"},
		"E13_member_case.ndjson":            {rejected: 1, reason: "unknown member"},
		"E15_crlf_blank_lines.ndjson":       {sent: 2},
		"E16_cut_off.ndjson":                {sent: 1, rejected: 1, fault: source.ErrTruncated, reason: "cut off"},
		"E17_empty.ndjson":                  {fault: source.ErrEmpty},
		"E19_markup_characters.ndjson":      {sent: 1},
		"E20_leading_zeros.ndjson":          {sent: 3},
		"E24_array_file.json":               {sent: 2},
		"E26_copy_of_E06.ndjson":            {sent: 1, duplicate: 1}, // across files the ledger holds it
	}
	for _, row := range table(t, "EXPECTED.tsv") {
		t.Run(row[0], func(t *testing.T) {
			w, ok := want[row[0]]
			if !ok {
				t.Fatal("not decided")
			}
			got := run(t, filepath.Join(cases, "envelopes", row[0]), source.Options{})
			fault := got.end
			if got.refused != nil {
				fault = got.refused
			}
			if got.sent != w.sent || got.rejected != w.rejected || got.duplicate != w.duplicate || got.conflict != w.conflict {
				t.Errorf("got %+v, want %+v", got, w)
			}
			if (fault == nil) != (w.fault == nil) || fault != nil && !errors.Is(fault, w.fault) {
				t.Errorf("fault %v, want %v", fault, w.fault)
			}
			if w.reason != "" && !strings.Contains(got.reasons[0], w.reason) {
				t.Errorf("reason %q does not say %q", got.reasons[0], w.reason)
			}
		})
	}
}
