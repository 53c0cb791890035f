package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"trafficup/internal/sandbox"
)

type sandboxOptions struct {
	listen, scenario string
}

func newSandboxCommand(sys *system) *cobra.Command {
	var o sandboxOptions
	cmd := &cobra.Command{
		Use:   "sandbox",
		Short: "serve a stand-in for the ingestion API, with scripted faults",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return runSandbox(sys, o)
		},
	}
	cmd.Flags().StringVar(&o.listen, "listen", "127.0.0.1:8088", "address to serve on; port 0 takes a free one")
	cmd.Flags().StringVar(&o.scenario, "scenario", "calm", strings.Join(sandbox.Names(), ", ")+", or a file that holds a scenario")
	return cmd
}

func runSandbox(sys *system, o sandboxOptions) error {
	sc, err := sandbox.Builtin(o.scenario)
	if err != nil {
		return usageError("", "scenario: %w", err)
	}
	l, err := net.Listen("tcp", o.listen)
	if err != nil {
		return usageError("give another --listen", "sandbox: %w", err)
	}
	h := sandbox.NewWith(sc, sandbox.Options{})
	srv := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	fmt.Fprintf(sys.stderr, "trafficup: sandbox on http://%s/v1/logs\n", l.Addr())
	sys.graceful.Store(true)
	notify("READY=1")
	context.AfterFunc(sys.soft, func() {
		notify("STOPPING=1")
		ctx, cancel := context.WithTimeout(sys.hard, 5*time.Second)
		defer cancel()
		if srv.Shutdown(ctx) != nil {
			srv.Close()
		}
	})
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("sandbox: %w", err)
	}
	s := h.Stats()
	_, err = fmt.Fprintf(sys.stdout, "requests %d, applied %d, repeated %d, most in flight %d\n", s.Requests, s.Applied, s.Duplicates, s.MaxInFlight)
	return err
}
