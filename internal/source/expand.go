package source

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Expand turns arguments into files. A directory stands for its log files, sorted
// by name, without those of its subdirectories and without hidden ones; "-"
// stays. Each error is a *FileError; the other arguments are not affected.
func Expand(args []string) (files []string, errs []error) {
	for _, arg := range args {
		if arg == "-" {
			files = append(files, arg)
			continue
		}
		info, err := os.Stat(arg)
		if err == nil && !info.IsDir() {
			files = append(files, arg)
			continue
		}
		var entries []fs.DirEntry
		if err == nil {
			entries, err = os.ReadDir(arg)
		}
		if err != nil {
			errs = append(errs, openError(arg, err))
			continue
		}
		found := 0
		for _, e := range entries {
			name := filepath.Join(arg, e.Name())
			if !logName(e.Name()) {
				continue
			}
			if info, err := os.Stat(name); err == nil && info.IsDir() {
				continue
			}
			found++ // a dangling link too: opening it says what is wrong
			files = append(files, name)
		}
		if found == 0 {
			errs = append(errs, &FileError{
				File: arg, Reason: "empty: no log files in this directory",
				Hint: "log files end in .ndjson, .json, .csv or .tsv, with .gz or .zst behind it", Err: ErrEmpty,
			})
		}
	}
	return files, errs
}

func logName(name string) bool {
	if strings.HasPrefix(name, ".") {
		return false
	}
	switch nameFormat(name) {
	case ".ndjson", ".json", ".csv", ".tsv":
		return true
	}
	return false
}

// nameFormat is the ending of a name under that of its compression.
func nameFormat(name string) string {
	name = strings.ToLower(name)
	name = strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".zst")
	return filepath.Ext(name)
}

// openError says what stands between us and a file, without its name, which
// FileError adds.
func openError(name string, err error) *FileError {
	reason := err.Error()
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		reason = p.Err.Error()
	}
	f := &FileError{File: name, Reason: reason, Err: err}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.Hint = "see whether the file was written, and its name; then run again: what was sent is not sent twice"
	case errors.Is(err, fs.ErrPermission):
		f.Hint = "make it readable, then run again: what was sent is not sent twice"
	}
	return f
}
