package main

import (
	"bytes"
	"encoding/json/v2"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"trafficup/internal/breaker"
	"trafficup/internal/uploader"
)

// ui is what a run says while it goes on and at its end. stdout gets the
// result, stderr the conversation. It is safe for concurrent use.
type ui struct {
	stdout, stderr io.Writer
	json, quiet    bool
	dry            bool // nothing is sent: what would be is valid
	concurrency    int
	log            *auditLog // nil: none
	closeLog       func() error
	paused         func() string // what holds the run, "" for nothing; set before start, and called without mu: it may wait for who tells u something

	mu       sync.Mutex
	bar      *progressbar.ProgressBar // guarded by mu; nil without a terminal
	progress progress                 // guarded by mu
	down     map[string]breaker.State // guarded by mu; paths whose breaker is not closed, or is forced
	holds    map[string]string        // guarded by mu; why a path's breaker was held open, of the last time
	changes  int                      // guarded by mu; of the breakers' states
	folded   int                      // guarded by mu; lines left out since lastLine
	lastLine time.Time                // guarded by mu
	ticker   chan struct{}
	ticking  sync.WaitGroup
}

// every is how often a run without a terminal says where it is, and how often
// repeats of one kind of trouble are printed.
const every = 10 * time.Second

func newUI(sys *system, c Config, asJSON bool) (*ui, error) {
	u := &ui{stdout: sys.stdout, stderr: sys.stderr, json: asJSON, quiet: c.Output.Quiet, dry: c.Upload.DryRun, concurrency: c.workers(), down: map[string]breaker.State{}, holds: map[string]string{}, paused: func() string { return "" }}
	var err error
	if u.log, u.closeLog, err = openLog(sys, c); err != nil {
		return nil, err
	}
	if c.Output.Quiet || c.Output.Progress == "none" {
		return u, nil
	}
	if (c.Output.Progress == "auto" && sys.terminal && !asJSON) || c.Output.Progress == "bar" {
		u.bar = progressbar.NewOptions64(-1,
			progressbar.OptionSetWriter(sys.stderr), progressbar.OptionSetVisibility(sys.terminal),
			progressbar.OptionSetDescription("trafficup"), progressbar.OptionShowCount(), progressbar.OptionShowIts(),
			progressbar.OptionSetItsString("records"), progressbar.OptionThrottle(200*time.Millisecond), progressbar.OptionClearOnFinish())
		return u, nil
	}
	u.ticker = make(chan struct{})
	return u, nil
}

// openLog opens the audit log, which is nil when there is to be none.
func openLog(sys *system, c Config) (log *auditLog, done func() error, err error) {
	w, done := sys.stderr, func() error { return nil }
	switch {
	case c.Log.File != "":
		f, err := os.OpenFile(c.Log.File, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return nil, nil, usageError("", "log file: %w", err)
		}
		w, done = f, f.Close
	case c.Log.Format == "":
		return nil, done, nil
	}
	log = &auditLog{w: w, format: c.Log.Format, failed: func(err error) {
		fmt.Fprintf(sys.stderr, "trafficup: warning: the audit log is not complete: %v\n", err)
	}}
	log.level.Store(int32(levels[c.Log.Level]))
	return log, done, nil
}

func (u *ui) start() {
	u.mu.Lock()
	u.progress.begin = time.Now()
	u.mu.Unlock()
	if u.ticker == nil {
		return
	}
	u.ticking.Go(func() {
		t := time.NewTicker(every)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				u.tick()
			case <-u.ticker:
				return
			}
		}
	})
}

func (u *ui) stop() {
	if u.ticker != nil {
		close(u.ticker)
		u.ticking.Wait()
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.bar != nil {
		_ = u.bar.Finish()
		u.bar = nil
	}
}

func (u *ui) close() { _ = u.closeLog() }

// readSoFar tells how much of the input was read, for one record more.
func (u *ui) readSoFar(read, total int64) {
	u.mu.Lock()
	u.progress.more(read, total)
	u.mu.Unlock()
}

// soFar is how far the run is.
func (u *ui) soFar() progress {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.progress
}

func (u *ui) breakerChanges() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.changes
}

// whyHeld is why the path's breaker was held open the last time.
func (u *ui) whyHeld(path string) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.holds[path]
}

func (u *ui) tick() {
	paused := printable(u.paused())
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	p := u.progress
	p.paused = paused
	if u.json {
		u.object(p.status(now))
		return
	}
	line := p.line(now, u.dry)
	for _, path := range slices.Sorted(maps.Keys(u.down)) {
		line += "; " + path + " " + downWords(u.down[path], now)
	}
	fmt.Fprintf(u.stderr, "trafficup: %s\n", line)
}

// Event shows and logs what happened. Trouble that repeats is folded into one
// line per interval; the audit log has every line.
func (u *ui) Event(e uploader.Event) {
	if u.log != nil {
		u.log.write(e)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if e.Bucket != "" {
		u.progress.ended(e.Bucket, time.Now())
		if u.bar != nil {
			_ = u.bar.Add(1)
		}
		if u.json && !u.quiet {
			outcome := string(e.Bucket)
			if u.dry && e.Bucket == uploader.Acked {
				outcome, e.Message = "valid", ""
			}
			u.object(struct {
				Type    string `json:"message_type"`
				Outcome string `json:"outcome"`
				SpotID  string `json:"spot_id"`
				Key     string `json:"idempotency_key"`
				File    string `json:"file"`
				Line    int64  `json:"line"`
				Status  int    `json:"status"`
				Reason  string `json:"reason,omitzero"`
			}{"record", outcome, printable(e.SpotID), printable(e.Key), printable(e.File), e.Line, e.Status, printable(e.Message)})
		}
		return
	}
	if u.json && e.Level >= uploader.Warning {
		u.object(struct {
			Type    string `json:"message_type"`
			Message string `json:"message"`
			SpotID  string `json:"spot_id,omitzero"`
		}{"warning", printable(e.Message), printable(e.SpotID)})
		return
	}
	// What went wrong with files is in the summary, too.
	if u.quiet && e.Level < uploader.Critical || e.Level < uploader.Warning {
		return
	}
	if e.SpotID != "" {
		if time.Since(u.lastLine) < every {
			u.folded++
			return
		}
		more := ""
		if u.folded > 0 {
			more = fmt.Sprintf("    [%d more like this]", u.folded)
		}
		u.lastLine, u.folded = time.Now(), 0
		u.line("%s: %s, waiting %s (%s, try %d)%s", e.Path, e.Message, e.Wait.Round(time.Millisecond), printable(e.SpotID), e.Attempt, more)
		return
	}
	u.line("%s", e.Message)
}

// line prints one line of the conversation; the bar makes room for it.
// Requires mu.
func (u *ui) line(format string, a ...any) {
	if u.bar != nil {
		_ = u.bar.Clear()
	}
	fmt.Fprintf(u.stderr, "trafficup: %s\n", printable(fmt.Sprintf(format, a...)))
}

// warn says something that is true of the run as a whole.
func (u *ui) warn(message string) {
	u.Event(uploader.Event{At: time.Now(), Level: uploader.Warning, Message: "warning: " + message})
}

// alarm says what the next run will suffer from, in quiet mode, too.
func (u *ui) alarm(message string) {
	u.Event(uploader.Event{At: time.Now(), Level: uploader.Critical, Message: "warning: " + message})
}

// note says something that is good to know.
func (u *ui) note(message string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.quiet && !u.json {
		u.line("%s", message)
	}
}

func (u *ui) stopping() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.quiet && !u.json {
		u.line("stopping: requests in flight finish first (press again to abandon them)")
	}
}

// summary prints the result on stdout: nothing in quiet mode when all is well.
func (u *ui) summary(r result) {
	u.mu.Lock()
	defer u.mu.Unlock()
	r.brief = u.quiet
	if u.quiet && r.ExitCode == exitOK {
		return
	}
	if u.json {
		if line, err := r.json(); err == nil {
			_, err = fmt.Fprintf(u.stdout, "%s\n", line)
			u.unseen(err, r)
		}
		return
	}
	var b bytes.Buffer
	r.text(&b)
	_, err := u.stdout.Write(b.Bytes())
	u.unseen(err, r)
}

// unseen says where to look when the summary could not be printed.
func (u *ui) unseen(err error, r result) {
	if err != nil {
		fmt.Fprintf(u.stderr, "trafficup: warning: the summary could not be printed (%v); it is in %s\n", err, orDash(r.report))
	}
}

// object prints one line of JSON. Requires mu.
func (u *ui) object(v any) {
	if line, err := json.Marshal(v); err == nil {
		fmt.Fprintf(u.stdout, "%s\n", line)
	}
}
