package nightgen

import (
	"bytes"
	"compress/gzip"
	stdcsv "encoding/csv"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"
)

const committed = "../../testdata/night"

// unpacked reads every file of a written night, decompressed: a newer
// compressor may write other bytes for the same records.
func unpacked(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		var r io.Reader = bytes.NewReader(data)
		switch filepath.Ext(e.Name()) {
		case ".gz":
			if r, err = gzip.NewReader(r); err != nil {
				t.Fatalf("%s: %v", e.Name(), err)
			}
		case ".zst":
			z, err := zstd.NewReader(r)
			if err != nil {
				t.Fatalf("%s: %v", e.Name(), err)
			}
			defer z.Close()
			r = z
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatalf("%s: %v", e.Name(), err)
		}
		out[e.Name()] = string(text)
	}
	return out
}

func TestCommittedNight(t *testing.T) {
	dir := t.TempDir()
	if _, err := Write(dir, Config{}); err != nil {
		t.Fatal(err)
	}
	want, got := unpacked(t, dir), unpacked(t, committed)
	if !maps.Equal(want, got) {
		for name := range want {
			if want[name] != got[name] {
				t.Errorf("%s differs", name)
			}
		}
		t.Fatal("make it anew: go run ./test/nightgen -out testdata/night")
	}
}

// reader counts a night by the rules, written down a second time and simpler,
// so that generator and reader cannot share a mistake.
type reader struct {
	counts  Counts
	content map[string]string // key -> record
	keys    map[string]string // station, date and spot -> key
}

type wire struct {
	SpotID  string            `json:"spot_id"`
	Key     string            `json:"idempotency_key"`
	Payload map[string]string `json:"payload"`
	Market  string            `json:"market"`
	Station string            `json:"station"`
	AirDate string            `json:"air_date"`
}

var patterns = map[string]*regexp.Regexp{
	"spot_id":         regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$`),
	"idempotency_key": regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._~:+=@/-]{7,254}$`),
	"station":         regexp.MustCompile(`^[A-Z][A-Z0-9]{2,6}(?:-[A-Z0-9]{1,4})?$`),
	"house_number":    regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9 ._/#-]{0,30}[A-Za-z0-9])?$`),
	"ad_id":           regexp.MustCompile(`^(?:[A-Z]{4}[0-9]{4}|[A-Z1-9][A-Z0-9]{10}|[A-Z1-9][A-Z0-9]{10}[HD])$`),
	"air_time":        regexp.MustCompile(`^(?:[01][0-9]|2[0-9]|30):[0-5][0-9]:[0-5][0-9]$`),
	"duration":        regexp.MustCompile(`^[0-9]{2}:[0-5][0-9]:[0-5][0-9](?:[:;][0-5][0-9])?$`),
	"break_number":    regexp.MustCompile(`^[0-9]{1,4}$`),
	"break_position":  regexp.MustCompile(`^[0-9]{1,4}$`),
}

func valid(w wire) bool {
	p := maps.Clone(w.Payload)
	p["spot_id"], p["idempotency_key"], p["station"] = w.SpotID, w.Key, w.Station
	for name, re := range patterns {
		if !re.MatchString(p[name]) {
			return false
		}
	}
	_, err := time.Parse(time.DateOnly, w.AirDate)
	return err == nil
}

func (r *reader) record(raw []byte, ok bool) {
	r.counts.Read++
	var w wire
	if ok {
		ok = json.Unmarshal(raw, &w, json.RejectUnknownMembers(true)) == nil && w.Payload != nil && valid(w)
	}
	if !ok {
		r.counts.Invalid++
		return
	}
	body, _ := json.Marshal(w, json.Deterministic(true))
	identity := w.Station + " " + w.AirDate + " " + w.SpotID
	before, known := r.content[w.Key]
	switch {
	case known && before == string(body):
		r.counts.Duplicate++
	case known || r.keys[identity] != "":
		r.counts.Conflict++
	default:
		r.counts.Valid++
		r.content[w.Key], r.keys[identity] = string(body), w.Key
	}
}

func (r *reader) rows(t *testing.T, text string, comma rune) {
	c := stdcsv.NewReader(strings.NewReader(text))
	c.Comma, c.FieldsPerRecord = comma, -1
	all, err := c.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, cells := range all[1:] {
		if len(cells) != len(all[0]) || !utf8.ValidString(strings.Join(cells, "")) {
			r.record(nil, false)
			continue
		}
		head, payload := map[string]any{}, map[string]string{}
		for i, name := range all[0] {
			switch name {
			case "spot_id", "idempotency_key", "market", "station", "air_date":
				head[name] = cells[i]
			default:
				payload[name] = cells[i]
			}
		}
		head["payload"] = payload
		raw, err := json.Marshal(head)
		r.record(raw, err == nil)
	}
}

func (r *reader) file(t *testing.T, name, text string) {
	text = strings.TrimPrefix(text, "\uFEFF")
	switch {
	case strings.Contains(name, ".csv"):
		r.rows(t, text, ',')
	case strings.Contains(name, ".tsv"):
		r.rows(t, text, '\t')
	case strings.Contains(name, ".ndjson"):
		for line := range strings.Lines(text) {
			r.record([]byte(strings.TrimRight(line, "\r\n")), true)
		}
	default:
		var all []jsontext.Value
		if err := json.Unmarshal([]byte(text), &all); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, raw := range all {
			r.record(raw, true)
		}
	}
}

func TestExpectedCounts(t *testing.T) {
	files := unpacked(t, committed)
	var want Counts
	data, err := os.ReadFile(ExpectedPath(committed))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	r := reader{counts: Counts{Files: len(files)}, content: map[string]string{}, keys: map[string]string{}}
	for name, text := range files { // in random order: it must not matter
		r.file(t, name, text)
	}
	if r.counts != want {
		t.Errorf("read %+v, the committed counts are %+v", r.counts, want)
	}
	if want.Read != want.Valid+want.Duplicate+want.Invalid+want.Conflict {
		t.Errorf("does not balance: %+v", want)
	}
}

func TestNightIsBelievable(t *testing.T) {
	packs, forms := map[Pack]int{}, map[form]int{}
	size, plain, stations, night := 0, 0, map[string]bool{}, ""
	first, across := map[string]string{}, 0 // the file a line was first seen in; lines seen in two
	for f := range Files(Config{}) {
		data, err := f.Packed()
		if err != nil {
			t.Fatal(err)
		}
		size += len(data)
		if f.Pack == Plain {
			plain++
			if len(data) > 40<<10 {
				t.Errorf("%s: %d bytes uncompressed", f.Name, len(data))
			}
		}
		packs[f.Pack]++
		night += string(f.Content)
		for line := range strings.Lines(string(f.Content)) {
			line = strings.TrimRight(line, "\r\n")
			if other, seen := first[line]; seen && other != f.Name && strings.Contains(line, "spot_id\":") {
				across++
			}
			first[line] = f.Name
		}
	}
	for _, m := range markets {
		forms[m.form]++
		for _, s := range m.stations {
			stations[s] = true
			if !strings.Contains(night, s) {
				t.Errorf("no record of %s", s)
			}
		}
	}
	if len(packs) != 3 || len(forms) != 4 {
		t.Errorf("files are packed as %v, in forms %v", packs, forms)
	}
	if across == 0 {
		t.Error("no record turns up in a second file")
	}
	if len(markets) != 36 || len(stations) != 40 || plain != 2 || size > 1<<20 {
		t.Errorf("%d markets, %d stations, %d plain files, %d bytes", len(markets), len(stations), plain, size)
	}
	for _, want := range []string{"\uFEFF", "\r\n", `"24:`, `"25:`, `"29:`, ";00", `"abc1234"`, "2026-02-30", "10:63:00", `"rate"`, "KZAQ-AM/FM", "\xE9"} {
		if !strings.Contains(night, want) {
			t.Errorf("nowhere in the night: %q", want)
		}
	}
}

func TestConfig(t *testing.T) {
	var clean, other Counts
	for f := range Files(Config{Seed: 9, Records: 1200, PerMille: -1}) {
		clean.add(f.Counts)
	}
	if clean != (Counts{Files: 36, Read: 1200, Valid: 1200}) {
		t.Errorf("a night without faults: %+v", clean)
	}
	for f := range Files(Config{Seed: 9, Records: 2000, PerMille: 100}) {
		other.add(f.Counts)
	}
	if other.Read != other.Valid+other.Duplicate+other.Invalid+other.Conflict || other.Invalid < 50 {
		t.Errorf("a bad night: %+v", other)
	}
}
