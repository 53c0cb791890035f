package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxEntries bounds how much of a state directory is looked at.
const maxEntries = 10_000

// within judges what is in a state directory: what another user made there, root
// for one, stops a run that may write beside it. All must be readable, and
// directories and the ledger writable.
func within(dir string) []Finding {
	seen, barred := 0, 0
	var first error
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error { // it hands on what we return
		below, rerr := filepath.Rel(dir, path)
		switch {
		case rerr != nil || below == ".", below == "lock": // judged elsewhere
			return nil
		case below == "sandbox": // runs against the stand-in have it
			return fs.SkipDir
		}
		if err == nil {
			if seen++; seen > maxEntries {
				return fs.SkipAll
			}
			if e.IsDir() || e.Type().IsRegular() {
				err = usable(path, e.IsDir() || strings.HasPrefix(below, "ledger"+string(filepath.Separator)), e.IsDir())
			}
		}
		if err == nil || errors.Is(err, fs.ErrNotExist) { // a run may have removed it
			return nil
		}
		if barred++; first == nil {
			first = err
		}
		if e.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	if barred == 0 {
		return nil
	}
	return []Finding{failed(stateWhat, fmt.Sprintf("give all of it to the user of the runs, as root: chown -R %d %q", os.Getuid(), dir),
		"%d of %d files and directories in it cannot be used; the first: %v", barred, seen, first)}
}

// Log judges the file that the log is to be appended to. It is not made.
func Log(file string) Finding {
	const what = "log file"
	do := fmt.Sprintf("make it writable for this user, or give another --log-file: ls -ld %q %q", filepath.Dir(file), file)
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		above := filepath.Dir(file)
		if _, err = os.Stat(above); err != nil {
			return failed(what, fmt.Sprintf("mkdir -p -m 700 %q, or give another --log-file", above), "it cannot be made: %v", err)
		}
		err = writable(above)
	case err == nil && info.IsDir():
		return failed(what, "give another --log-file", "%s is a directory", file)
	case err == nil && info.Mode().IsRegular():
		var f *os.File
		if f, err = os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0); err == nil {
			err = f.Close()
		}
	}
	if err != nil {
		return failed(what, do, "%v", err)
	}
	return ok(what, "%s can be written", file)
}
