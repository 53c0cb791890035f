package sandbox

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"sync"
)

// keyHash is the first half of the SHA-256 of a key: 2 million records need
// about 100 MB instead of a copy of every key.
type keyHash [16]byte

func hashKey(key string) keyHash {
	sum := sha256.Sum256([]byte(key))
	return keyHash(sum[:16])
}

func hashBody(body []byte) uint64 {
	sum := sha256.Sum256(body)
	return binary.BigEndian.Uint64(sum[:8])
}

// receipt is made from the key alone, so that it need not be stored and the
// first receipt is the only one a key can have.
func (k keyHash) receipt() string { return "rcpt-" + hex.EncodeToString(k[:10]) }

// entry is what is known about one key.
type entry struct {
	body    uint64 // hash of the body applied first; counts only when applied > 0
	hits    uint32 // calls that carried the key
	applied uint32 // times applied
}

// ledger remembers keys. It is safe for concurrent use.
type ledger struct {
	forget bool // apply whatever comes, as a server without idempotency does

	mu   sync.Mutex
	keys map[keyHash]entry // guarded by mu
}

// hit counts a call and returns its number for this key, from 1.
func (l *ledger) hit(k keyHash) uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.keys[k]
	e.hits++
	l.keys[k] = e
	return e.hits
}

type applied uint8

const (
	appliedNow    applied = iota
	appliedBefore         // same key, same body
	appliedOther          // same key, another body: nothing is changed
)

// apply enters a body under a key, once.
func (l *ledger) apply(k keyHash, body uint64) applied {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.keys[k]
	if e.applied > 0 && !l.forget {
		if e.body != body {
			return appliedOther
		}
		return appliedBefore
	}
	if e.applied == 0 {
		e.body = body
	}
	e.applied++
	l.keys[k] = e
	return appliedNow
}

func (l *ledger) get(k keyHash) entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.keys[k]
}
