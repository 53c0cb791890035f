package redis

import (
	"context"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"trafficup/internal/breaker"
)

const (
	refreshEvery = 250 * time.Millisecond
	inUse        = 2 * time.Second // since a state was asked for, for it to be refreshed
	silence      = 3 * time.Second // on the channel, after which it is asked whether anybody is there
	listenAgain  = time.Second     // after the channel broke
)

// watch keeps the copies near what Redis holds, until the client is closed.
// Messages may be lost at any time, so what is in use is read as well.
func (b *Breakers) watch() {
	messages := make(chan string)
	b.c.work.Go(func() { b.listen(messages) })
	tick := time.NewTicker(refreshEvery)
	defer tick.Stop()
	for {
		select {
		case <-b.c.ctx.Done():
			return
		case m := <-messages:
			b.hear(m)
		case <-tick.C:
			b.refresh()
		}
	}
}

// listen passes on what is published, until the client is closed.
func (b *Breakers) listen(messages chan<- string) {
	for b.c.ctx.Err() == nil {
		_ = safely(func() error { return b.receive(messages) }) // and then from anew
		select {
		case <-b.c.ctx.Done():
		case <-time.After(listenAgain):
		}
	}
}

// receive passes on what is published, until the connection breaks or is silent.
func (b *Breakers) receive(messages chan<- string) error {
	sub := b.c.conn.Subscribe(b.c.ctx, b.channel)
	closed := context.AfterFunc(b.c.ctx, func() { _ = sub.Close() })
	defer func() { closed(); _ = sub.Close() }() // nothing can be lost
	for asked := false; ; {
		got, err := sub.ReceiveTimeout(b.c.ctx, silence)
		switch {
		case err == nil:
			asked = false
		case isTimeout(err) && !asked:
			if err := sub.Ping(b.c.ctx); err != nil {
				return err
			}
			asked = true
		default:
			return err
		}
		if m, ok := got.(*goredis.Message); ok {
			select {
			case messages <- m.Payload:
			case <-b.c.ctx.Done():
			}
		}
	}
}

// hear takes a published change, unless a newer one is known.
func (b *Breakers) hear(raw string) {
	d, err := decode(raw)
	if err != nil {
		return
	}
	worth := b.worth(d.Breaker)
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.entries[d.Breaker]; e != nil && e.known && d.Revision > e.shared.Revision {
		e.see(d, e.count, worth)
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
