package uplink

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestNotify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var told []string // guarded by mu
		var w *Watch
		net := newWorld("a:1", "b:1")
		w = New(Config{Targets: []string{"a:1", "b:1"}, Dial: net.dial, Notify: func(why string) {
			w.Bad(time.Now()) // would hang if called under the lock
			mu.Lock()
			defer mu.Unlock()
			told = append(told, why)
		}})
		defer w.Close()
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(told, want) {
				t.Errorf("told %q, want %q", told, want)
			}
			told = nil
		}
		own, answered := Attempt{Own: true}, Attempt{Answered: true}
		w.Saw(time.Now(), Attempt{})
		expect() // being unsure is not worth a word
		time.Sleep(TryTimeout)
		expect("2 of 2 targets cannot be reached")
		w.Saw(time.Now(), own) // another reason, the same trouble
		expect()
		net.set("a:1", false)
		time.Sleep(tryEvery)
		expect()
		w.Saw(time.Now(), answered)
		expect("")
		for range 100 { // it flaps for 50 s
			w.Saw(time.Now(), own)
			w.Saw(time.Now(), answered)
			time.Sleep(500 * time.Millisecond)
		}
		expect()
		w.Saw(time.Now(), own)
		expect()
		time.Sleep(time.Minute)
		w.Saw(time.Now(), own)
		expect("no network, no route or no name lookup on this machine")
	})
}

// Many workers tell at once; what Notify hears takes turns.
func TestNotifyInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		var callers atomic.Int32
		w := New(Config{Notify: func(why string) {
			if callers.Add(1) > 1 {
				t.Error("called by two at once")
			}
			defer callers.Add(-1)
			time.Sleep(time.Millisecond)
			told = append(told, why)
		}})
		var work sync.WaitGroup
		for n := range 8 {
			work.Go(func() {
				for i := range 200 {
					w.Saw(time.Now(), Attempt{Own: (n+i)%2 == 0, Answered: (n+i)%2 == 1})
					w.Judge(time.Now(), "")
					time.Sleep(time.Second)
				}
			})
		}
		work.Wait()
		for i, why := range told {
			if (why != "") != (i%2 == 0) {
				t.Fatalf("told %q", told)
			}
		}
		if n := len(told); n < 2 || n > 2*(200/60+1) {
			t.Errorf("told %d times", n)
		}
	})
}
