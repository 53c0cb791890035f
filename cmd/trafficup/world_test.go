package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json/v2"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"trafficup/internal/deadletter"
	"trafficup/internal/disk/disktest"
	"trafficup/internal/sandbox"
)

// world is what outlives a run: the disk, the server, the input, and what is
// known of every record by watching from outside.
type world struct {
	seed  uint64
	r     *rand.Rand
	disk  *disktest.Disk
	api   *sandbox.Server
	files []string
	clock time.Duration // as the program sees it
	late  time.Duration // the latest the clock ever was
	runs  int
	// of the run that is under way
	killed bool

	lines  map[string]string // what is to become of a line of the input that is not sent: invalid, conflict
	keys   map[string]bool   // that are to be applied, unless rejected
	mended map[string]bool   // whose record was changed in the input meanwhile

	mu       sync.Mutex
	story    strings.Builder
	wrong    []string
	bodies   map[string][32]byte // guarded by mu; of the last request, by key
	stale    map[[32]byte]bool   // guarded by mu; bodies of which a later version was sent
	maybe    map[string]bool     // guarded by mu; the key was answered otherwise than with a refusal, or not at all
	refused  map[string]attempt  // guarded by mu; the last one, by key
	before   map[string]bool     // applied before the run began
	acked    map[string]bool     // guarded by mu; said to be so, and not forgotten since
	requests int                 // guarded by mu
	history  map[string][]string // guarded by mu; requests by key
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	w := &world{
		seed: seed, r: rand.New(rand.NewPCG(seed, 0)), disk: disktest.New(),
		lines: map[string]string{}, keys: map[string]bool{}, mended: map[string]bool{},
		bodies: map[string][32]byte{}, stale: map[[32]byte]bool{}, maybe: map[string]bool{}, history: map[string][]string{}, refused: map[string]attempt{}, acked: map[string]bool{},
	}
	script := w.scenario()
	sc, err := sandbox.ParseScenario([]byte(script))
	if err != nil {
		t.Fatalf("scenario of night %d: %v\n%s", seed, err, script)
	}
	w.api = sandbox.NewWith(sc, sandbox.Options{})
	w.input(t)
	w.told("%d records, server: %s", len(w.keys), strings.ReplaceAll(strings.TrimSpace(script), "\n", "; "))
	return w
}

func (w *world) told(format string, a ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintf(&w.story, "  "+format+"\n", a...)
}

func (w *world) blame(format string, a ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wrong) < 10 {
		w.wrong = append(w.wrong, fmt.Sprintf(format, a...))
	}
}

// faulty is how long the server is, since its first call. What it rejects, it
// rejects for good.
const faulty = 10 * time.Minute

// scenario draws a server.
func (w *world) scenario() string {
	r := w.r
	s := []string{fmt.Sprintf("seed %d", r.IntN(1000)+1)}
	maybe := func(odds int, format string, a ...any) {
		if r.IntN(odds) == 0 {
			line := fmt.Sprintf(format, a...)
			if !strings.HasPrefix(line, "from") && !strings.HasPrefix(line, "reject") {
				line = fmt.Sprintf("until %ds: %s", int(faulty.Seconds()), line)
			}
			s = append(s, line)
		}
	}
	window := func() string {
		from := r.IntN(60)
		return fmt.Sprintf("from %ds to %ds", from, from+1+r.IntN(40))
	}
	maybe(3, "reject 422 for %d%% of records as bad", 1+r.IntN(20)) // before all others: what is applied is not rejected
	maybe(3, "limit %d per second, burst %d, retry after %ds", 5+r.IntN(40), 1+r.IntN(10), 1+r.IntN(3))
	maybe(3, "%s: answer 503 retry after %ds", window(), 1+r.IntN(90)) // maintenance
	maybe(5, "%s: answer 401", window())                               // the token is stale
	maybe(4, "%s: reset 100%% of calls", window())
	maybe(4, "%s: portal", window())
	maybe(2, "answer %d for %d%% of calls", []int{500, 502, 503, 504, 408, 425}[r.IntN(6)], 1+r.IntN(30))
	maybe(2, "lose %d%% of answers", 1+r.IntN(20))
	maybe(3, "hold %d%% of answers for %ds", 1+r.IntN(20), 1+r.IntN(8))
	maybe(2, "reset %d%% of calls", 1+r.IntN(20))
	maybe(2, "delay %dms jitter %dms", r.IntN(700), r.IntN(100))
	return strings.Join(s, "\n") + "\n"
}

// input writes the night's files: good records, copies, contradictions, rubbish.
func (w *world) input(t *testing.T) {
	t.Helper()
	r := w.r
	var lines []string
	for n := range 3 + r.IntN(40) {
		line := record(n, n, 0)
		lines, w.keys[key(n)] = append(lines, line), true
		switch r.IntN(20) {
		case 0: // a copy
			lines = append(lines, line)
		case 1: // other content under its key
			lines = append(lines, w.is("conflict", record(n, n, 1)))
		case 2: // the same spot under another key
			lines = append(lines, w.is("conflict", record(1000+n, n, 0)))
		case 3:
			lines = append(lines, w.is("invalid", fmt.Sprintf(`{"spot_id":"SP-%d","payload":{}}`, n)))
		case 4:
			lines = append(lines, w.is("invalid", fmt.Sprintf(`{"spot_id":"SP-%d`, n)))
		}
	}
	dir := t.TempDir()
	parts := 1 + r.IntN(3)
	for p := range parts {
		name := filepath.Join(dir, fmt.Sprintf("log-%d.ndjson", p))
		text := strings.Join(lines[len(lines)*p/parts:len(lines)*(p+1)/parts], "\n") + "\n"
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		w.files = append(w.files, name)
	}
	if r.IntN(3) == 0 { // "log - Copy.ndjson"
		data, err := os.ReadFile(w.files[0])
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, "log-0 - Copy.ndjson")
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		w.files = append(w.files, name)
	}
}

func key(n int) string { return fmt.Sprintf("key-%06d", n) }

func record(k, spot, body int) string {
	return fmt.Sprintf(`{"spot_id":"SP-%d","idempotency_key":"%s","payload":{"house_number":"WXYZ-%07d"},"market":"501","station":"WXYZ-FM","air_date":"2026-07-17"}`, spot, key(k), 10*spot+body)
}

func (w *world) is(fate, line string) string {
	w.lines[line] = fate
	return line
}

// command draws what the n-th run is told to do.
func (w *world) command(n int) []string {
	r := w.r
	var args []string
	if n > 0 && r.IntN(4) == 0 {
		args = []string{"replay"}
		if r.IntN(3) == 0 {
			args = append(args, "--limit", fmt.Sprint(1+r.IntN(5)))
		}
	} else {
		args = append([]string{"upload"}, w.files...)
	}
	args = append(args, w.options()...)
	args = append(args,
		"--concurrency", fmt.Sprint(1+r.IntN(8)), "--queue-size", fmt.Sprint(1+r.IntN(40)), "--max-attempts", fmt.Sprint(1+r.IntN(5)),
		"--breaker-threshold", fmt.Sprint(2+r.IntN(8)), "--halt-after", fmt.Sprintf("%ds", 5+r.IntN(60)))
	if r.IntN(4) == 0 {
		args = append(args, "--deadline", fmt.Sprintf("%ds", 1+r.IntN(60)))
	}
	if r.IntN(4) == 0 {
		args = append(args, "--rate", fmt.Sprint(2+r.IntN(50)))
	}
	if r.IntN(2) == 0 {
		args = append(args, "--fallback-url", "http://fallback.test:80/v1/logs")
	}
	return args
}

func (w *world) options() []string {
	return []string{"--url", "http://primary.test:80/v1/logs", "--state-dir", "/state", "--breaker-store", "memory", "--json", "--breaker-open", "5s", "--breaker-open-max", "20s"}
}

func (w *world) environ() []string { return []string{"TRAFFICUP_API_AUTH_TOKEN=secret"} }

// random is called by many; a night need not be the same to the last jitter.
func (w *world) random() float64 { return rand.Float64() }

func (w *world) used() int64 {
	n := int64(0)
	for _, name := range w.disk.Names() {
		b, _ := w.disk.Bytes(name)
		n += int64(len(b))
	}
	return n
}

// server is the API, watched: every request for a key carries the same bytes,
// and none comes after its ack was counted.
func (w *world) server() http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // it died while it was written
		}
		sum, k := sha256.Sum256(body), r.Header.Get("Idempotency-Key")
		s := &status{ResponseWriter: rw}
		w.mu.Lock()
		last, known := w.bodies[k]
		w.bodies[k] = sum
		w.requests++
		again, maybe, stale := w.acked[k], w.maybe[k], w.stale[sum]
		if known && last != sum {
			w.stale[last] = true
		}
		// A request that its sender gave up may come after the one that followed it.
		try := attempt{r.Header.Get("X-Trafficup-Run"), r.Header.Get("X-Trafficup-Attempt")}
		overtaken := w.refused[k].run == try.run && try.number < w.refused[k].number
		w.maybe[k] = maybe || !overtaken
		w.mu.Unlock()
		defer func() { w.noted(k, "run %d: %.2x after %.2x, maybe %v: %d", w.runs, sum, last, maybe, s.code) }()
		switch {
		case known && last != sum && maybe:
			w.blame("%s was sent with other bytes, and may have been applied with those before: %v", k, w.history[k])
		case stale:
			w.blame("%s was sent as it was before it was mended", k)
		case again:
			w.blame("%s was sent after its ack had been counted", k)
		case !w.keys[k]:
			w.blame("%s was sent, which contradicts an earlier record", k)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		w.api.ServeHTTP(s, r)
		// A refusal of the bytes that were sent before says that they were not
		// applied either: the server would know them again.
		if s.code == http.StatusUnprocessableEntity && (!maybe || last == sum) {
			w.mu.Lock()
			w.maybe[k], w.refused[k] = false, try
			w.mu.Unlock()
		}
	})
}

// attempt is what a request says of itself.
type attempt struct{ run, number string }

// noted keeps the requests of a key, for the story.
func (w *world) noted(k, format string, a ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history[k] = append(w.history[k], fmt.Sprintf(format, a...))
}

// status remembers what was answered.
type status struct {
	http.ResponseWriter
	code int
}

func (s *status) WriteHeader(code int) { s.code = code; s.ResponseWriter.WriteHeader(code) }

// Unwrap lets the server take the connection over.
func (s *status) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// mend changes a record of the input, as people do who find a mistake.
func (w *world) mend(t *testing.T) {
	n := w.r.IntN(len(w.keys))
	if w.mended[key(n)] {
		return
	}
	w.mended[key(n)] = true
	w.told("record %s is mended in the input", key(n))
	for _, f := range w.files {
		text, err := os.ReadFile(f)
		if err == nil {
			err = os.WriteFile(f, bytes.ReplaceAll(text, []byte(record(n, n, 0)), []byte(record(n, n, 2))), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (w *world) begin(i incident) {
	w.runs++
	w.killed = false
	w.before = map[string]bool{}
	for k := range w.keys {
		w.before[k] = w.api.TimesApplied(k) > 0
	}
	w.clock += i.offset
	w.clock = max(0, w.clock)
	w.late = max(w.late, w.clock)
	if i.offset >= 30*24*time.Hour {
		clear(w.acked) // the life of a key is over
		clear(w.maybe)
		clear(w.stale)
	}
	w.told("run %d, %s: trafficup %s", w.runs, i.name, strings.Join(i.args[:slices.Index(i.args, "--url")], " ")+" … "+strings.Join(i.args[slices.Index(i.args, "--breaker-open-max")+2:], " "))
}

// end takes in what the run said.
func (w *world) end(i incident, code int, out string) {
	var summary *result
	byKey, byRecord := w.letters(true)
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "{") {
			continue
		}
		var r struct {
			Type    string `json:"message_type"`
			Outcome string `json:"outcome"`
			Key     string `json:"idempotency_key"`
		}
		if err := json.Unmarshal([]byte(line), &r, json.RejectUnknownMembers(false)); err != nil {
			w.blame("output %q: %v", line, err)
			continue
		}
		switch applied := w.api.TimesApplied(r.Key); {
		case r.Type == "record" && r.Outcome == "acked":
			if applied != 1 {
				w.blame("%s is said to be acked, and was applied %d times", r.Key, applied)
			}
			w.acked[r.Key] = true
		case r.Type == "record" && r.Outcome != "duplicate" && r.Outcome != "halted":
			if r.Outcome == "unknown" && applied == 1 {
				break // the ledger has its intent, if nothing else
			}
			if r.Key != "" && !slices.Contains(byKey[r.Key], r.Outcome) || r.Key == "" && len(byRecord) == 0 {
				w.blame("%s is said to be %s, and no letter says so", r.Key, r.Outcome)
			}
			if r.Outcome != "unknown" && r.Outcome != "conflict" && applied == 1 && !w.before[r.Key] && !w.killed {
				w.blame("%s was applied in this run, and is said to be %s", r.Key, r.Outcome)
			}
		case r.Type == "summary":
			summary = new(result)
			if err := json.Unmarshal([]byte(line), summary); err != nil {
				w.blame("summary: %v", err)
			}
		}
	}
	if w.killed {
		w.told("  dead")
		return
	}
	if summary == nil {
		w.told("  exit %d, no summary: %s", code, firstLines(out))
		if code != exitFailed && code != exitOK { // replay without letters says so and ends well
			w.blame("run %d: exit %d without a summary", w.runs, code)
		}
		return
	}
	c := summary.Counts
	w.told("  exit %d: %+v, %d calls, %s", code, c, summary.Calls, summary.Result)
	if c.Read != c.Acked+c.Duplicate+c.Invalid+c.Rejected+c.Conflict+c.Exhausted+c.Deferred+c.Halted+c.Unknown {
		w.blame("run %d: the sums do not balance", w.runs)
	}
	paths := 1
	if slices.Contains(i.args, "--fallback-url") {
		paths = 2
	}
	if budget := float64(10*paths) + 0.1*float64(c.Acked); float64(summary.Retries) > budget {
		w.blame("run %d: %d retries, the budget allows %.1f", w.runs, summary.Retries, budget)
	}
	if code == exitOK && c.Read != c.Acked+c.Duplicate {
		w.blame("run %d: exit 0, and not all was delivered", w.runs)
	}
}

func firstLines(s string) string { return strings.ReplaceAll(s[:min(len(s), 600)], "\n", " | ") }

// settle is the morning: the server is well, the links are up, and the night is
// run and replayed until nothing waits any more.
func (w *world) settle(t *testing.T) {
	t.Helper()
	w.clock = max(w.late, w.clock) + 2*faulty
	w.told("the morning")
	for range 12 {
		up, _ := w.play(t, incident{name: "upload", args: append(append([]string{"upload"}, w.files...), w.options()...), healthy: true})
		re, _ := w.play(t, incident{name: "replay", args: append([]string{"replay"}, w.options()...), healthy: true})
		if settled(up) && settled(re) || t.Failed() {
			return
		}
		w.clock += 2 * time.Minute // a breaker or a Retry-After may be in the way
	}
	w.blame("twelve runs by day, and records wait still")
}

func settled(code int) bool { return code == exitOK || code == exitPerson }

// check holds the night against what every night must be.
func (w *world) check(t *testing.T) {
	t.Helper()
	letters, records := w.letters(false)
	for k := range w.keys {
		switch n := w.api.TimesApplied(k); {
		case n > 1:
			w.blame("%s was applied %d times", k, n)
		case n == 0 && w.mended[k] && slices.Contains(letters[k], "conflict"):
		case n == 0 && letters[k] == nil:
			w.blame("%s is lost", k)
		case n == 0 && !slices.Contains(letters[k], "rejected"):
			w.blame("%s waits: %v", k, letters[k])
		}
	}
	rejected := 0
	for k := range w.keys {
		if slices.Contains(letters[k], "rejected") {
			rejected++
		}
	}
	for line, fate := range w.lines {
		if !slices.Contains(records[line], fate) {
			w.blame("no letter says %s of %s", fate, line)
		}
	}
	before := w.requests
	code, _ := w.play(t, incident{name: "again", args: append(append([]string{"upload"}, w.files...), w.options()...), healthy: true})
	if sent := w.requests - before; sent != rejected {
		w.blame("the night once more: %d requests, want %d", sent, rejected)
	}
	// A mended record may have been sent as it is now, or contradict what was.
	if clean := rejected == 0 && len(w.lines) == 0; code != exitPerson && (code != exitOK || !clean) || code == exitPerson && clean && len(w.mended) == 0 {
		w.blame("the night once more: exit %d with %d rejected, %d bad lines", code, rejected, len(w.lines))
	}
}

// letters returns the reasons of the pending letters, or of those in the archive
// as well, by key and by the record's bytes.
func (w *world) letters(archived bool) (byKey, byRecord map[string][]string) {
	byKey, byRecord = map[string][]string{}, map[string][]string{}
	fsys := w.disk.FS()
	for _, name := range w.disk.Names() {
		if !strings.HasPrefix(name, "/state/deadletters/") || !strings.HasSuffix(name, ".ndjson") {
			continue
		}
		if strings.Contains(name, "archive") && !archived {
			continue
		}
		r, err := deadletter.OpenReader(fsys, name)
		if err != nil {
			w.blame("%s: %v", name, err)
			continue
		}
		for {
			l, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				w.told("%s: %v", name, err)
				continue
			}
			byKey[l.Key] = append(byKey[l.Key], l.Reason)
			byRecord[string(l.Record())] = append(byRecord[string(l.Record())], l.Reason)
		}
		_ = r.Close()
	}
	return byKey, byRecord
}
