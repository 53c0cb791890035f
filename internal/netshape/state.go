package netshape

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
	"time"

	"trafficup/internal/disk"
	"trafficup/internal/dscpmark"
)

// Names in the state directory beside those of interfaces. No interface can have
// a colon in its name.
const (
	marksFile   = "nft:trafficup.json"
	pendingFile = "apply:pending.json"
	countFile   = "rollback:last.json"
	keptFile    = "desired:kept.json"
	tryFile     = "desired:try.json"
	lockFile    = "apply:lock"

	damagedSuffix = ".damaged"
)

// record is one interface's state file. Only what is needed to clear and to see
// drift is in it; all else is read from the kernel.
type record struct {
	Boot      string    `json:"boot"`
	Link      int       `json:"link"` // index: a device that comes back has another
	Interface Interface `json:"interface"`
	Before    stand     `json:"before"` // at the root
	Since     time.Time `json:"since"`
}

// marksRecord is the state file of the table of marks, of which there is one.
type marksRecord struct {
	Boot   string          `json:"boot"`
	Config dscpmark.Config `json:"config"`
	Since  time.Time       `json:"since"`
}

func interfaceFile(name string) string { return name + ".json" }

// ErrUnreadable is wrapped by the error about state that this user may not read.
// Nor may they change anything: that takes the lock, which is in the same directory.
var ErrUnreadable = errors.New("the state cannot be read")

// load reads a file of the state directory into v. None is no error: ok is false
// then, as it is for one that is damaged. [ErrUnreadable] says that it is not known
// whether there is one.
func (m *Machine) load(name string, v any) (ok bool, err error) {
	return m.loadFrom(m.Dir, name, v)
}

func (m *Machine) loadFrom(dir, name string, v any) (bool, error) {
	data, err := disk.ReadFile(m.FS, filepath.Join(dir, name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case errors.Is(err, fs.ErrPermission):
		return false, fmt.Errorf("%w: %w", ErrUnreadable, err)
	case err != nil:
		return false, fmt.Errorf("state %s: %w", name, err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		reflect.ValueOf(v).Elem().SetZero() // of what was read before the damage
		return false, m.setAside(filepath.Join(dir, name), err)
	}
	return true, nil
}

// setAside renames a file that is damaged, so that it is as if there were none:
// what stands is told by handles and tags then, and what stood before by nobody.
// Who does not have the lock leaves it where it is.
func (m *Machine) setAside(path string, why error) error {
	text := fmt.Sprintf("%s is damaged (%v): it counts for nothing; what stands is judged by the kernel alone, and where clear does not know what was there before, the kernel's default comes back", path, why)
	if m.locked {
		if err := m.FS.Rename(path, path+damagedSuffix); err != nil {
			return fmt.Errorf("set aside a damaged file: %w", err)
		}
		text += "; it is now " + path + damagedSuffix
	}
	if m.Warn != nil && !m.warned[text] {
		if m.warned == nil {
			m.warned = map[string]bool{}
		}
		m.warned[text] = true
		m.Warn(text)
	}
	return nil
}

// save writes a file of the state directory; nil removes it.
func (m *Machine) save(name string, v any) error {
	return m.saveTo(m.Dir, name, v)
}

func (m *Machine) saveTo(dir, name string, v any) error {
	path := filepath.Join(dir, name)
	if v == nil {
		if err := m.FS.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := disk.MakeDir(m.FS, dir); err != nil {
		return err
	}
	return disk.Replace(m.FS, path, data)
}

// recorded is the record of an interface; nil when there is none of this boot.
// What another boot left is stale: its queues went with it.
func (m *Machine) recorded(name string) (*record, error) {
	var r record
	if ok, err := m.load(interfaceFile(name), &r); !ok || err != nil || r.Boot != m.Boot {
		return nil, err
	}
	return &r, nil
}

func (m *Machine) recordedMarks() (*marksRecord, error) {
	var r marksRecord
	if ok, err := m.load(marksFile, &r); !ok || err != nil || r.Boot != m.Boot {
		return nil, err
	}
	return &r, nil
}

// Kept returns what was confirmed last, also before a reboot. ok is false when
// there is nothing, or no directory to keep it in.
func (m *Machine) Kept() (d Desired, ok bool, err error) {
	if m.Keep == "" {
		return d, false, nil
	}
	ok, err = m.loadFrom(m.Keep, keptFile, &d)
	return d, ok, err
}
