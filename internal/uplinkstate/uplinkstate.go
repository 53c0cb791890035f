// Package uplinkstate tells which uplink carries, and whether it is paid for, as
// the failover of this machine writes it into its state file: for programs that
// would rather wait than pay.
//
// Whatever cannot be believed, a file that is missing, damaged, old or of another
// boot, is not known, and no error: who asks goes on as if there were one uplink.
package uplinkstate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"trafficup/internal/disk"
)

const (
	// DefaultDir is the directory of a failover that was told no other; a start of the
	// machine empties it.
	DefaultDir = "/run/trafficup/failover"
	// File is the name of the state file in it.
	File = "state.json"
	// DefaultPath is where that is then.
	DefaultPath = DefaultDir + "/" + File
)

// Uplink is the one that carries, as the failover says.
type Uplink struct {
	Active  string    `json:"active"`         // the uplink that carries; "": none was chosen yet
	Metered bool      `json:"metered"`        // it is paid for
	Window  bool      `json:"window"`         // it, or what is preferred, is in maintenance
	Since   time.Time `json:"since,omitzero"` // when it began to carry
}

// Why the state is not known, beside errors of the file system.
var (
	ErrStale   = errors.New("nobody has written it for three minutes: trafficup failover does not run")
	ErrBoot    = errors.New("it is of another start of the machine, or of another machine")
	ErrDamaged = errors.New("damaged")
)

const (
	look  = time.Second     // between two looks at the file: some 10 KB, read whole
	stale = 3 * time.Minute // by cron it is written once in one, and a run may take half of one
)

// Reader reads the file. It is safe for concurrent use.
type Reader struct {
	fs         disk.FS
	path, boot string
	tell       func(error)

	mu     sync.Mutex
	looked time.Time      // guarded by mu
	at     time.Time      // guarded by mu; when what was read last was written
	until  time.Time      // guarded by mu; as long it is believed
	state  Uplink         // guarded by mu
	known  bool           // guarded by mu
	told   map[error]bool // guarded by mu; by kind
}

// New returns a reader of the file path that believes what is of this boot. tell
// hears once of each kind of reason for not knowing, the file's absence
// ([fs.ErrNotExist]) included.
func New(fsys disk.FS, path, boot string, tell func(error)) *Reader {
	return &Reader{fs: fsys, path: path, boot: boot, tell: tell, told: map[error]bool{}}
}

// Now returns what holds now; ok is false where that is not known. It looks at the
// file once a second at most.
func (r *Reader) Now() (u Uplink, ok bool) {
	r.mu.Lock()
	now := time.Now()
	if !r.looked.IsZero() && now.Sub(r.looked) < look {
		defer r.mu.Unlock()
		return r.state, r.known
	}
	r.looked = now
	state, err := r.read(now)
	r.state, r.known = state, err == nil
	news := err != nil && !r.told[kind(err)]
	if news {
		r.told[kind(err)] = true
	}
	r.mu.Unlock()
	if news {
		r.tell(fmt.Errorf("%s: %w", r.path, err))
	}
	return state, err == nil
}

// read looks at the file. Requires mu.
func (r *Reader) read(now time.Time) (Uplink, error) {
	data, err := disk.ReadFile(r.fs, r.path)
	if err != nil {
		if path, ok := errors.AsType[*fs.PathError](err); ok {
			err = path.Err // its name is told anyway
		}
		return Uplink{}, err
	}
	var file struct {
		Version int       `json:"version"`
		Boot    string    `json:"boot"`
		At      time.Time `json:"at"`
		Uplink
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return Uplink{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	switch {
	case file.Version != 1:
		return Uplink{}, fmt.Errorf("%w: version %d, this program reads version 1", ErrDamaged, file.Version)
	case file.Boot != r.boot:
		return Uplink{}, ErrBoot
	case !r.fresh(file.At, now):
		return Uplink{}, ErrStale
	}
	return file.Uplink, nil
}

// fresh says that somebody still writes the file. What was there at the first look
// is judged by the clock on the wall, what came after by its coming: that clock may
// be set meanwhile, as it often is after a start. Requires mu.
func (r *Reader) fresh(at, now time.Time) bool {
	switch {
	case r.at.IsZero():
		r.until = now.Add(stale - now.Round(0).Sub(at).Abs())
	case !at.Equal(r.at):
		r.until = now.Add(stale)
	}
	r.at = at
	return now.Before(r.until)
}

// kind is what of an error is the same in all of its kind.
func kind(err error) error {
	for _, k := range []error{ErrStale, ErrBoot, ErrDamaged, fs.ErrNotExist, fs.ErrPermission} {
		if errors.Is(err, k) {
			return k
		}
	}
	return nil
}
