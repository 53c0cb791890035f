package main

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"trafficup/internal/deadletter"
	"trafficup/internal/journal"
	"trafficup/internal/uploader"
)

// ledger verifies every frame and entry.
func (c *checker) ledger() {
	const what = "ledger"
	var runs, intents, stray int
	seed, keys := maphash.MakeSeed(), map[uint64]struct{}{}
	known := func(key string) bool {
		_, ok := keys[maphash.String(seed, key)]
		return ok
	}
	report, bad, err := journal.Read(c.fs, c.state.ledger(), func(entry any) error {
		switch e := entry.(type) {
		case journal.Run:
			runs++
		case journal.Intent:
			intents++
			keys[maphash.String(seed, e.Key)] = struct{}{}
		case journal.Answer:
			if !known(e.Key) {
				stray++
			}
		case journal.End:
			if !known(e.Key) {
				stray++
			}
		}
		return nil
	})
	if err != nil {
		c.cannotRead(what, err)
	}
	for _, d := range report.Torn {
		c.found(finding{
			Result: checkWarning, What: what, File: d.File, Offset: &d.Offset,
			Message: fmt.Sprintf("%s cut off by a crash, or being written now; the next run takes them off", plural(int(d.Bytes), "byte")),
		})
	}
	for _, d := range report.Damaged {
		c.found(finding{
			Result: checkFailed, What: what, File: d.File, Offset: &d.Offset,
			Message: fmt.Sprintf("%s damaged (%s); acks that stood there are lost: their records are sent again under the same keys", plural(int(d.Bytes), "byte"), d.Reason),
		})
	}
	if bad > 0 {
		c.found(finding{Result: checkFailed, What: what, Message: fmt.Sprintf("%d entries with good sums make no sense; runs skip them", bad)})
	}
	c.ok(what, "%s, %s, %s, %s without their intent", plural(report.Segments, "segment"), plural(runs, "run"), plural(intents, "intent"), plural(stray, "answer"))
}

// deadLetters verifies that every line of every file is a letter.
func (c *checker) deadLetters(what, dir string) {
	files, err := deadletter.Pending(c.fs, dir)
	if err != nil {
		c.cannotRead(what, err)
	}
	letters := 0
	for _, file := range files {
		letters += c.letterFile(what, file)
	}
	c.ok(what, "%s, %s", plural(len(files), "file"), plural(letters, "letter"))
}

func (c *checker) letterFile(what, file string) (letters int) {
	r, err := deadletter.OpenReader(c.fs, file)
	if errors.Is(err, fs.ErrNotExist) {
		return 0 // a replay has just settled it
	}
	if err != nil {
		c.cannotRead(what, err)
		return 0
	}
	defer r.Close()
	var first error
	var line int64
	bad := 0
	for {
		_, err := r.Next()
		switch {
		case err == nil:
			letters++
			continue
		case errors.Is(err, deadletter.ErrTorn):
			c.found(finding{Result: checkWarning, What: what, File: file, Line: r.Line(), Message: deadletter.ErrTorn.Error()})
			continue
		case errors.Is(err, deadletter.ErrFormat):
			if bad++; bad == 1 {
				first, line = err, r.Line()
			}
			continue
		case !errors.Is(err, io.EOF):
			c.cannotRead(what, fmt.Errorf("%s: %w", file, err))
		}
		break
	}
	if bad > 0 {
		c.found(finding{
			Result: checkFailed, What: what, File: file, Line: line,
			Message: fmt.Sprintf("%s; %s like this in the file; what it held has to be uploaded again from its source",
				strings.TrimPrefix(first.Error(), fmt.Sprintf("%s:%d: ", file, line)), plural(bad, "line")),
		})
	}
	return letters
}

// reports verifies that every run's report can be read and balances.
func (c *checker) reports() {
	const what = "reports"
	entries, err := c.fs.ReadDir(c.runs())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.cannotRead(what, err)
	}
	sound := 0
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		path := c.report(e.Name())
		r, err := readReport(c.state, e.Name())
		switch {
		case errors.Is(err, fs.ErrNotExist):
			c.found(finding{Result: checkWarning, What: what, File: path, Message: "there is none: the run was cut off while it wrote it; ledger and letters have what it did"})
		case err != nil:
			c.found(finding{Result: checkFailed, What: what, File: path, Message: err.Error()})
		case !(uploader.Summary{Counts: r.Counts}).Balanced():
			c.found(finding{Result: checkFailed, What: what, File: path, Message: fmt.Sprintf("the sums do not balance: %s read, and the parts give another sum", plural(int(r.Read), "record"))})
		default:
			sound++
		}
	}
	c.ok(what, "%s", plural(sound, "report"))
}

func (c *checker) breakers() {
	const what = "breakers"
	states, err := readBreakers(c.state)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.found(finding{Result: checkFailed, What: what, File: c.state.breakers(), Message: err.Error() + "; the next run begins with closed breakers and sets the file aside"})
	}
	c.ok(what, "%s", plural(len(states), "path"))
}

// rights looks for files that others can read, and for what crashes left.
func (c *checker) rights() {
	const what = "files"
	var wide []string
	files := 0
	see := func(path string, info fs.FileInfo) {
		if info.Mode().Perm()&0o077 != 0 {
			wide = append(wide, path)
		}
	}
	if info, err := stat(c.state, c.dir); err != nil {
		c.cannotRead(what, err)
	} else {
		see(c.dir, info)
	}
	c.walk(c.dir, func(path string, info fs.FileInfo) {
		see(path, info)
		switch {
		case info.IsDir():
		case strings.HasSuffix(path, ".tmp") || strings.HasPrefix(filepath.Base(path), ".breaker.json"):
			c.found(finding{Result: checkWarning, What: what, File: path, Message: "left by a crash, or being written now; when no run is under way it may be deleted"})
		case strings.HasSuffix(path, ".bad"):
			c.found(finding{Result: checkWarning, What: what, File: path, Message: "damaged, and set aside by a run; it may be deleted"})
		default:
			files++
		}
	})
	if len(wide) > 0 {
		more := ""
		if n := len(wide) - 1; n > 0 {
			more = " and on " + plural(n, "more path")
		}
		c.found(finding{
			Result: checkWarning, What: what, File: wide[0],
			Message: fmt.Sprintf("others than the owner have rights on this%s, and letters hold whole records: chmod -R go-rwx %s", more, quoted(c.dir)),
		})
	}
	c.ok(what, "%s, for their owner alone", plural(files, "file"))
}

// walk visits the files and directories below dir. Links are left out: their
// rights mean nothing.
func (c *checker) walk(dir string, visit func(path string, info fs.FileInfo)) {
	entries, err := c.fs.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.cannotRead("files", err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !e.IsDir() && !e.Type().IsRegular() {
			continue // gone meanwhile, or a link
		}
		path := filepath.Join(dir, e.Name())
		visit(path, info)
		if e.IsDir() {
			c.walk(path, visit)
		}
	}
}
