package envelope

import (
	"bytes"
	"encoding/json/v2"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func newValidator(t testing.TB, r Rules) *Validator {
	t.Helper()
	v, err := NewValidator(r)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

const full = `{"spot_id":"SP-2026-0717-0042","idempotency_key":"abc12345","payload":{"house_number":"WXYZ-0000482","note":"tab\there"},"market":"501","station":"WXYZ-FM","air_date":"2026-07-17"}`

func TestDecode(t *testing.T) {
	v := newValidator(t, Rules{})
	raw := []byte(" " + full + " \r\n")
	r, err := v.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	if r.SpotID != "SP-2026-0717-0042" || r.Key != "abc12345" || r.Market != "501" || r.Station != "WXYZ-FM" || r.AirDate != "2026-07-17" {
		t.Errorf("record %+v", r)
	}
	if string(r.Body) != `{"house_number":"WXYZ-0000482","note":"tab\there"}` || &r.Raw[0] != &raw[0] {
		t.Errorf("body %s", r.Body)
	}
}

func TestInvalid(t *testing.T) {
	v := newValidator(t, Rules{})
	env := func(payload string) string {
		return `{"spot_id":"S1","idempotency_key":"key-2026","payload":` + payload + `}`
	}
	for _, tt := range []struct{ in, want string }{
		{``, "not JSON: nothing there"},
		{`null`, "must be an object, found null"},
		{`[]`, "must be an object, found array"},
		{`{}`, "payload: missing"},
		{`{"payload":{"a":"b"}}`, "spot_id: missing"},
		{env(`{"a":"b"}`) + "{}", "more text after the record"},
		{env(`{"a":"b"}`) + ",", "more text after the record"},
		{env(`{"a":"b",}`), "not JSON at byte"},
		{env(`{"a":"b"`), "not JSON"},
		{env(`{"a":"b`)[:50], "cut off at byte"},
		{env(`{"a":1}`), "payload.a: must be text, found number"},
		{env(`{"a\nb":{}}`), "payload: control character U+000A in a member name"},
		{env(`{"":"x"}`), "payload: empty member name"},
		{env(`{"a":"\u0001"}`), "payload.a: control character U+0001"},
		{env(`{"a":"\u007f"}`), "payload.a: control character U+007F"},
		{env(`{"a":"` + "\ufffd" + `"}`), "payload.a: replacement character"},
		{env(`{"a":"\ufeff"}`), "payload.a: byte order mark"},
		{env(`{"a":"\ud800"}`), "not JSON at byte"},
		{env(`{"a":"x","a":"y"}`), "payload.a: duplicate member a"},
		{env(`{"a":"x","\u0061":"y"}`), "payload.a: duplicate member a"},
		{env(`{"a":{"b":{"c":1,"c":2}}}`), "payload.a.b.c: duplicate member c"},
		{env(`{"` + strings.Repeat("é", 129) + `":"x"}`), "longer than 128"},
		{env(`{` + manyMembers(65) + `}`), "payload: 65 members"},
		{env(`{"air_time":"31:00:00"}`), "payload.air_time: must be HH:MM:SS"},
		{env(`{"house_number":""}`), "payload.house_number: 0 characters"},
		{env(`{"a":"\xff"}`), "not JSON"},
		{strings.Replace(full, "2026-07-17", "2026-02-29", 1), "air_date: is no day"},
		{strings.Replace(full, "abc12345", "abc1234", 1), "idempotency_key: 7 characters"},
		{strings.Replace(full, `"501"`, `" 501"`, 1), "market: must not begin"},
		{strings.Replace(full, `"market"`, `"Market"`, 1), "unknown member Market"},
		{strings.Replace(full, `"market":"501"`, `"market":null`, 1), "market: must be text, found null"},
		{strings.Replace(full, `"market":"501"`, `"x":`+strings.Repeat("[", 40)+strings.Repeat("]", 40), 1), "nested deeper than 32"},
		{env(strings.Repeat("[", 100000)), "nested deeper than 32"},
		{env("{\"a\":\"\xe9\"}"), "not UTF-8 at byte 61 (0xE9)"},
		{env(`{"a":"` + strings.Repeat("x", MaxRecord) + `"}`), "at most 1048576 allowed"},
	} {
		_, err := v.Decode([]byte(tt.in))
		inv, ok := errors.AsType[*Invalid](err)
		if !ok || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.80s: %v, want %s", tt.in, err, tt.want)
			continue
		}
		if strings.HasPrefix(tt.in, `{"spot_id":"S1"`) && len(tt.in) < MaxRecord && inv.SpotID != "S1" {
			t.Errorf("%.80s: spot id %q", tt.in, inv.SpotID)
		}
	}
	if _, err := v.Decode([]byte(env(`{` + manyMembers(64) + `}`))); err != nil {
		t.Error(err)
	}
}

func manyMembers(n int) string {
	var m []string
	for i := range n {
		m = append(m, fmt.Sprintf(`"m%d":"x"`, i))
	}
	return strings.Join(m, ",")
}

func TestRules(t *testing.T) {
	for _, bad := range []Rules{
		{Require: []string{"payload"}}, {Fields: map[string]string{"isci": "off"}}, {Fields: map[string]string{"ad_id": "maybe"}},
	} {
		if _, err := NewValidator(bad); err == nil {
			t.Errorf("%+v: no error", bad)
		}
	}
	extra := []byte(strings.Replace(full, `"market"`, `"x":[{"y":null}],"market"`, 1))
	if _, err := newValidator(t, Rules{IgnoreExtra: true}).Decode(extra); err != nil {
		t.Error(err)
	}
	small := []byte(`{"spot_id":"S1","idempotency_key":"key-2026","payload":{"air_time":"25:99"}}`)
	if _, err := newValidator(t, Rules{Fields: map[string]string{"air_time": "off"}}).Decode(small); err != nil {
		t.Error(err)
	}
	_, err := newValidator(t, Rules{Require: []string{"station"}, Fields: map[string]string{"air_time": "off"}}).Decode(small)
	if err == nil || err.Error() != "station: missing" {
		t.Error(err)
	}
	_, err = newValidator(t, Rules{Fields: map[string]string{"ad_id": "required", "air_time": "off"}}).Decode(small)
	if err == nil || err.Error() != "payload.ad_id: missing" {
		t.Error(err)
	}
}

// The patterns of the schema, which the rules have to agree with.
var patterns = map[slot]struct {
	re       string
	min, max int
}{
	spotID:      {`^[A-Za-z0-9][A-Za-z0-9._:-]*$`, 1, 64},
	key:         {`^[A-Za-z0-9][A-Za-z0-9._~:+=@/-]*$`, 8, 255},
	station:     {`^[A-Z][A-Z0-9]{2,6}(?:-[A-Z0-9]{1,4})?$`, 0, 1000},
	houseNumber: {`^[A-Za-z0-9](?:[A-Za-z0-9 ._/#-]*[A-Za-z0-9])?$`, 1, 32},
	adID:        {`^(?:[A-Z]{4}[0-9]{4}|[A-Z1-9][A-Z0-9]{10}|[A-Z1-9][A-Z0-9]{10}[HD])$`, 0, 1000},
	airTime:     {`^(?:[01][0-9]|2[0-9]|30):[0-5][0-9]:[0-5][0-9]$`, 0, 1000},
	duration:    {`^[0-9]{2}:[0-5][0-9]:[0-5][0-9](?:[:;][0-5][0-9])?$`, 0, 1000},
	breakNumber: {`^[0-9]{1,4}$`, 0, 1000},
}

func TestChecksFollowSchema(t *testing.T) {
	for s, p := range patterns {
		re := regexp.MustCompile(p.re)
		rapid.Check(t, func(t *rapid.T) {
			text := rapid.OneOf(
				rapid.StringMatching(p.re),
				rapid.Map(rapid.StringMatching(p.re), func(s string) string { return s + "9" }),
				rapid.StringMatching(`[0-9:;A-Z\n -]{0,13}`), rapid.String(),
			).Draw(t, "text")
			n := utf8.RuneCountInString(text)
			want := re.MatchString(text) && n >= p.min && n <= p.max
			if why := slotChecks[s](text); (why == "") != want {
				t.Fatalf("%s: %q: %q, the schema says %v", members[s], text, why, want)
			}
		})
	}
}

func TestDeriveKey(t *testing.T) {
	// Computed apart: python hashlib and base64 over the same parts.
	const want = "tu1-ebi7b5ap52vtwwykkxslpehvagw6h6xx"
	if got := DeriveKey("WXYZ", "2026-07-17", "S1", []byte(`{"a":"b"}`)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if DeriveKey("A", "B", "", nil) == DeriveKey("AB", "", "", nil) {
		t.Error("parts run together")
	}
}

func BenchmarkDecode(b *testing.B) {
	v := newValidator(b, Rules{})
	raw := []byte(full)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.Decode(raw); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	v := newValidator(f, Rules{})
	f.Add([]byte(full))
	f.Add([]byte(`{"spot_id":"\ud800","payload":{"a":1}}`))
	f.Add([]byte("{\"spot_id\":\"\xff\"}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := bytes.Clone(raw)
		r, err := v.Decode(raw)
		if !bytes.Equal(raw, before) {
			t.Fatal("input changed")
		}
		if err != nil {
			inv, ok := errors.AsType[*Invalid](err)
			if !ok || inv.Reason == "" || inv.Offset > int64(len(raw)) {
				t.Fatalf("%#v", err)
			}
			if strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' || r == 0x7f || r == '\u2028' }) {
				t.Fatalf("%q is not one line", err.Error())
			}
			return
		}
		var twin struct {
			SpotID  string            `json:"spot_id"`
			Key     string            `json:"idempotency_key"`
			Payload map[string]string `json:"payload"`
		}
		if err := json.Unmarshal(raw, &twin); err != nil || twin.SpotID != r.SpotID || twin.Key != r.Key {
			t.Fatalf("%+v, the standard decoder says %+v, %v", r, twin, err)
		}
		var body map[string]string
		if err := json.Unmarshal(r.Body, &body); err != nil || len(body) != len(twin.Payload) {
			t.Fatalf("body %s: %v", r.Body, err)
		}
	})
}
