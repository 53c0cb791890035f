// Package secret holds values that must not be seen: tokens, passwords, keys.
// A Secret can be stored, compared and sent, but not printed by accident: every
// way of printing, logging or marshalling it gives ***. Only Reveal gives the
// value, so that looking for its calls finds every place it can get out by.
package secret

import (
	"crypto/subtle"
	"fmt"
	"log/slog"
)

const masked = "***"

// Secret is a value that prints as ***. The zero Secret holds none. Secrets are
// immutable, safe for concurrent use, and cannot be compared with ==.
type Secret struct {
	// A closure, because packages that print structs look into their unexported
	// fields without asking any method, and follow pointers. None can look here.
	reveal func() string
}

// New returns a Secret that holds value as it is; none when value is empty.
func New(value string) Secret {
	if value == "" {
		return Secret{}
	}
	return Secret{func() string { return value }}
}

// Reveal returns the value, "" when there is none.
func (s Secret) Reveal() string {
	if s.reveal == nil {
		return ""
	}
	return s.reveal()
}

// IsZero tells that there is no value.
func (s Secret) IsZero() bool { return s.reveal == nil }

// Equal tells whether both hold the same value. The time it takes tells nothing
// but the lengths.
func (s Secret) Equal(t Secret) bool {
	return subtle.ConstantTimeCompare([]byte(s.Reveal()), []byte(t.Reveal())) == 1
}

// String returns ***.
func (Secret) String() string { return masked }

// Format prints *** under every verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(masked)) }

// MarshalText returns ***. There is no UnmarshalText: what was masked is gone.
func (Secret) MarshalText() ([]byte, error) { return []byte(masked), nil }

// LogValue returns ***.
func (Secret) LogValue() slog.Value { return slog.StringValue(masked) }
