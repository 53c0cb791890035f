package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// wanted is the record that a person asks for: by its key, its spot id, or the
// file and line it was read from.
type wanted struct {
	name     string // key or spot id
	file     string
	line     int64    // 0: name is not FILE:LINE
	known    bool     // a file of exactly this name was met
	byBase   bool     // the last part of a file's name is enough
	lookedIn []string // files that are taken for it by the last part of their names
}

func newWanted(what string) *wanted {
	w := &wanted{name: what}
	if i := strings.LastIndexByte(what, ':'); i > 0 {
		if n, err := strconv.ParseInt(what[i+1:], 10, 64); err == nil {
			w.file, w.line = what[:i], max(n, 0)
		}
	}
	return w
}

// matches reports whether a record is the one. It remembers the names of files.
func (w *wanted) matches(key, spot, file string, line int64) bool {
	w.known = w.known || file == w.file
	switch {
	case w.name == key || w.name == spot:
		return true
	case w.line == 0 || w.line != line:
		return false
	case w.byBase && filepath.Base(w.file) == filepath.Base(file):
		if !slices.Contains(w.lookedIn, file) {
			w.lookedIn = append(w.lookedIn, file)
		}
		return true
	}
	return w.file == file
}

// widen makes the last part of a file's name enough, where no file has the name
// that was given. It reports whether it is worth to look again.
func (w *wanted) widen() bool {
	w.byBase = w.line > 0 && !w.known
	return w.byBase
}

// ambiguous says that several files are meant; empty when one is.
func (w *wanted) ambiguous() string {
	if len(w.lookedIn) < 2 {
		return ""
	}
	return fmt.Sprintf("%s is line %d of several files: %s", w.name, w.line, strings.Join(w.lookedIn, ", "))
}

// otherwise is how else a record may be found that was not; flags are those by
// which commands find the state directory.
func (w *wanted) otherwise(flags string) string {
	form := "FILE:LINE as in night.ndjson:17"
	if w.line > 0 {
		form = "its key or spot id"
	}
	return fmt.Sprintf("try %s; trafficup status%s shows what was run here, and other runs may have another --state-dir", form, flags)
}
