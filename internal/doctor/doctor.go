// Package doctor looks at what a run depends on before it is needed: this
// machine, the state directory, the paths to the API. It judges what it sees and
// says what to do; it mends nothing.
//
// Every check has a bound and they run side by side, so that one that hangs, on a
// dead network file system for example, costs its bound and hides nothing else.
// What they find comes out in the order of the checks.
package doctor

import (
	"context"
	"fmt"
	"time"
)

// Result is how well something is.
type Result string

// The results of a check.
const (
	OK      Result = "ok"
	Warning Result = "warning" // a run works, or may; somebody should look
	Failed  Result = "failed"  // a run with these settings does not work, or loses what it should keep
)

// Finding is one thing that was looked at.
type Finding struct {
	Result  Result
	What    string // that was looked at, in a word or two
	Path    string // whose it is; "": of no path
	Message string // what was seen
	Do      string // what to do; "" when all is well
}

func ok(what, format string, a ...any) Finding {
	return Finding{Result: OK, What: what, Message: fmt.Sprintf(format, a...)}
}

func warning(what, do, format string, a ...any) Finding {
	return Finding{Result: Warning, What: what, Message: fmt.Sprintf(format, a...), Do: do}
}

func failed(what, do, format string, a ...any) Finding {
	return Finding{Result: Failed, What: what, Message: fmt.Sprintf(format, a...), Do: do}
}

// of says whose the findings are.
func of(path string, all []Finding) []Finding {
	for n := range all {
		all[n].Path = path
	}
	return all
}

// Bound is how long a check takes at most that does not ask the network.
const Bound = 5 * time.Second

// Check is one thing to look at.
type Check struct {
	What, Path string        // for what is found when its time is over
	Bound      time.Duration // 0: Bound
	Look       func(ctx context.Context) []Finding
}

// Run makes all checks at once, and gives what they find to tell, in their order,
// until tell fails or ctx ends; the error is that. It returns when all are done or
// their time is over. A check that does not heed its time is left behind.
func Run(ctx context.Context, checks []Check, tell func(Finding) error) error {
	found := make([]<-chan []Finding, len(checks))
	for n, c := range checks {
		found[n] = begin(ctx, c)
	}
	var err error
	for _, one := range found {
		for _, f := range <-one {
			if err == nil {
				err = context.Cause(ctx)
			}
			if err == nil {
				err = tell(f)
			}
		}
	}
	return err
}

// begin starts a check. What it finds comes when it is done or its time is over.
func begin(ctx context.Context, c Check) <-chan []Finding {
	bound := c.Bound
	if bound <= 0 {
		bound = Bound
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	seen, result := make(chan []Finding, 1), make(chan []Finding, 1)
	go func() { seen <- c.Look(ctx) }()
	go func() {
		defer cancel()
		// A check that heeds its time has more to say than that it is over.
		late := time.NewTimer(bound + bound/10)
		defer late.Stop()
		select {
		case all := <-seen:
			result <- all
		case <-late.C:
			f := failed(c.What, "see why this machine or its network does not answer", "nothing came back within %v", bound)
			result <- of(c.Path, []Finding{f})
		}
	}()
	return result
}
