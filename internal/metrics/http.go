package metrics

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/netutil"
)

// Handler answers every request with what read returns, and with 500 and
// the error when it fails. read is called by one request at a time.
func Handler(read func() ([]byte, error)) http.Handler {
	var mu sync.Mutex
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		page, err := read()
		mu.Unlock()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write(page) // to a reader who may have gone
	})
}

// maxReaders is how many connections there are at once. More wait for one to end,
// and take no files that the program needs.
const maxReaders = 32

// Serve serves /metrics on l by [Handler] until ctx ends, and closes l. The page beside
// it says who serves. It asks nobody who they are; 32 are connected at once, and ten
// seconds without a word end a connection. The error is of a listener that broke.
func Serve(ctx context.Context, l net.Listener, who string, read func() ([]byte, error)) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", Handler(read))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, who+": the metrics are at /metrics\n")
	})
	srv := &http.Server{
		Handler: mux, MaxHeaderBytes: 8 << 10,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second,
		WriteTimeout: 10 * time.Second, IdleTimeout: 10 * time.Second,
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if srv.Shutdown(soon) != nil {
			_ = srv.Close() // somebody reads slowly
		}
	})
	err := srv.Serve(netutil.LimitListener(l, maxReaders))
	if stop() { // nobody ended it
		_ = srv.Close()
		return err
	}
	<-ended
	return nil
}
