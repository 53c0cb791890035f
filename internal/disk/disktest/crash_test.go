package disktest_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"

	"trafficup/internal/disk"
	"trafficup/internal/disk/disktest"
)

func create(t *testing.T, fsys disk.FS, name string) disk.File {
	t.Helper()
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, f disk.File, data []byte) {
	t.Helper()
	_, err := f.Write(data)
	must(t, err)
}

func TestPowerCutOfContent(t *testing.T) {
	old, late := bytes.Repeat([]byte("o"), 1000), bytes.Repeat([]byte("n"), 3000)
	var short, whole, hole, mixed bool
	for seed := range uint64(200) {
		d := disktest.New()
		fsys := d.FS()
		f := create(t, fsys, "/f")
		write(t, f, old)
		must(t, f.Sync())
		must(t, fsys.SyncDir("/"))
		write(t, f, late)
		d.PowerCut(rand.New(rand.NewPCG(seed, 0)))
		got, ok := d.Bytes("/f")
		if !ok || !bytes.HasPrefix(got, old) || len(got) > 4000 {
			t.Fatalf("seed %d: there: %v, %d bytes, synced ones kept: %v", seed, ok, len(got), bytes.HasPrefix(got, old))
		}
		rest := got[1000:]
		lost, kept := bytes.Count(rest, []byte{0}), bytes.Count(rest, []byte("n"))
		if lost+kept != len(rest) {
			t.Fatalf("seed %d: bytes that nobody wrote", seed)
		}
		short = short || len(rest) == 0
		whole = whole || kept == 3000
		hole = hole || lost > 0 && rest[len(rest)-1] == 'n'
		mixed = mixed || kept > 0 && lost > 0
	}
	if !short || !whole || !hole || !mixed {
		t.Fatalf("not everything came up: only synced %v, all %v, hole %v, parts %v", short, whole, hole, mixed)
	}
}

func TestPowerCutOfOverwrittenAndCut(t *testing.T) {
	for seed := range uint64(100) {
		d := disktest.New()
		fsys := d.FS()
		f := create(t, fsys, "/f")
		write(t, f, bytes.Repeat([]byte("a"), 2000))
		must(t, f.Sync())
		must(t, fsys.SyncDir("/"))
		must(t, f.Truncate(100))
		write(t, f, []byte("b")) // at 2000, behind a hole
		must(t, f.Truncate(700))
		must(t, f.Sync())
		must(t, f.Truncate(50))
		d.PowerCut(rand.New(rand.NewPCG(seed, 0)))
		got, _ := d.Bytes("/f")
		for i, b := range got { // what was cut off is there, gone, or zeros
			if i >= 100 && b != 0 || i < 50 && b != 'a' || len(got) < 50 || len(got) > 700 {
				t.Fatalf("seed %d: %d bytes: %q", seed, len(got), got)
			}
		}
	}
}

func TestPowerCutOfNames(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(100) {
		d := disktest.New()
		fsys := d.FS()
		must(t, fsys.MkdirAll("/d", 0o700))
		must(t, fsys.SyncDir("/"))
		for _, name := range []string{"kept", "gone", "from"} {
			f := create(t, fsys, "/d/"+name)
			write(t, f, []byte(name))
			must(t, f.Sync())
		}
		must(t, fsys.SyncDir("/d"))
		create(t, fsys, "/d/new")
		must(t, fsys.Remove("/d/gone"))
		must(t, fsys.Rename("/d/from", "/d/to"))
		must(t, fsys.MkdirAll("/lost/e", 0o700))
		must(t, fsys.SyncDir("/lost"))
		create(t, fsys, "/lost/e/f")
		must(t, fsys.SyncDir("/lost/e"))
		d.PowerCut(rand.New(rand.NewPCG(seed, 0)))
		there := map[string]bool{}
		for _, name := range d.Names() {
			there[name], seen[name] = true, true
		}
		if !there["/d/kept"] || there["/d/from"] == there["/d/to"] {
			t.Fatalf("seed %d: %v", seed, d.Names())
		}
		if !there["/d/gone"] {
			seen["gone"] = true
		}
		if !there["/lost/e/f"] {
			seen["lost"] = true
		}
		d.PowerCut(rand.New(rand.NewPCG(seed, 1))) // changes nothing more
		if len(d.Names()) != len(there) {
			t.Fatalf("seed %d: a second cut left %v", seed, d.Names())
		}
	}
	for _, name := range []string{"/d/new", "/d/gone", "gone", "/d/from", "/d/to", "/lost/e/f", "lost"} {
		if !seen[name] {
			t.Errorf("never seen: %s", name)
		}
	}
}

func TestKill(t *testing.T) {
	d := disktest.New()
	fsys := d.FS()
	f := create(t, fsys, "/f")
	write(t, f, []byte("left"))
	d.Kill()
	_, errWrite := f.Write([]byte("x"))
	_, errRead := f.Read(make([]byte, 1))
	_, errStat := f.Stat()
	_, errOpen := fsys.OpenFile("/f", os.O_RDONLY, 0)
	_, errDir := fsys.ReadDir("/")
	for i, err := range []error{errWrite, errRead, errStat, errOpen, errDir, f.Sync(), f.Truncate(0), f.Close(),
		fsys.Rename("/f", "/g"), fsys.Remove("/f"), fsys.SyncDir("/"), fsys.MkdirAll("/d", 0o700)} {
		if !errors.Is(err, disktest.ErrDead) {
			t.Errorf("operation %d: %v", i, err)
		}
	}
	if got, err := disk.ReadFile(d.FS(), "/f"); err != nil || string(got) != "left" {
		t.Fatalf("the next process reads %q, %v", got, err)
	}
}

func TestHook(t *testing.T) {
	d := disktest.New()
	f := create(t, d.FS(), "/f")
	var ops []disktest.Op
	fail := map[disktest.Kind]error{}
	hook := func(op disktest.Op) error {
		ops = append(ops, op)
		return fail[op.Kind]
	}
	d.Hook(hook)
	write(t, f, []byte("one"))
	fail[disktest.Sync] = syscall.EIO
	if err := f.Sync(); !errors.Is(err, syscall.EIO) {
		t.Fatalf("sync: %v", err)
	}
	fail[disktest.Write] = &disktest.Torn{Bytes: 2}
	if n, err := f.Write([]byte("two")); n != 2 || !errors.Is(err, io.ErrShortWrite) {
		t.Fatalf("torn write: %d, %v", n, err)
	}
	want := []disktest.Op{{disktest.Write, "/f", 2, 3}, {disktest.Sync, "/f", 3, 0}, {disktest.Write, "/f", 4, 3}}
	for i, op := range want {
		if ops[i] != op {
			t.Errorf("operation %d: %+v, want %+v", i, ops[i], op)
		}
	}
	d.Hook(func(op disktest.Op) error { // the process dies within the write
		d.Kill()
		return &disktest.Torn{Bytes: 1, Err: disktest.ErrDead}
	})
	if n, err := f.Write([]byte("three")); n != 1 || !errors.Is(err, disktest.ErrDead) {
		t.Fatalf("write of the dying: %d, %v", n, err)
	}
	if got, _ := d.Bytes("/f"); string(got) != "onetwt" {
		t.Fatalf("content is %q", got)
	}
}

func TestLimit(t *testing.T) {
	d := disktest.New()
	d.SetBytes("/other/file", []byte("1234"))
	d.Limit(10)
	f := create(t, d.FS(), "/f")
	if n, err := f.Write([]byte("12345678")); n != 6 || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("write: %d, %v", n, err)
	}
	if err := f.Truncate(7); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("growing: %v", err)
	}
	must(t, f.Truncate(3))
	d.Limit(0)
	write(t, f, []byte("12345678"))
}
