// Command trafficup delivers batches of traffic records over links that fail,
// and knows afterwards which ones arrived.
package main

import (
	"context"
	"io"
	mathrand "math/rand/v2"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"sync/atomic"
	"syscall"

	"golang.org/x/term"

	"trafficup/internal/atomicfile"
	"trafficup/internal/config"
	"trafficup/internal/disk"
	"trafficup/internal/netshape"
)

func main() { os.Exit(run(realSystem())) }

// system is everything the operating system gives a run. Nothing else in the
// program touches os.Args, the environment, the standard streams or os.Exit.
type system struct {
	args           []string
	environ        []string
	stdin          io.Reader
	stdout, stderr io.Writer
	terminal       bool             // stderr is a terminal that can move its cursor
	typing         bool             // stdin is one
	hangups        <-chan os.Signal // each asks to read the configuration again; nil: none come
	// soft ends with the first signal, hard with the second; signal is the
	// number of the first one, 0 while there was none.
	soft, hard context.Context
	signal     *atomic.Int32
	graceful   *atomic.Bool // a signal is heard of; before, it just ends the process: nothing was begun
	fs         disk.FS      // of the state directory
	lock       func(ctx context.Context, path, who string) (unlock func() error, err error)
	dial       func(ctx context.Context, network, addr string) (net.Conn, error) // nil: the network
	machine    func(dir, keep string, args ...string) (*netshape.Machine, error) // whose queues netshape changes; nil: this one
	config     Config                                                            // of the command, once it is read
	sources    config.Sources                                                    // what it was read from
	random     func() float64                                                    // uniform [0, 1), safe for concurrent use
}

func realSystem() system {
	// The live heap is small and free of pointers; collecting early costs
	// little and keeps a long night within its memory bound.
	debug.SetGCPercent(15)
	soft, first := context.WithCancel(context.Background())
	hard, second := context.WithCancel(context.Background())
	got, graceful := new(atomic.Int32), new(atomic.Bool)
	c := make(chan os.Signal, 2)
	// A closed stdout must not end the upload: SIGPIPE becomes a write error.
	signal.Ignore(syscall.SIGPIPE)
	// Nor does the end of the terminal it was started from.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	signal.Notify(c, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		s := <-c
		got.Store(int32(s.(syscall.Signal)))
		if !graceful.Load() {
			os.Exit(exitSignal + int(got.Load()))
		}
		first()
		<-c
		second()
	}()
	return system{
		args: os.Args[1:], environ: os.Environ(), hangups: hangups,
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		terminal: term.IsTerminal(int(os.Stderr.Fd())) && os.Getenv("TERM") != "dumb",
		typing:   term.IsTerminal(int(os.Stdin.Fd())),
		soft:     soft, hard: hard, signal: got, graceful: graceful,
		fs: disk.OS{}, lock: atomicfile.Lock, random: mathrand.Float64,
	}
}
