package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync/atomic"

	"trafficup/internal/edge"
	"trafficup/internal/failover"
	"trafficup/internal/metrics"
)

// failoverPage has what the loop saved last put where it is collected. The loop only
// hands it over: a disk that hangs, or a slow reader, delays no decision.
type failoverPage struct {
	sys    *system
	latest atomic.Pointer[[]byte]
	files  chan failoverFile // the latest one that is not written yet
	said   trouble           // about writing
	serve  func(ctx context.Context)
}

// failoverFile is a page and where it goes.
type failoverFile struct {
	path string
	data []byte
}

var errNoPage = errors.New("nothing is known yet")

// newFailoverPage listens, if it is to be served.
func newFailoverPage(sys *system, listen string) (*failoverPage, error) {
	p := &failoverPage{sys: sys, files: make(chan failoverFile, 1), serve: func(context.Context) {}}
	if listen == "" {
		return p, nil
	}
	l, err := (&net.ListenConfig{}).Listen(sys.soft, "tcp", listen)
	if err != nil {
		return nil, &failure{exitFailed, "choose an address of this machine, and a port above 1023 that is free (ss -ltn shows those that are not), with failover.metrics_listen", err}
	}
	p.serve = func(ctx context.Context) {
		sys.note("metrics: served at http://" + l.Addr().String() + "/metrics" + everybody(l.Addr().String()))
		if err := metrics.Serve(ctx, l, "trafficup failover", p.read); err != nil {
			sys.warn("serve metrics: " + err.Error())
		}
	}
	return p, nil
}

func (p *failoverPage) read() ([]byte, error) {
	if data := p.latest.Load(); data != nil {
		return *data, nil
	}
	return nil, errNoPage
}

// put is what is collected from now on. One goroutine puts.
func (p *failoverPage) put(c failover.Config, r edge.Report, file string) {
	var b bytes.Buffer
	_ = edge.WriteMetrics(&b, c, r) // into memory
	data := b.Bytes()
	p.latest.Store(&data)
	if file == "" {
		return
	}
	select {
	case <-p.files: // it was not written in time
	default:
	}
	p.files <- failoverFile{file, data}
}

// write writes files until ctx ends.
func (p *failoverPage) write(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case f := <-p.files:
			p.save(f)
		}
	}
}

// flush writes what is left to write. Nobody else does then.
func (p *failoverPage) flush() {
	for len(p.files) > 0 {
		p.save(<-p.files)
	}
}

// save tells when writing begins to fail, and when it works again.
func (p *failoverPage) save(f failoverFile) {
	switch text := unwritten(f.path, metrics.Save(f.path, f.data)); {
	case !p.said.becomes(text):
	case text != "":
		p.sys.warn(text)
	default:
		p.sys.note("metrics: written to " + f.path + " again")
	}
}
