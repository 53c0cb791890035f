package oauth

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"trafficup/internal/secret"
)

// File returns the source of a token that somebody else keeps in a file. The file
// is read again when it looks changed, and when its token is refused. While it
// cannot be read the last token stays in use, unless that was refused. warn, which may be nil, is told
// once when the file is open to others.
func File(path string, warn func(string)) Source { return &file{path: path, warn: warn} }

type file struct {
	path string

	mu    sync.Mutex
	warn  func(string) // guarded by mu; nil when it was told
	token Token        // guarded by mu; generation 0: none yet
	stale bool         // guarded by mu; the API refused the token, and there was no other
	seen  fs.FileInfo  // guarded by mu; the file as it was when read
}

func (f *file) Token(context.Context) (Token, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.path)
	known := f.token.Generation > 0 && !f.stale
	if known && (err != nil || os.SameFile(info, f.seen) && info.Size() == f.seen.Size() && info.ModTime().Equal(f.seen.ModTime())) {
		return f.token, nil
	}
	if err := f.read(); err != nil && !known {
		return Token{}, err
	}
	if f.stale {
		return Token{}, unavailable(fmt.Sprintf("the token in %s was refused, and there is no other yet", f.path))
	}
	return f.token, nil
}

func (f *file) Accept(uint64, string, bool) {}

func (f *file) Refuse(_ context.Context, generation uint64, _ string) (Token, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if generation == f.token.Generation {
		if err := f.read(); err != nil {
			f.stale = true // it is being replaced, perhaps
			return Token{}, err
		}
		if generation == f.token.Generation {
			return Token{}, ErrSame
		}
	}
	return f.token, nil
}

// read takes the file's token. requires mu.
func (f *file) read() error {
	info, err := os.Stat(f.path) // before reading: what changes in between is read again
	if err != nil {
		return unavailable(err.Error())
	}
	value, warning, err := secret.ReadFile(f.path)
	if err != nil {
		return unavailable(err.Error())
	}
	if warning != "" && f.warn != nil {
		f.warn(warning)
		f.warn = nil
	}
	f.seen = info
	if err := Valid(value); err != nil {
		return unavailable(fmt.Sprintf("read %s: %v", f.path, err))
	}
	if !value.Equal(f.token.Value) {
		f.stale = false
		f.token = Token{Value: value, Received: time.Now(), Generation: f.token.Generation + 1}
	}
	return nil
}
