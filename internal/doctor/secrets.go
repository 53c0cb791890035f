package doctor

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"trafficup/internal/api"
	"trafficup/internal/secret"
)

// Certificate judges what a client shows who it is with, on a path.
func Certificate(certFile, keyFile string, now time.Time) (all []Finding) {
	const what = "certificate"
	cfg, err := api.LoadTLS("", certFile, keyFile)
	if err != nil {
		return []Finding{failed(what, "see the options cert_file and key_file under api.tls and paths.*.tls", "%v", err)}
	}
	leaf := cfg.Certificates[0].Leaf
	who := fmt.Sprintf("%s belongs to its key; issued by %s, it", certFile, issuer(leaf))
	f := expiry(what, who, now, leaf.NotAfter, "have it renewed by "+issuer(leaf))
	if now.Before(leaf.NotBefore) {
		f = failed(what, setClock, "%s begins on %s only", who, leaf.NotBefore.UTC().Format(time.DateOnly))
	}
	all = append(all, f)
	if seen, do, found := strings.Cut(api.KeyWarning(keyFile), "; close it: "); found {
		all = append(all, warning(what, do, "%s", seen))
	}
	return all
}

// Secret judges a file that holds one, which others should not get at. guarded
// tells that the service manager keeps it: then its mode says nothing.
func Secret(file string, guarded bool) Finding {
	const what = "secret"
	_, seen, err := secret.ReadFile(file)
	if err != nil {
		return failed(what, fmt.Sprintf("ls -l %q", file), "%v", err)
	}
	if guarded {
		return ok(what, "%s is kept by the service manager", file)
	}
	if seen, do, found := strings.Cut(seen, "; "); found {
		return warning(what, do, "%s", seen)
	}
	return ok(what, "%s is for its owner alone", file)
}

// SecretWithin judges a configuration file with a secret in it.
func SecretWithin(file string) Finding {
	const what = "secret"
	info, err := os.Stat(file)
	if err != nil {
		return failed(what, fmt.Sprintf("ls -l %q", file), "%v", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 && runtime.GOOS != "windows" {
		return warning(what, fmt.Sprintf("chmod 600 %q", file), "%s holds a secret and has mode %04o", file, mode)
	}
	return ok(what, "%s holds a secret, and is for its owner alone", file)
}
