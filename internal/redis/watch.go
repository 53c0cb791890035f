package redis

import (
	"time"

	"trafficup/internal/breaker"
)

const (
	refreshEvery = 250 * time.Millisecond
	inUse        = 2 * time.Second // since a state was asked for, for it to be refreshed
)

// watch keeps the copies near what Redis holds, until the client is closed.
// Messages may be lost at any time, so what is in use is read as well.
func (b *Breakers) watch() {
	sub := b.c.conn.Subscribe(b.c.ctx, b.channel)
	messages := sub.Channel()
	defer func() {
		_ = sub.Close() // nothing can be lost
		for range messages {
			// Until it is closed, lest its sender waits for a minute.
		}
	}()
	tick := time.NewTicker(refreshEvery)
	defer tick.Stop()
	for {
		select {
		case <-b.c.ctx.Done():
			return
		case m, ok := <-messages:
			if !ok {
				return
			}
			b.hear(m.Payload)
		case <-tick.C:
			b.refresh()
		}
	}
}

// hear takes a published change, unless a newer one is known.
func (b *Breakers) hear(raw string) {
	d, err := decode(raw)
	if err != nil {
		return
	}
	apart := b.apart()
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.entries[d.Breaker]; e != nil && e.known && d.Revision > e.shared.Revision {
		e.see(d, e.count, apart)
	}
}

// refresh reads what is in use and writes what was changed while Redis was away.
func (b *Breakers) refresh() {
	local, read := make(map[string]*entry), make(map[string]*entry)
	b.mu.Lock()
	for key, e := range b.entries {
		if e.local != nil {
			local[key] = e
		} else if time.Since(e.asked) < inUse {
			read[key] = e
		}
	}
	b.mu.Unlock()
	for key, e := range read {
		_, _ = b.read(b.c.ctx, key, e) // kept for whoever asks
	}
	for key, e := range local {
		if _, err := b.read(b.c.ctx, key, e); err == nil {
			_, _ = b.Update(b.c.ctx, key, func(s breaker.State, _ time.Time) breaker.State { return s })
		}
	}
}
