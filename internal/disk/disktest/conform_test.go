package disktest_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"trafficup/internal/disk"
	"trafficup/internal/disk/disktest"
)

// cause is the part of an error that both disks must agree on.
func cause(err error) error {
	if no, ok := errors.AsType[syscall.Errno](err); ok {
		return no
	}
	for _, known := range []error{io.EOF, fs.ErrClosed} {
		if errors.Is(err, known) {
			return known
		}
	}
	return err
}

// world is one of the two disks with the files open on it.
type world struct {
	fs   disk.FS
	root string
	open []disk.File
}

func (w *world) path(name string) string { return filepath.Join(w.root, name) }

// list is everything that is on the disk, as text.
func (w *world) list(dir string) string {
	entries, err := w.fs.ReadDir(w.path(dir))
	if err != nil {
		return fmt.Sprint(cause(err))
	}
	var b strings.Builder
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		info, err := e.Info()
		if err != nil || info.Name() != e.Name() || info.IsDir() != e.IsDir() {
			return fmt.Sprint("bad info of ", name, err)
		}
		if e.IsDir() {
			fmt.Fprintf(&b, "%s %v (%s)\n", name, info.Mode(), w.list(name))
			continue
		}
		data, err := disk.ReadFile(w.fs, w.path(name))
		fmt.Fprintf(&b, "%s %v %d %q %v\n", name, info.Mode(), info.Size(), data, err)
	}
	return b.String()
}

// TestConformance does the same on the machine's disk and on the one in memory.
func TestConformance(t *testing.T) {
	dirs := rapid.SampledFrom([]string{"d", "d/e", "d/e/f"})
	files := rapid.SampledFrom([]string{"x", "d/y", "d/e/z", "x/below", "missing/below"})
	flags := rapid.SampledFrom([]int{os.O_RDONLY, os.O_WRONLY, os.O_RDWR})
	rapid.Check(t, func(t *rapid.T) {
		tmp, err := os.MkdirTemp("", "conform")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = os.RemoveAll(tmp) }()
		memory := disktest.New().FS()
		if err := memory.MkdirAll("/root", 0o700); err != nil {
			t.Fatal(err)
		}
		worlds := []*world{{fs: disk.OS{}, root: tmp}, {fs: memory, root: "/root"}}
		defer func() {
			for _, f := range worlds[0].open {
				_ = f.Close()
			}
		}()
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			step := draw(t, dirs, files, flags, len(worlds[0].open))
			if got, want := step(worlds[1]), step(worlds[0]); got != want {
				t.Fatalf("in memory: %s\non disk:   %s", got, want)
			}
			if got, want := worlds[1].list("."), worlds[0].list("."); got != want {
				t.Fatalf("in memory:\n%s\non disk:\n%s", got, want)
			}
		}
	})
}

// draw chooses an operation; it returns what there is to see of its result.
func draw(t *rapid.T, dirs, files *rapid.Generator[string], flags *rapid.Generator[int], open int) func(*world) string {
	result := func(v ...any) string {
		if err, ok := v[len(v)-1].(error); ok {
			v[len(v)-1] = cause(err)
		}
		return fmt.Sprintln(v...)
	}
	any := rapid.OneOf(dirs, files)
	if open > 0 && rapid.Bool().Draw(t, "on a file") {
		i := rapid.IntRange(0, open-1).Draw(t, "file")
		n := rapid.IntRange(1, 20).Draw(t, "n")
		switch rapid.IntRange(0, 6).Draw(t, "what") {
		case 0, 1:
			data := rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "data")
			return func(w *world) string { n, err := w.open[i].Write(data); return result("write", n, err) }
		case 2:
			return func(w *world) string {
				b := make([]byte, n)
				n, err := w.open[i].Read(b)
				return result("read", n, b, err)
			}
		case 3:
			return func(w *world) string { return result("truncate", w.open[i].Truncate(int64(n-2))) }
		case 4:
			return func(w *world) string { return result("sync", w.open[i].Sync()) }
		case 5:
			return func(w *world) string {
				info, err := w.open[i].Stat()
				if err != nil || info.IsDir() {
					return result("stat", err)
				}
				return result("stat", info.Name(), info.Size(), info.Mode())
			}
		}
		return func(w *world) string { return result("close", w.open[i].Close()) }
	}
	switch rapid.IntRange(0, 5).Draw(t, "what") {
	case 0:
		dir := rapid.OneOf(dirs, rapid.Just("x/below")).Draw(t, "dir")
		if dir == "x/below" {
			return func(w *world) string { _, err := w.fs.ReadDir(w.path(dir)); return result("readdir", err) }
		}
		return func(w *world) string { return result("mkdirall", w.fs.MkdirAll(w.path(dir), 0o700)) }
	case 1:
		from, to := files.Draw(t, "from"), any.Draw(t, "to")
		return func(w *world) string { return result("rename", w.fs.Rename(w.path(from), w.path(to))) }
	case 2:
		name := any.Draw(t, "name")
		return func(w *world) string { return result("remove", w.fs.Remove(w.path(name))) }
	case 3:
		dir := dirs.Draw(t, "dir")
		return func(w *world) string { // a file in its place is no matter of ours
			return result("syncdir", errors.Is(w.fs.SyncDir(w.path(dir)), fs.ErrNotExist))
		}
	}
	name, flag := any.Draw(t, "name"), flags.Draw(t, "mode")
	for _, more := range []int{os.O_CREATE, os.O_EXCL, os.O_TRUNC, os.O_APPEND} {
		if rapid.Bool().Draw(t, "flag") && (more != os.O_EXCL || flag&os.O_CREATE != 0) {
			flag |= more
		}
	}
	return func(w *world) string {
		f, err := w.fs.OpenFile(w.path(name), flag, 0o600)
		if err == nil {
			w.open = append(w.open, f)
		}
		return result("open", name, flag, err)
	}
}
