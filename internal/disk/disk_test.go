package disk_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"trafficup/internal/disk"
	"trafficup/internal/disk/disktest"
)

// TestReplaceAtEveryCrash ends the process at every operation of Replace, before
// it and, in a write, in the middle, and cuts the power as well.
func TestReplaceAtEveryCrash(t *testing.T) {
	t.Run("clean", func(t *testing.T) { replaceAtEveryCrash(t, false) })
	t.Run("after a crash", func(t *testing.T) { replaceAtEveryCrash(t, true) })
}

// replaceAtEveryCrash begins, when leftover, beside a temporary file of before.
func replaceAtEveryCrash(t *testing.T, leftover bool) {
	before, after := bytes.Repeat([]byte("old "), 500), bytes.Repeat([]byte("new "), 700)
	for at := int64(1); ; at++ {
		crashed := false
		for seed := range uint64(40) {
			d := disktest.New()
			d.SetBytes("/d/state", before)
			if leftover {
				d.SetBytes("/d/state.tmp", []byte("torn"))
			}
			var first int64
			d.Hook(func(op disktest.Op) error {
				if first == 0 {
					first = op.N
				}
				if op.N-first+1 != at {
					return nil
				}
				crashed = true
				d.Kill()
				return &disktest.Torn{Bytes: int(seed) * 70, Err: disktest.ErrDead}
			})
			err := disk.Replace(d.FS(), "/d/state", after)
			if crashed != errors.Is(err, disktest.ErrDead) {
				t.Fatalf("crash %d: %v", at, err)
			}
			if seed%2 == 1 || !crashed {
				d.PowerCut(rand.New(rand.NewPCG(seed, uint64(at))))
			}
			got, err := disk.ReadFile(d.FS(), "/d/state")
			switch {
			case err != nil:
				t.Fatalf("crash %d, seed %d: %v", at, seed, err)
			case !crashed && !bytes.Equal(got, after):
				t.Fatalf("seed %d: done, but after a power cut there are %d bytes of %q", seed, len(got), got[:min(len(got), 4)])
			case !bytes.Equal(got, before) && !bytes.Equal(got, after):
				t.Fatalf("crash %d, seed %d: neither old nor new, %d bytes", at, seed, len(got))
			}
			// What the crash left is no obstacle.
			if err := disk.Replace(d.FS(), "/d/state", []byte("next")); err != nil {
				t.Fatal(err)
			}
		}
		if !crashed {
			if at < 6 {
				t.Fatalf("only %d operations", at-1)
			}
			return
		}
	}
}

func TestReplaceThatFails(t *testing.T) {
	for _, kind := range []disktest.Kind{disktest.Create, disktest.Write, disktest.Sync, disktest.Rename, disktest.SyncDir} {
		t.Run(string(kind), func(t *testing.T) {
			d := disktest.New()
			d.SetBytes("/d/state", []byte("old"))
			d.Hook(func(op disktest.Op) error {
				if op.Kind == kind {
					return syscall.EIO
				}
				return nil
			})
			err := disk.Replace(d.FS(), "/d/state", []byte("new"))
			if !errors.Is(err, syscall.EIO) || !bytes.Contains([]byte(err.Error()), []byte("/d/state")) {
				t.Fatalf("error is %v", err)
			}
			want := "old"
			if kind == disktest.SyncDir {
				want = "new"
			}
			if got, _ := d.Bytes("/d/state"); string(got) != want {
				t.Fatalf("content is %q", got)
			}
			if names := fmt.Sprint(d.Names()); names != "[/d/state]" {
				t.Fatalf("left behind: %s", names)
			}
		})
	}
}

func TestReplaceOnTheMachinesDisk(t *testing.T) {
	name := filepath.Join(t.TempDir(), "state")
	for _, want := range []string{"one", "two"} {
		if err := disk.Replace(disk.OS{}, name, []byte(want)); err != nil {
			t.Fatal(err)
		}
		got, err := disk.ReadFile(disk.OS{}, name)
		if err != nil || string(got) != want {
			t.Fatalf("read %q, %v", got, err)
		}
	}
	info, err := os.Stat(name)
	if err != nil || info.Mode() != 0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	if err := disk.Replace(disk.OS{}, filepath.Join(name, "below"), nil); !errors.Is(err, syscall.ENOTDIR) {
		t.Fatalf("below a file: %v", err)
	}
	if _, err := disk.ReadFile(disk.OS{}, name+".tmp"); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("a temporary file: %v", err)
	}
}

// What lies in the place of the temporary file lends the new one neither its mode
// nor what it links to.
func TestReplaceTrustsNoLeftover(t *testing.T) {
	for kind, leave := range map[string]func(tmp, victim string) error{
		"open to all": func(tmp, _ string) error {
			return errors.Join(os.WriteFile(tmp, []byte("a longer one"), 0o600), os.Chmod(tmp, 0o666))
		},
		"a link":         func(tmp, victim string) error { return os.Symlink(victim, tmp) },
		"a link to none": func(tmp, victim string) error { return os.Symlink(victim+"-none", tmp) },
		"a second name":  func(tmp, victim string) error { return os.Link(victim, tmp) },
		"a pipe":         func(tmp, _ string) error { return syscall.Mkfifo(tmp, 0o666) },
		"a directory":    func(tmp, _ string) error { return os.Mkdir(tmp, 0o700) },
	} {
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			name, victim := filepath.Join(dir, "state"), filepath.Join(dir, "victim")
			if err := os.WriteFile(victim, []byte("theirs"), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := leave(name+".tmp", victim); err != nil {
				t.Fatal(err)
			}
			if err := disk.Replace(disk.OS{}, name, []byte("new")); err != nil {
				t.Fatal(err)
			}
			info, err := os.Lstat(name)
			if err != nil || info.Mode() != 0o600 {
				t.Errorf("mode %v, %v", info.Mode(), err)
			}
			if got, err := os.ReadFile(victim); err != nil || string(got) != "theirs" {
				t.Errorf("the other file holds %q, %v", got, err)
			}
			if _, err := os.Stat(victim + "-none"); err == nil {
				t.Error("a file was made where the link leads")
			}
		})
	}
}

// TestMakeDirIsDurable loses nothing that is synced inside, whoever made the
// directories and how far he came.
func TestMakeDirIsDurable(t *testing.T) {
	for seed := range uint64(20) {
		d := disktest.New()
		if err := d.FS().MkdirAll("/a/b", 0o700); err != nil { // by one who died
			t.Fatal(err)
		}
		d.Kill()
		fsys := d.FS()
		if err := disk.MakeDir(fsys, "/a/b/c"); err != nil {
			t.Fatal(err)
		}
		if err := disk.Replace(fsys, "/a/b/c/state", []byte("new")); err != nil {
			t.Fatal(err)
		}
		d.PowerCut(rand.New(rand.NewPCG(seed, 0)))
		if got, _ := d.Bytes("/a/b/c/state"); string(got) != "new" {
			t.Fatalf("seed %d: content is %q", seed, got)
		}
	}
	d := disktest.New()
	d.SetBytes("/file", nil)
	if err := disk.MakeDir(d.FS(), "/file/below"); !errors.Is(err, syscall.ENOTDIR) {
		t.Fatalf("below a file: %v", err)
	}
	if err := disk.MakeDir(disk.OS{}, filepath.Join(t.TempDir(), "a", "b")); err != nil {
		t.Fatal(err)
	}
}

// A pipe in the place of a file is refused, not waited for.
func TestPipeIsRefused(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, flag := range []int{os.O_RDONLY, os.O_RDWR, os.O_WRONLY | os.O_CREATE} {
		if f, err := (disk.OS{}).OpenFile(name, flag, 0o600); err == nil {
			t.Errorf("flag %d: opened", flag)
			_ = f.Close()
		}
	}
}
