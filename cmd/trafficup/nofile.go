package main

import (
	"fmt"

	"trafficup/internal/config"
)

// filesKept are the files that a run needs beside its connections: input, ledger,
// letters, the lock, the name server's answers.
const filesKept = 64

// openFilesAllow says how many requests may be in flight when the process may have
// limit files open (RLIMIT_NOFILE), and, where that is less than workers, what to do
// about it; "" when all is well. Each request may need a connection on each of the
// paths over HTTP/1.1, which are kept while they rest, and one more while it dials.
// The result is 1 at least. It is pure.
func openFilesAllow(limit uint64, workers, paths int) (permits int, warning string) {
	each := uint64(paths) + 1
	if wanted := filesKept + uint64(workers)*each; limit < wanted {
		if limit > filesKept {
			permits = int((limit - filesKept) / each)
		}
		permits = max(1, permits)
		return permits, fmt.Sprintf("%d requests at a time may need %d open files, and this process may have %d: raise it (ulimit -n %d, or LimitNOFILE= with systemd), or use --concurrency %d",
			workers, wanted, limit, wanted, permits)
	}
	return workers, ""
}

// fitFiles lowers the number of requests at a time to what the limit of open files
// allows, and says so; "" when it allows all.
func (c Config) fitFiles() string {
	permits, warning := openFilesAllow(openFileLimit(), c.workers(), len(c.pathSetups()))
	switch {
	case warning == "":
	case c.Upload.Concurrency.Auto():
		c.Upload.MaxConcurrency = permits
	default:
		c.Upload.Concurrency = config.Concurrency(permits)
	}
	return warning
}
