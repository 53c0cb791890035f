package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"

	"trafficup/internal/envelope"
	"trafficup/internal/source"
	"trafficup/internal/uploader"
)

// fileFeed reads files one after the other. The fault of one file never keeps
// the next from being read.
type fileFeed struct {
	files     []string
	faults    []error // known before reading
	opts      source.Options
	validator *envelope.Validator
	whole     bool // post the envelope, not the payload
	r         *source.Reader
	progress  func(read, total int64) // bytes of all files, as stored; nil: nobody asks
	size      int64                   // of all files
	behind    int64                   // of those that were read
}

// sized adds up what there is to read: 0 when a part of it has no size.
func (f *fileFeed) sized() *fileFeed {
	for _, name := range f.files {
		info, err := os.Stat(name)
		if name == "-" || err != nil || !info.Mode().IsRegular() {
			f.size = 0
			return f
		}
		f.size += info.Size()
	}
	return f
}

func (f *fileFeed) Next(ctx context.Context) (uploader.Item, error) {
	for {
		if len(f.faults) > 0 {
			err := f.faults[0]
			f.faults = f.faults[1:]
			return uploader.Item{Fault: err}, nil
		}
		if f.r == nil {
			if len(f.files) == 0 {
				return uploader.Item{}, io.EOF
			}
			r, err := source.Open(f.files[0], f.opts)
			if err != nil {
				f.files = f.files[1:]
				return uploader.Item{Fault: err}, nil
			}
			f.r = r
		}
		it, err := f.r.Next()
		read, _ := f.r.Size()
		if err != nil {
			f.behind += read
			f.r.Close()
			f.r, f.files = nil, f.files[1:]
			if errors.Is(err, io.EOF) {
				continue
			}
			return uploader.Item{Fault: err}, nil
		}
		if f.progress != nil {
			f.progress(f.behind+read, f.size)
		}
		return f.item(it), nil
	}
}

func (f *fileFeed) item(it source.Item) uploader.Item {
	place := uploader.Place{File: it.File, Line: it.Line, Offset: it.Offset, SHA256: f.r.SHA256()}
	if it.Reject != nil {
		return uploader.Item{Invalid: &uploader.Invalid{
			Reason: it.Reject.Reason, Offset: it.Reject.Offset, Raw: bytes.Clone(it.Reject.Sample), Place: place,
		}}
	}
	return decode(f.validator, f.whole, bytes.Clone(it.Raw), place, 0)
}

// decode makes an item of the exact bytes of a record, which it keeps.
func decode(v *envelope.Validator, whole bool, raw []byte, place uploader.Place, generation int) uploader.Item {
	rec, err := v.Decode(raw)
	if err != nil {
		inv := &uploader.Invalid{Reason: err.Error(), Offset: -1, Raw: raw, Place: place, Generation: generation}
		if e, ok := errors.AsType[*envelope.Invalid](err); ok {
			inv.SpotID, inv.Key, inv.Member, inv.Offset = e.SpotID, e.Key, e.Member, e.Offset
		}
		return uploader.Item{Invalid: inv}
	}
	if whole {
		rec.Body = rec.Raw
	}
	return uploader.Item{Record: uploader.Record{Record: rec, Place: place, Generation: generation}}
}
