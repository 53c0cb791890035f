package config

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func messages(err error) []string {
	e, ok := err.(*Error)
	if !ok {
		return nil
	}
	var all []string
	for _, f := range e.Faults {
		all = append(all, f.String())
	}
	return all
}

// Five mistakes are five messages, each with its line and what would be right.
func TestEveryMistakeAtOnce(t *testing.T) {
	path := write(t, "trafficup.yaml", `api:
  primary: api.test/v1
upload:
  concurency: 4
  deadline: 300
retry:
  cap: 10ms
maintenance:
  - {path: primary, from: 02:00, to: "08:00"}
`)
	_, err := Load(Sources{File: path})
	want := []string{
		path + `:2: api.primary: "api.test/v1": write it with its scheme, such as https://api.example/v1/logs`,
		path + ":4: unknown key upload.concurency; did you mean upload.concurrency?",
		path + `:5: upload.deadline: "300": has no unit: write 300ms, 300s or 300m`,
		path + `:7: retry.cap: "10ms": not below retry.base, which is 500ms`,
		path + `:9: maintenance[0].from: 02:00 has to stand in quotes: write "02:00"`,
	}
	if got := messages(err); !slices.Equal(got, want) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if !strings.HasPrefix(err.Error(), "configuration: 5 mistakes\n") {
		t.Error(err)
	}
}

func TestLayers(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	put("common.yaml", "upload: {queue_size: 10, rate: 5}\napi: {headers: {X-Group: a, X-Other: b}}\nretry: {status: [500, 503]}\n")
	path := put("market.yaml", "include: [common.yaml]\nupload: {rate: 6, burst: 2}\napi: {headers: {X-Group: c}}\nretry: {status: 429}\n")
	l, err := Load(Sources{
		Environ: []string{"TRAFFICUP_CONFIG=" + path, "TRAFFICUP_UPLOAD_BURST=3", "TRAFFICUP_RETRY_CAP=1m", "TRAFFICUP_PORT=tcp://10.0.0.1:80", "TRAFFICUP_API_HEADERS=X-New=d"},
		Flags:   []Setting{{"retry.cap", "2m", "--backoff-cap"}, {"paths.leo.url", "https://h/x", "--set"}, {"paths.leo.http", "2", "--set"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ key, value, origin string }{
		{"upload.queue_size", "10", filepath.Join(dir, "common.yaml") + ":1"},
		{"upload.rate", "6", path + ":2"},
		{"upload.burst", "3", "$TRAFFICUP_UPLOAD_BURST"},
		{"retry.cap", "2m", "--backoff-cap"},
		{"retry.base", "500ms", "default"},
		{"retry.status", "[429]", path + ":4"},
	} {
		if got := l.Value(c.key); got != c.value {
			t.Errorf("%s = %s, want %s", c.key, got, c.value)
		}
		if got := l.Origin(c.key).String(); got != c.origin {
			t.Errorf("%s from %s, want %s", c.key, got, c.origin)
		}
	}
	for name, want := range map[string]string{"X-Group": "c", "X-Other": "b", "X-New": "d"} {
		if got := l.API.Headers[name].Reveal(); got != want {
			t.Errorf("header %s = %q, want %q", name, got, want)
		}
	}
	if p := l.Paths["leo"]; p.URL != "https://h/x" || p.HTTP != 2 {
		t.Errorf("paths.leo = %+v", p)
	}
	if !slices.Equal(l.Files, []string{filepath.Join(dir, "common.yaml"), path}) {
		t.Error(l.Files)
	}
}

func TestMistakes(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		env  []string
		set  []Setting
		want string // in one of the messages
	}{
		"unknown section":      {file: "uplaod: {rate: 1}", want: "unknown key uplaod; did you mean upload?"},
		"key of another":       {file: "concurrency: 8", want: "did you mean upload.concurrency?"},
		"flag for key":         {file: "upload: {backoff-cap: 8s}", want: "did you mean retry.cap?"},
		"twice":                {file: "upload: {rate: 1, rate: 2}", want: "upload.rate: is there twice, first on line 1"},
		"null":                 {file: "upload: {rate: }", want: "upload.rate: has no value"},
		"list for word":        {file: "upload: {rate: [1]}", want: "is a list; write a single value, such as 0.5"},
		"word for section":     {file: "upload: 8", want: "upload: is a single value; write keys with their values"},
		"section for list":     {file: "retry: {status: {a: 1}}", want: "is a section; write a list, such as [8]"},
		"tabs":                 {file: "upload:\n\trate: 1", want: "trafficup.yaml:2: no YAML"},
		"two documents":        {file: "upload: {rate: 1}\n---\nupload: {rate: 2}", want: "more than one document"},
		"merge key":            {file: "retry: &r {cap: 5s}\nbreaker: {<<: *r}", want: "merging with << is not read"},
		"size without unit":    {file: "upload: {fallback_quota: 50}", want: "write 50MB"},
		"nothing":              {file: "upload: {fallback_quota: 0MB}", want: "nothing at all"},
		"share":                {file: "upload: {canary_fallback: 2}", want: "write a percentage"},
		"concurrency":          {file: "upload: {concurrency: 0}", want: "write auto, or a number from 1 to 1024"},
		"too many":             {file: "upload: {max_concurrency: 5000}", want: `"5000": at most 1024`},
		"seldom":               {file: "failover: {interval: 11s}", want: `"11s": at most 10s`},
		"more than remembered": {file: "failover: {down: 61}", want: `"61": at most 60`},
		"no end of an answer":  {file: "failover: {targets: [{http: \"http://192.0.2.7/\", status: 100}]}", want: `"100": at least 200`},
		"negative":             {file: "upload: {settle: -1s}", want: `"-1s": at least 0`},
		"enum":                 {file: "breaker: {store: flie}", want: `"flie": one of file, memory, redis; did you mean file?`},
		"not a number":         {file: "upload: {rate: .nan}", want: "write a number such as 0.5"},
		"header name":          {file: `api: {headers: {"X Y": a}}`, want: "no header has such a name"},
		"key without cert":     {file: "api: {tls: {key_file: k}}", want: "api.tls.cert_file: is missing: api.tls.key_file is of no use alone"},
		"window without start": {file: "maintenance: [{path: primary, to: \"02:00\"}]", want: "maintenance[0].from: is missing"},
		"no address":           {file: "paths: {leo: {url: \"http://h/\", source: eth0}}", want: "paths.leo.source: \"eth0\": write an IP address"},
		"two tokens":           {file: "api: {auth: {token_file: f, token_command: [c]}}", want: "the token comes from api.auth.token_file"},
		"base":                 {file: "retry: {base: 1m}", want: "trafficup.yaml:1: retry.base: \"1m\": not above retry.cap, which is 20s"},
		"status":               {file: "retry: {status: [200]}", want: "retry.status[0]: \"200\": at least 400"},
		"include of itself":    {file: "include: [trafficup.yaml]", want: "the file includes itself"},
		"blank forgotten":      {file: "api: {auth: {token:hush}}", want: "unknown key api.auth.token…; a blank is missing after the colon"},
		"blank in a header":    {file: "api: {headers: {X-Key:hush}}", want: "api.headers.X-Key…: has no value"},
		"token with a star":    {file: "api: {auth: {token: *hush}}", want: "a value that begins with * has to stand in quotes"},
		"header as a whole":    {file: "api: {headers: {\"X-Key: hush\": 1}}", want: "no header has such a name"},
		"header in a variable": {env: []string{"TRAFFICUP_API_HEADERS=X-Key:hush="}, want: "api.headers.X-Key…"},
		"include by flag":      {set: []Setting{{"include", "x", "--set"}}, want: "is read in files only"},
		"include of nothing":   {file: "include: [\"none*.yaml\"]", want: "no file matches"},
		"include not there":    {file: "include: [none.yaml]", want: "none.yaml: cannot be read: no such file"},
		"variable's value":     {env: []string{"TRAFFICUP_RETRY_CAP=20"}, want: `$TRAFFICUP_RETRY_CAP: retry.cap: "20": has no unit`},
		"list of numbers":      {env: []string{"TRAFFICUP_RETRY_STATUS=500,x"}, want: `retry.status[1]: "x": write a whole number`},
		"map":                  {env: []string{"TRAFFICUP_ENVELOPE_FIELDS=a"}, want: "write NAME=VALUE"},
		"sections":             {env: []string{"TRAFFICUP_PATHS={leo: {htttp: 1}}"}, want: "unknown key paths.leo.htttp; did you mean paths.leo.http?"},
		"no YAML":              {env: []string{"TRAFFICUP_PATHS=leo"}, want: "write keys with their values"},
		"set":                  {set: []Setting{{"retry.cpa", "1s", "--set"}}, want: "--set: unknown key retry.cpa; did you mean retry.cap?"},
		"set below a word":     {set: []Setting{{"retry.cap.x", "1s", "--set"}}, want: "retry.cap: has no keys of its own"},
		"secret on the line":   {set: []Setting{{"api.auth.token", "hush", "--set"}}, want: "seen by everybody"},
		"secret header":        {set: []Setting{{"api.headers.X-Key", "hush", "--set"}}, want: "seen by everybody"},
		"secret headers":       {set: []Setting{{"api.headers", "{X-Key: hush}", "--set"}}, want: "seen by everybody"},
		"secret of two lines":  {env: []string{"TRAFFICUP_API_AUTH_TOKEN=hush\nhush"}, want: "more than one line"},
		"login in URL":         {file: "api: {primary: \"https://u:hush@h/\"}", want: "do not belong into a URL"},
		"port":                 {file: "api: {primary: \"https://h:99999/\"}", want: "99999 is no port"},
		"blank":                {file: "api: {primary: \"https://h/a b\"}", want: "a URL has no blanks"},
		"host":                 {file: "api: {primary: \"http://\"}", want: "the host is missing"},
		"fragment":             {file: "api: {primary: \"http://h/#a\"}", want: "leave out what follows #"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(Sources{File: write(t, "trafficup.yaml", c.file), Environ: c.env, Flags: c.set})
			all := strings.Join(messages(err), "\n")
			if !strings.Contains(all, c.want) {
				t.Errorf("got %s\nwant %s", all, c.want)
			}
			if strings.Contains(all, "hush") {
				t.Errorf("a secret in %s", all)
			}
		})
	}
}

// Files that include each other by the hundred are not read to the end.
func TestIncludesAreBounded(t *testing.T) {
	dir := t.TempDir()
	for n := range 10 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.yaml", n)), []byte("include: [\"*.yaml\"]\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err := Load(Sources{File: filepath.Join(dir, "0.yaml")})
	if all := messages(err); len(all) != 1 || !strings.Contains(all[0], "the file includes itself") {
		t.Error(all)
	}
	for n := range 8 { // not in a circle, but eight times eight times ...
		text := fmt.Sprintf("include: [%s]\n", strings.Repeat(fmt.Sprintf("%d.yaml, ", n-1), 8))
		if n == 0 {
			text = "upload: {rate: 1}\n"
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.yaml", n)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err = Load(Sources{File: filepath.Join(dir, "7.yaml")})
	if all := messages(err); len(all) != 1 || !strings.Contains(all[0], "more than 100 files") {
		t.Error(all)
	}
}

// A variable that sets nothing is warned about; what others put there is not.
func TestUnknownVariables(t *testing.T) {
	l, err := Load(Sources{File: write(t, "c.yaml", ""), Environ: []string{"TRAFFICUP_RETRY_CPA=1s", "TRAFFICUP_SERVICE_HOST=10.0.0.1", "TRAFFICUP_PORT_80_TCP=x"}})
	if err != nil || len(l.Warnings) != 1 || l.Warnings[0].String() != "$TRAFFICUP_RETRY_CPA: unknown variable, which sets nothing; did you mean $TRAFFICUP_RETRY_CAP?" {
		t.Error(l.Warnings, err)
	}
}

// What can be written as an address of the API, and is taken.
func TestEndpoints(t *testing.T) {
	for _, u := range []string{"https://h", "http://127.0.0.1:8080/v1/logs", "https://[fe80::1%25eth0]:8443/", "https://h/a/?b=c"} {
		if p := endpointProblem(u); p != "" {
			t.Errorf("%s: %s", u, p)
		}
	}
}

// value draws something that option o takes, and a text that it does not; "":
// it takes any.
func goodAndBad(o Option) (good, bad string) {
	rule := o.Rule
	switch {
	case o.Key == "upload.key_ttl", strings.Contains(rule, "gtefield"):
		return "90h", "90"
	case o.Type == durationType:
		return "7s", "7"
	case o.Type == clockType:
		return `"05:30 UTC"`, "5 o'clock"
	case o.Type == reflect.TypeFor[Share]():
		return "2.5%", "many"
	case o.Type == reflect.TypeFor[Quota](), o.Type == reflect.TypeFor[Size]():
		return "64KiB", "64"
	case o.Type == reflect.TypeFor[Concurrency]():
		return "auto", "0"
	case strings.Contains(rule, "endpoint"):
		return "https://h.example/x", "h.example"
	case strings.HasPrefix(rule, "oneof="), strings.Contains(rule, "oneof="):
		_, words, _ := strings.Cut(rule, "oneof=")
		list := strings.Fields(words)
		return list[len(list)-1], "neither"
	case o.Type.Kind() == reflect.Bool:
		return "true", "yes"
	case o.Type.Kind() == reflect.Int:
		return "7", "7.5"
	case o.Type.Kind() == reflect.Float64:
		return "0.75", "lots"
	case o.Key == "retry.status":
		return "[418, 503]", "[teapot]"
	case o.Type.Kind() == reflect.Slice && isScalar(o.Type.Elem()):
		return "[one, two]", "{a: b}"
	case o.Key == "paths":
		return "{Leo: {url: \"https://h.example/x\", quota: 50MB}}", "{leo: {quota: 50}}"
	case o.Key == "maintenance":
		return `[{path: primary, from: "02:00", to: "03:00"}]`, "[{paht: primary}]"
	case o.Key == "netshape.interfaces":
		return "[{name: eth1, up: 9mbit, rtt: 50ms}]", "[{nmae: eth1}]"
	case o.Key == "netshape.classes":
		return "[{name: bulk, match: {ports: [443]}}]", "[{name: bulk, match: {port: 443}}]"
	case o.Key == "failover.uplinks":
		return "[{name: leo, interface: eth1}]", "[{nmae: leo}]"
	case o.Key == "failover.targets":
		return "[{icmp: 192.0.2.1}]", "[{imcp: 192.0.2.1}]"
	case o.Type.Kind() == reflect.Map:
		return "{X-One: a, x-two: b}", "[a]"
	}
	return "word", ""
}

// Every option, in every layer, with a value it takes and one it does not:
// all layers mean the same, a later one goes over an earlier one, and a mistake
// is told with its place.
func TestEveryOptionInEveryLayer(t *testing.T) {
	type layer struct {
		name string
		load func(t *testing.T, o Option, text string) (*Loaded, error)
	}
	layers := []layer{
		{"file", func(t *testing.T, o Option, text string) (*Loaded, error) {
			return Load(Sources{File: write(t, "c.yaml", nest(o.Key, text))})
		}},
		{"environment", func(t *testing.T, o Option, text string) (*Loaded, error) {
			return Load(Sources{File: write(t, "c.yaml", ""), Environ: []string{o.Env() + "=" + unquoted(o, text)}})
		}},
		{"flag", func(t *testing.T, o Option, text string) (*Loaded, error) {
			return Load(Sources{File: write(t, "c.yaml", ""), Flags: []Setting{{o.Key, unquoted(o, text), "--" + o.Flag}}})
		}},
	}
	for _, o := range Options() {
		if o.FileOnly() {
			continue
		}
		good, bad := goodAndBad(o)
		pair := ""
		if section, ok := strings.CutSuffix(o.Key, ".cert_file"); ok {
			pair = section + ".key_file"
		} else if section, ok := strings.CutSuffix(o.Key, ".tls.key_file"); ok {
			pair = section + ".tls.cert_file"
		}
		var first string
		for _, in := range layers {
			t.Run(o.Key+"/"+in.name, func(t *testing.T) {
				if in.name == "flag" && o.Secret() {
					if _, err := in.load(t, o, good); err == nil || !strings.Contains(err.Error(), "seen by everybody") {
						t.Error("a secret is taken from the command line:", err)
					}
					return
				}
				l, err := in.load(t, o, good)
				if pair != "" {
					err = nil // alone it is of no use, which another test sees
				}
				if err != nil {
					t.Fatalf("%s: %v", good, err)
				}
				got := l.Value(o.Key)
				if first == "" {
					first = got
				}
				if got != first || got == o.Default() && !o.Secret() && good != o.Default() {
					t.Errorf("%s gives %s; the file %s, the default is %s", good, got, first, o.Default())
				}
				if at := l.Origin(o.Key); at.Layer != in.name {
					t.Errorf("from %+v", at)
				}
				if bad == "" {
					return
				}
				_, err = in.load(t, o, bad)
				if all := messages(err); len(all) == 0 || !strings.Contains(all[0], strings.Split(o.Key, ".")[0]) {
					t.Errorf("%s is taken: %v", bad, err)
				}
			})
		}
	}
}

// nest writes key and value as a file does.
func nest(key, text string) string {
	var b strings.Builder
	parts := strings.Split(key, ".")
	for n, p := range parts {
		fmt.Fprintf(&b, "%s%s:", strings.Repeat("  ", n), p)
		if n < len(parts)-1 {
			b.WriteByte('\n')
		}
	}
	return b.String() + " " + text + "\n"
}

// unquoted is a value without the quotes that only files need.
func unquoted(o Option, text string) string {
	if isScalar(o.Type) {
		return strings.Trim(text, `"`)
	}
	return text
}

// A later layer goes over an earlier one, for every pair of layers.
func TestOrderOfLayers(t *testing.T) {
	for mask := range 8 {
		src, want := Sources{File: write(t, "c.yaml", "")}, "1m"
		if mask&1 != 0 {
			src.File, want = write(t, "c.yaml", "upload: {request_timeout: 2m}"), "2m"
		}
		if mask&2 != 0 {
			src.Environ, want = []string{"TRAFFICUP_UPLOAD_REQUEST_TIMEOUT=3m"}, "3m"
		}
		if mask&4 != 0 {
			src.Flags, want = []Setting{{"upload.request_timeout", "4m", "--request-timeout"}}, "4m"
		}
		if mask == 0 {
			want = FormatDuration(Default().Upload.RequestTimeout)
		}
		if l, err := Load(src); err != nil || l.Value("upload.request_timeout") != want {
			t.Errorf("%03b: %s, want %s: %v", mask, l.Value("upload.request_timeout"), want, err)
		}
	}
}

// What is shown can be read again, and is the same then.
func TestShownIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seen := map[string]bool{}
		for range rapid.IntRange(0, 8).Draw(t, "options") {
			o := rapid.SampledFrom(Options()).Draw(t, "option")
			seen[o.Key] = !o.FileOnly() && !o.Secret() && !strings.HasPrefix(o.Key, "api.auth")
		}
		var settings []Setting
		for _, key := range sorted(seen) {
			o, _ := Lookup(key)
			good, _ := goodAndBad(o)
			if !seen[key] {
				continue
			}
			if o.Example != "" && rapid.Bool().Draw(t, "example") {
				good = o.Example
			}
			settings = append(settings, Setting{key, unquoted(o, good), "--x"})
		}
		none := filepath.Join(os.TempDir(), "none")
		l, _ := Load(Sources{File: none, Flags: settings})
		var again []Setting
		for _, o := range Options() {
			if !o.Secret() && !o.FileOnly() {
				again = append(again, Setting{o.Key, unquoted(o, render(o.in(&l.Config))), "--x"})
			}
		}
		m, _ := Load(Sources{File: none, Flags: again})
		for _, o := range Options() {
			if a, b := l.Value(o.Key), m.Value(o.Key); a != b {
				t.Fatalf("%s: shown as %s, read back as %s", o.Key, a, b)
			}
		}
	})
}

// Every line of the example can be taken as it stands.
func TestExampleLinesAreTaken(t *testing.T) {
	var b strings.Builder
	if err := WriteExample(&b); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(Sources{File: write(t, "trafficup.yaml", b.String())}); err != nil {
		t.Fatalf("as it is written: %v", err)
	}
	lines := strings.Split(b.String(), "\n")
	tried := 0
	for n, line := range lines {
		trimmed := strings.TrimLeft(line, " ")
		if !strings.HasPrefix(trimmed, "#") || strings.HasPrefix(trimmed, "# ") || strings.Contains(line, "#include:") || strings.Contains(line, "…") || strings.Contains(line, "cert_file") || strings.Contains(line, "key_file") {
			continue
		}
		if trimmed == "#" {
			continue
		}
		tried++
		changed := slices.Clone(lines)
		changed[n] = strings.Replace(line, "#", "", 1)
		if _, err := Load(Sources{File: write(t, "trafficup.yaml", strings.Join(changed, "\n"))}); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	if tried < len(Options())-10 {
		t.Errorf("only %d of %d options are there", tried, len(Options()))
	}
}

func FuzzLoad(f *testing.F) {
	for _, s := range []string{"", "api:", "\ufeffapi: {primary: https://h/}", "a: &a [*a]", "upload: !!binary aGk=", "include: [c.yaml]", "paths: {a: {http: 2}}", "? [a]\n: b", "retry: {status: null}", "maintenance: [null, 1, {}]"} {
		f.Add(s)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "include") {
			return // would read what is there on this machine
		}
		path := filepath.Join(dir, "c.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Skip()
		}
		start := time.Now()
		l, err := Load(Sources{File: path})
		if err == nil {
			for _, line := range l.Lines() {
				_ = line.Value
			}
		} else if err.Error() == "" {
			t.Error("no message")
		}
		if d := time.Since(start); d > 20*time.Second {
			t.Errorf("took %s", d)
		}
	})
}

var update = flag.Bool("update", false, "write docs/options.md anew")

func TestReferenceIsCurrent(t *testing.T) {
	var b strings.Builder
	if err := WriteReference(&b); err != nil {
		t.Fatal(err)
	}
	const page = "../../docs/options.md"
	if *update {
		if err := os.WriteFile(page, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(page); err != nil || string(have) != b.String() {
		t.Errorf("docs/options.md is not what the program says (%v): go test ./internal/config -update", err)
	}
}
