package oauth

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"trafficup/internal/disk"
	"trafficup/internal/secret"
)

// kept is what the cache file holds.
type kept struct {
	access, refresh   secret.Secret
	received, expires time.Time // wall clock; expires is zero when it is not known
}

// stored is its form on disk.
type stored struct {
	For          string    `json:"for"` // whom the token was granted to, and by whom
	AccessToken  string    `json:"access_token"`
	RefreshToken string    `json:"refresh_token,omitempty"`
	Received     time.Time `json:"received"`
	Expires      time.Time `json:"expires,omitzero"`
}

// errCache tells of a cache file that makes no sense. Its content is not quoted.
var errCache = errors.New("is damaged; its tokens are lost")

// load reads the cache file. What was granted for another configuration, or is
// not there, is nothing at all.
func load(fsys disk.FS, name, who string) (kept, error) {
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return kept{}, nil
	}
	if err != nil {
		return kept{}, err
	}
	defer func() { _ = f.Close() }() // read only: nothing can be lost
	data, err := io.ReadAll(io.LimitReader(f, 4*maxAnswer))
	if err != nil {
		return kept{}, err
	}
	var s stored
	if json.Unmarshal(data, &s) != nil {
		return kept{}, fmt.Errorf("token cache %s %w", name, errCache)
	}
	if s.For != who {
		return kept{}, nil
	}
	return kept{secret.New(s.AccessToken), secret.New(s.RefreshToken), s.Received, s.Expires}, nil
}

// save replaces the cache file; it is durable before save returns.
func save(fsys disk.FS, name, who string, k kept) error {
	data, err := json.Marshal(stored{who, k.access.Reveal(), k.refresh.Reveal(), k.received, k.expires})
	if err != nil {
		return fmt.Errorf("token cache %s: %w", name, err)
	}
	return disk.Replace(fsys, name, data)
}

// grant returns the kept token unless it is old, the one in use, or has expired.
// Times that passed through a file are on the wall clock, which may have been set
// since. That can do no harm: a token is never taken to have more left than its
// lifetime, and the API has the last word.
func (k kept) grant(old secret.Secret, now time.Time) (g grant, ok bool) {
	if k.access.IsZero() || k.access.Equal(old) {
		return grant{}, false
	}
	g = grant{value: k.access, found: true}
	if !k.expires.IsZero() {
		g.lifetime = max(k.expires.Sub(k.received), 0)
		g.left = min(k.expires.Sub(now), g.lifetime)
		if g.left <= 0 {
			return grant{}, false
		}
	}
	return g, true
}
