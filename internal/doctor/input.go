package doctor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"trafficup/internal/disk"
	"trafficup/internal/source"
)

const inputWhat = "input"

// Input judges what an argument of a run names: a file, a directory, or "-". A
// file that changed within settle before now may be in its writer's hands. What a
// pipe holds is left in it.
func Input(arg string, settle time.Duration, now time.Time) []Finding {
	if arg == "-" {
		return []Finding{ok(inputWhat, "standard input")}
	}
	names, errs := source.Expand([]string{arg})
	if len(errs) > 0 {
		return []Finding{failed(inputWhat, "name a file, or a directory with logs in it: ls -l "+fmt.Sprintf("%q", arg), "%v", errs[0])}
	}
	var total int64
	var bad []Finding
	kind := fmt.Sprintf("%d files", len(names))
	for _, name := range names {
		f, err := look(name)
		quiet := max(now.Sub(f.changed), 0)
		switch {
		case err != nil:
			bad = append(bad, failed(inputWhat, fmt.Sprintf("ls -l %q", name), "%s: %v", name, err))
		case f.pipe:
			return []Finding{ok(inputWhat, "%s: a pipe, read when a run starts", name)}
		case f.size == 0:
			bad = append(bad, failed(inputWhat, "see why its writer left nothing in it", "%s is empty", name))
		case quiet < settle:
			bad = append(bad, warning(inputWhat, "run again when it is whole", "%s changed %v ago, and may still be written", name, quiet.Round(100*time.Millisecond)))
		}
		total += f.size
		if len(names) == 1 {
			kind = f.kind
		}
	}
	if len(names) > 1 || len(bad) == 0 {
		bad = append([]Finding{ok(inputWhat, "%s: %s, %s", arg, kind, size(uint64(total)))}, bad...)
	}
	return bad
}

// seen is a file as one look shows it.
type seen struct {
	kind    string
	size    int64
	changed time.Time
	pipe    bool
}

func look(name string) (seen, error) {
	info, err := os.Stat(name)
	if err != nil {
		return seen{}, bare(err)
	}
	if info.Mode()&os.ModeNamedPipe != 0 {
		return seen{pipe: true}, nil
	}
	f, err := disk.OS{}.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return seen{}, bare(err)
	}
	defer func() { _ = f.Close() }() // read only: nothing can be lost
	head := make([]byte, 4)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return seen{}, bare(err)
	}
	return seen{kind: packing(head[:n]), size: info.Size(), changed: info.ModTime()}, nil
}

// packing tells compression by the first bytes (RFC 1952 §2.3.1, RFC 8878 §3.1.1).
func packing(head []byte) string {
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return "a file, gzip"
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return "a file, zstd"
	}
	return "a file"
}

// bare is an error without the name of the file, which is said before it.
func bare(err error) error {
	if p, is := errors.AsType[*fs.PathError](err); is {
		return p.Err
	}
	return err
}
