package main

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"

	"trafficup/internal/journal"
	"trafficup/internal/uploader"
)

// maxFirst bounds how many records of unknown fate are sent before the others.
const maxFirst = 100_000

// unknownFirst reads the files of f twice when the ledger knows of records that
// were sent and not answered: first for these alone, then for all others. What
// cannot be read twice is read once, in order.
func unknownFirst(f *fileFeed, j *journal.Journal) uploader.Feed {
	if j.UnknownLeft() == 0 {
		return f
	}
	first := *f
	first.faults, first.progress = nil, nil // both come with the second reading
	first.files = slices.DeleteFunc(slices.Clone(f.files), func(name string) bool {
		info, err := os.Stat(name)
		return name == "-" || err != nil || !info.Mode().IsRegular()
	})
	return &resumedFeed{first: &first, rest: f, journal: j, sent: map[uploader.Place]bool{}}
}

type resumedFeed struct {
	first   *fileFeed // nil: done with
	rest    *fileFeed
	journal *journal.Journal
	sent    map[uploader.Place]bool // given out of first; a file that changed between is another one by its sum
}

func (r *resumedFeed) Next(ctx context.Context) (uploader.Item, error) {
	for r.first != nil {
		item, err := r.first.Next(ctx)
		switch {
		case errors.Is(err, io.EOF), r.journal.UnknownLeft() == 0, len(r.sent) == maxFirst, ctx.Err() != nil:
			if r.first.r != nil {
				r.first.r.Close()
			}
			r.first = nil
			if err == nil && r.wanted(item) {
				return r.give(item), nil
			}
		case err != nil:
			return item, err
		case r.wanted(item):
			return r.give(item), nil
		}
	}
	for {
		item, err := r.rest.Next(ctx)
		if err == nil && item.Invalid == nil && item.Fault == nil && r.sent[item.Record.Place] {
			delete(r.sent, item.Record.Place)
			continue
		}
		return item, err
	}
}

func (r *resumedFeed) wanted(item uploader.Item) bool {
	return item.Invalid == nil && item.Fault == nil && r.journal.Unknown(item.Record.Key)
}

func (r *resumedFeed) give(item uploader.Item) uploader.Item {
	r.sent[item.Record.Place] = true
	return item
}
