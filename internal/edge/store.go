package edge

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"trafficup/internal/disk"
	"trafficup/internal/failover"
	"trafficup/internal/uplinkstate"
)

// Report is what the state file says: to a person, to the next run, and to other
// programs that want to know which uplink carries.
type Report struct {
	Version int       `json:"version"`          // 1
	Boot    string    `json:"boot"`             // id of the boot that all of it is of
	At      time.Time `json:"at"`               // when it was written
	By      string    `json:"by"`               // [ByRun] or [ByOnce]
	Removed bool      `json:"removed,omitzero"` // the routes were taken away then
	PID     int       `json:"pid"`              // of the loop

	uplinkstate.Uplink
	Forced   string             `json:"forced,omitempty"`               // why a person chose it
	Astray   string             `json:"routes_do_not_follow,omitempty"` // how; "": they lead to Active
	Uplinks  []Standing         `json:"uplinks"`
	State    failover.State     `json:"state"`
	Outlook  []failover.Outlook `json:"outlook"`
	Warnings []string           `json:"warnings,omitempty"`
	Counts   Counts             `json:"counts,omitzero"`
	Shaped   string             `json:"shaped,omitempty"` // whether the queue of Active stands; "": none was configured
	Shared   string             `json:"shared,omitempty"` // whether other hosts are told; "": they are not to be
}

// Who writes reports.
const (
	ByRun  = "run"
	ByOnce = "once"
)

// Standing is an uplink as a person wants to know it.
type Standing struct {
	Name    string           `json:"name"`
	Verdict failover.Verdict `json:"verdict"`
	Since   time.Time        `json:"since"`
	Why     string           `json:"why,omitempty"`
	RTTMS   float64          `json:"usual_ms"` // its usual time
	LossPct float64          `json:"loss_pct"` // of its last 60 rounds
	Asked   int              `json:"rounds"`
	Loaded  bool             `json:"loaded,omitempty"`   // this machine's own upload fills it: its time is not judged
	NoRoute bool             `json:"no_route,omitempty"` // nothing could be sent by it in its last round
	Probes  Spent            `json:"probes,omitzero"`    // what it took to ask
}

// Store is the directory of a loop.
type Store struct {
	FS   disk.FS
	Dir  string
	Boot string // id of this boot
}

// Names in the directory.
const (
	stateFile   = uplinkstate.File
	requestFile = "request.json"
	historyFile = "history.json"
	lockFile    = "lock"
)

// History is how many happenings are kept.
const History = 500

// Load returns what was saved. ok is false when there is nothing; what is no report of
// this version is an error, and nothing of it is returned.
func (s Store) Load() (r Report, ok bool, err error) {
	ok, err = s.load(stateFile, &r)
	n := len(r.Uplinks)
	switch {
	case err != nil || !ok:
	case r.Version != 1:
		err = fmt.Errorf("%s: version %d: this program reads version 1", filepath.Join(s.Dir, stateFile), r.Version)
	case len(r.Outlook) != n || len(r.State.Health) != n:
		err = fmt.Errorf("%s: %d uplinks, %d of them looked at and %d judged: it is damaged", filepath.Join(s.Dir, stateFile), n, len(r.State.Health), len(r.Outlook))
	}
	if err != nil {
		r = Report{}
	}
	return r, ok, err
}

// Last is the state of this boot for uplinks of these names; else a new one. What
// was true before a start of the machine, or of other uplinks, says nothing.
func (r Report) Last(boot string, c failover.Config, now failover.Now) failover.State {
	n := len(c.Uplinks)
	same := slices.EqualFunc(r.Uplinks, c.Uplinks, func(a Standing, b failover.Uplink) bool { return a.Name == b.Name })
	if r.Boot != boot || !same || uint(r.State.Active+1) > uint(n) || uint(r.State.Forced.Uplink) >= uint(n) {
		return c.New(now)
	}
	return r.State
}

// Save writes the report, for everybody to read: an uploader runs as somebody else.
func (s Store) Save(r Report) error { return s.save(stateFile, r, 0o644) }

// Removed notes that all routes were taken away: no uplink carries for it any more, and
// the next loop chooses one anew.
func (s Store) Removed(now time.Time) error {
	r, ok, err := s.Load()
	switch {
	case err != nil: // nobody can go on from it
		return s.FS.Remove(filepath.Join(s.Dir, stateFile))
	case !ok:
		return nil
	}
	r.Removed, r.At, r.Uplink, r.Forced, r.Astray, r.Warnings = true, now.UTC().Round(time.Second), uplinkstate.Uplink{}, "", "", nil
	r.State.Active, r.State.Forced = -1, failover.Forced{}
	for i, u := range r.Uplinks {
		r.Outlook[i] = failover.Outlook{Uplink: u.Name}
	}
	return s.Save(r)
}

// Told is a happening with its time.
type Told struct {
	At time.Time `json:"at"`
	failover.Event
}

// Note adds to the history.
func (s Store) Note(t Told) error {
	var all []Told
	if _, err := s.load(historyFile, &all); err != nil {
		all = nil // it is for people: what is damaged is begun anew
	}
	all = append(all, t)
	return s.save(historyFile, all[max(0, len(all)-History):], 0o600)
}

// Past is the history, the oldest first.
func (s Store) Past() (all []Told, err error) {
	_, err = s.load(historyFile, &all)
	return all, err
}

// asked is a request as it lies in the directory.
type asked struct {
	Boot   string        `json:"boot"`
	Uplink string        `json:"uplink"`
	Until  time.Duration `json:"until"` // since boot; 0: the rules choose
	Why    string        `json:"why"`
}

// Ask leaves a request for the loop: that an uplink carries until a time since boot,
// or, until 0, that the rules choose.
func (s Store) Ask(uplink string, until time.Duration, why string) error {
	return s.save(requestFile, asked{s.Boot, uplink, until, why}, 0o600)
}

// Asked returns the request that lies there, which stays until [Store.Answered]: one
// that ends in between leaves it to the next. One for an uplink that there is not is an
// error and gone, and so is one whose time is over, or of another boot.
func (s Store) Asked(c failover.Config, now time.Duration) (f failover.Forced, ok bool, err error) {
	var a asked
	if ok, err = s.load(requestFile, &a); !ok {
		return f, false, err
	}
	i := slices.IndexFunc(c.Uplinks, func(u failover.Uplink) bool { return u.Name == a.Uplink })
	switch {
	case err != nil:
	case a.Boot != s.Boot, a.Until > 0 && a.Until <= now:
		err = errors.New("what was asked is over, and left out: " + cmp.Or(a.Uplink, "auto"))
	case i < 0 && a.Until > 0:
		err = fmt.Errorf("asked for uplink %q, which there is not", a.Uplink)
	default:
		return failover.Forced{Uplink: max(i, 0), Until: a.Until, Why: a.Why}, true, nil
	}
	return f, false, errors.Join(err, s.Answered())
}

// Answered takes the request away.
func (s Store) Answered() error { return s.FS.Remove(filepath.Join(s.Dir, requestFile)) }

func (s Store) load(name string, v any) (ok bool, err error) {
	data, err := disk.ReadFile(s.FS, filepath.Join(s.Dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = json.NewDecoder(bytes.NewReader(data)).Decode(v)
	}
	if err != nil {
		return true, fmt.Errorf("%s: %w", filepath.Join(s.Dir, name), err)
	}
	return true, nil
}

func (s Store) save(name string, v any, perm fs.FileMode) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := s.MakeDir(); err != nil {
		return err
	}
	return disk.ReplaceWith(s.FS, filepath.Join(s.Dir, name), append(data, '\n'), perm)
}

// MakeDir makes the directory, which others may look into.
func (s Store) MakeDir() error {
	if err := s.FS.MkdirAll(s.Dir, 0o755); err != nil {
		return err
	}
	return disk.MakeDir(s.FS, s.Dir)
}

// LockPath is the file that a loop locks, which keeps others away.
func (s Store) LockPath() string { return filepath.Join(s.Dir, lockFile) }

// NewReport is what a loop saves.
func NewReport(c failover.Config, s failover.State, now failover.Now, boot string, pid int, warnings []string) Report {
	wall := func(d time.Duration) time.Time { return now.Wall.Add(d - now.Boot).UTC().Round(time.Second) }
	r := Report{Version: 1, Boot: boot, At: now.Wall.UTC().Round(time.Second), PID: pid, State: s, Outlook: c.Outlook(s, now), Warnings: warnings}
	if s.Active >= 0 {
		r.Active, r.Metered, r.Since = c.Uplinks[s.Active].Name, c.Uplinks[s.Active].Metered, wall(s.Since)
	}
	if s.Forced.Until > 0 {
		r.Forced = s.Forced.Why
	}
	for i, u := range c.Uplinks {
		h := s.Health[i]
		r.Uplinks = append(r.Uplinks, Standing{u.Name, h.Verdict, wall(h.Since), h.Why, float64(h.Usual.Microseconds()) / 1000, h.LossPercent(60), h.Rounds, h.Loaded, h.NoRoute, Spent{}})
		r.Window = r.Window || i <= max(s.Active, 0) && c.InWindow(i, now.Wall)
	}
	return r
}
