package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
	"unsafe"
)

// Run begins what one process writes; all entries up to the next Run are its.
type Run struct {
	ID      string
	Command string // upload, replay
	Version string // of the program
	URLs    []string
	Started time.Time
}

// Intent says that a record is about to be sent for the first time in its run.
// It is on disk before the first byte of the request leaves.
type Intent struct {
	At                       time.Time
	Key, SpotID              string
	Market, Station, AirDate string
	File                     string
	FileSHA256               string // hex, of the file as stored; empty for a pipe
	Line, Offset             int64
	Body                     [32]byte // SHA-256 of the bytes posted
	fileNumber               uint64   // of the last file entry that named File
}

// Class is what an answer meant for its record.
type Class byte

// The classes; their numbers are on disk.
const (
	Acked Class = iota + 1
	Retry
	Rejected
	Refused // the login or the configuration, not the record
)

// Answer is the end of one attempt, answered or not.
type Answer struct {
	Key        string
	Attempt    int // from 1 in each run
	SentAt     time.Time
	AnsweredAt time.Time // when the attempt ended, if no answer came
	Status     int       // 0: no answer
	Class      Class
	Wrote      bool // the request may have reached the server
	Path       string
	Receipt    string // at most 255 bytes
	Problem    string // at most 255 bytes
}

// End is how a record ended in its run without being acked: the name of its
// bucket.
type End struct {
	Key     string
	At      time.Time
	Outcome string
	Reason  string // at most 255 bytes
	Wrote   bool   // at least one attempt may have reached the server
}

// The kinds of entries, the first byte of a frame.
const (
	kindRun    = 'R'
	kindFile   = 'F'
	kindIntent = 'I'
	kindAnswer = 'A'
	kindEnd    = 'E'
)

// format is written with every Run; a reader that knows less leaves the run out.
const format = 1

// maxText bounds a text that a server or a file made up.
const maxText = 255

var errEntry = errors.New("not an entry of the ledger")

// writer appends the fields of an entry: numbers as uvarint, texts with their
// length before them, times as microseconds since 1970.
type writer []byte

func (w *writer) num(n uint64)     { *w = binary.AppendUvarint(*w, n) }
func (w *writer) int(n int64)      { *w = binary.AppendVarint(*w, n) }
func (w *writer) time(t time.Time) { w.int(t.UnixMicro()) }
func (w *writer) bytes(b []byte)   { *w = append(*w, b...) }
func (w *writer) text(s string)    { w.num(uint64(len(s))); *w = append(*w, s...) }
func (w *writer) clipped(s string) { w.text(s[:min(len(s), maxText)]) }
func (w *writer) flag(b bool)      { w.num(map[bool]uint64{true: 1}[b]) }

func (r Run) encode(b []byte) []byte {
	w := writer(append(b, kindRun))
	w.num(format)
	w.text(r.ID)
	w.text(r.Command)
	w.text(r.Version)
	w.time(r.Started)
	w.num(uint64(len(r.URLs)))
	for _, u := range r.URLs {
		w.text(u)
	}
	return w
}

// file names a file once, so that intents carry a number only.
type file struct {
	number       uint64 // from 1 in each run
	name, sha256 string
}

func (f file) encode(b []byte) []byte {
	w := writer(append(b, kindFile))
	w.num(f.number)
	w.text(f.name)
	w.text(f.sha256)
	return w
}

func (i Intent) encode(b []byte) []byte {
	w := writer(append(b, kindIntent))
	w.time(i.At)
	w.text(i.Key)
	w.text(i.SpotID)
	w.text(i.Market)
	w.text(i.Station)
	w.text(i.AirDate)
	w.num(i.fileNumber)
	w.num(uint64(i.Line))
	w.num(uint64(i.Offset))
	w.bytes(i.Body[:])
	return w
}

func (a Answer) encode(b []byte) []byte {
	w := writer(append(b, kindAnswer))
	w.text(a.Key)
	w.num(uint64(a.Attempt))
	w.time(a.SentAt)
	w.num(uint64(max(0, a.AnsweredAt.Sub(a.SentAt).Microseconds())))
	w.num(uint64(a.Status))
	w.num(uint64(a.Class))
	w.flag(a.Wrote)
	w.text(a.Path)
	w.clipped(a.Receipt)
	w.clipped(a.Problem)
	return w
}

func (e End) encode(b []byte) []byte {
	w := writer(append(b, kindEnd))
	w.text(e.Key)
	w.time(e.At)
	w.text(e.Outcome)
	w.clipped(e.Reason)
	w.flag(e.Wrote)
	return w
}

// reader takes the fields off a frame. After the first fault it yields zeros.
type reader struct {
	b      []byte
	bad    bool
	borrow bool // texts are parts of b, and valid as long as it is
}

func (r *reader) num() uint64 {
	n, size := binary.Uvarint(r.b)
	return take(r, n, size)
}

func (r *reader) int() int64 {
	n, size := binary.Varint(r.b)
	return take(r, n, size)
}

func take[N any](r *reader, n N, size int) N {
	if size <= 0 {
		r.bad, r.b = true, nil
		var none N
		return none
	}
	r.b = r.b[size:]
	return n
}

func (r *reader) time() time.Time { return time.UnixMicro(r.int()).UTC() }
func (r *reader) flag() bool      { return r.num() != 0 }

func (r *reader) bytes(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) text() string {
	b := r.bytes(r.num())
	if r.borrow {
		return unsafe.String(unsafe.SliceData(b), len(b))
	}
	return string(b)
}

// decode returns Run, file, Intent, Answer or End. Bytes behind the known
// fields are left: a later version may have more to say. nil is an entry of a
// kind this version does not know.
func decode(frame []byte) (entry any, err error) {
	r := reader{b: frame}
	switch r.kind() {
	case kindRun:
		entry = r.run()
	case kindFile:
		entry = r.file()
	case kindIntent:
		entry = r.intent()
	case kindAnswer:
		entry = r.answer()
	case kindEnd:
		entry = r.end()
	}
	if r.bad {
		return nil, fmt.Errorf("%w: %d bytes", errEntry, len(frame))
	}
	return entry, nil
}

// kind is the first byte, 0 for a frame without one.
func (r *reader) kind() byte {
	b := r.bytes(1)
	if len(b) == 0 {
		return 0
	}
	return b[0]
}

func (r *reader) file() file { return file{number: r.num(), name: r.text(), sha256: r.text()} }

func (r *reader) intent() Intent {
	i := Intent{
		At: r.time(), Key: r.text(), SpotID: r.text(), Market: r.text(), Station: r.text(), AirDate: r.text(),
		fileNumber: r.num(), Line: int64(r.num()), Offset: int64(r.num()),
	}
	copy(i.Body[:], r.bytes(32))
	return i
}

func (r *reader) answer() Answer {
	a := Answer{Key: r.text(), Attempt: int(r.num()), SentAt: r.time()}
	a.AnsweredAt = a.SentAt.Add(time.Duration(r.num()) * time.Microsecond)
	a.Status, a.Class, a.Wrote = int(r.num()), Class(r.num()), r.flag()
	a.Path, a.Receipt, a.Problem = r.text(), r.text(), r.text()
	return a
}

func (r *reader) end() End {
	return End{Key: r.text(), At: r.time(), Outcome: r.text(), Reason: r.text(), Wrote: r.flag()}
}

func (r *reader) run() Run {
	if v := r.num(); v != format {
		r.bad = true
	}
	run := Run{ID: r.text(), Command: r.text(), Version: r.text(), Started: r.time()}
	for n := r.num(); n > 0 && !r.bad; n-- {
		run.URLs = append(run.URLs, r.text())
	}
	return run
}
