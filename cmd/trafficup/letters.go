package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"trafficup/internal/deadletter"
	"trafficup/internal/uploader"
)

// letters turns the uploader's letters into those of the file.
type letters struct {
	w     *deadletter.Writer
	runID string
	body  string // api.body; a replay takes the letter's own
}

func (l letters) Write(in uploader.Letter) error {
	out := deadletter.Letter{
		Reason: string(in.Reason),
		Details: deadletter.Details{
			Status: in.Status, Problem: printable(in.Problem), OutcomeUnknown: in.OutcomeUnknown,
			Body: map[bool]string{true: "envelope"}[l.body == "envelope"], Run: l.runID, Version: versionString(), Attempts: []deadletter.Attempt{},
		},
	}
	if !in.NotBefore.IsZero() {
		at := in.NotBefore.UTC()
		out.NotBefore = &at
	}
	for _, h := range in.History {
		h.Error = printable(h.Error)
		out.Attempts = append(out.Attempts, deadletter.Attempt(h))
	}
	if v := in.Invalid; v != nil {
		out.SpotID, out.Key, out.Source, out.Generation = v.SpotID, v.Key, deadletter.Source(v.Place), v.Generation
		out.SetRecord(v.Raw)
	} else {
		r := in.Record
		out.SpotID, out.Key, out.Source, out.Generation = r.SpotID, r.Key, deadletter.Source(r.Place), r.Generation
		out.SetRecord(r.Raw)
	}
	return l.w.Write(out)
}

// letterFiles returns the files of letters that are meant: those given, each
// once by whatever names, or all pending ones.
func letterFiles(st *state, args []string) ([]string, error) {
	if len(args) == 0 {
		if st.dir == "" {
			return nil, usageError("give --state-dir, or the files", "no state directory: neither $STATE_DIRECTORY nor $HOME is set")
		}
		return deadletter.Pending(st.fs, st.letters())
	}
	var infos []os.FileInfo
	var files []string
	for _, name := range args {
		info, err := stat(st, name)
		if err != nil {
			return nil, &failure{exitInput, "", err}
		}
		if !info.Mode().IsRegular() {
			return nil, &failure{exitInput, "", fmt.Errorf("%s is not a file", name)}
		}
		if !slices.ContainsFunc(infos, func(i os.FileInfo) bool { return os.SameFile(i, info) }) {
			infos, files = append(infos, info), append(files, filepath.Clean(name))
		}
	}
	return files, nil
}

func stat(st *state, name string) (os.FileInfo, error) {
	f, err := st.fs.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	return info, errors.Join(err, f.Close())
}

// stamp writes a time for people; the zero time is unknown.
func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// plural counts things: 1 letter, 1,000 letters.
func plural(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return thousands(int64(n)) + " " + thing
}
