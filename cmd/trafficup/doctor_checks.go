package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"trafficup/internal/api"
	"trafficup/internal/doctor"
	"trafficup/internal/sandbox"
	"trafficup/internal/secret"
)

// examination is what doctor looks at: what a run with the same flags would use.
type examination struct {
	sys    *system
	c      Config
	inputs []string
	edge   bool
	dir    string // of the state; "": none
	paths  []examined
	masks  *secret.Redactor
}

func newExamination(sys *system, inputs []string, edge bool) *examination {
	d := &examination{sys: sys, c: sys.config, inputs: inputs, edge: edge, masks: sys.config.masks()}
	if dir, err := stateDir(d.c, sys.getenv); err == nil {
		d.dir = dir
		if d.c.Upload.Sandbox != "" {
			d.dir = filepath.Join(dir, "sandbox") // as openState does
		}
	}
	if d.c.Upload.Sandbox == "" {
		d.paths = d.newPaths()
	}
	return d
}

func (d *examination) close() {
	for _, p := range d.paths {
		if p.client != nil {
			p.client.Close()
		}
	}
}

// checks are in the order in which one thing needs another.
func (d *examination) checks() []doctor.Check {
	now := time.Now()
	all := []doctor.Check{
		localCheck("configuration", func() []doctor.Finding { return slices.Concat(d.configuration(), d.times(now), d.environment()) }),
		localCheck("clock", func() []doctor.Finding {
			return []doctor.Finding{doctor.Clock(now, api.Built()), doctor.Zone(d.sys.getenv("TZ"), now)}
		}),
		localCheck("state directory", d.state),
		localCheck("open files", func() []doctor.Finding { return doctor.Files(d.c.workers()) }),
	}
	if file := d.c.Log.File; file != "" {
		all = append(all, localCheck("log file", func() []doctor.Finding { return []doctor.Finding{doctor.Log(file)} }))
	}
	for _, arg := range d.inputs {
		all = append(all, localCheck("input", func() []doctor.Finding { return doctor.Input(arg, d.c.Upload.Settle, now) }))
	}
	all = append(all, localCheck("secret", d.secrets))
	for _, p := range d.paths {
		all = append(all, d.pathChecks(p)...)
	}
	switch {
	case d.c.Upload.Sandbox != "":
		all = append(all, knownFinding(d.standIn()))
	case len(d.paths) == 0 && d.edge && (d.shapes() || d.switches()):
		all = append(all, knownFinding(doctor.Finding{Result: doctor.OK, What: "paths", Message: "none: this configuration is for the edge, and uploads nothing"}))
	case len(d.paths) == 0:
		all = append(all, knownFinding(doctor.Finding{Result: doctor.Failed, What: "paths", Message: "no URL to send to", Do: "give --url, or set api.primary"}))
	default:
		all = append(all, d.loginCheck())
	}
	all = append(all, d.redisChecks()...)
	if d.edge {
		root := os.DirFS("/")
		all = append(all, localCheck("edge", func() []doctor.Finding { return d.kernel(root) }), localCheck("plan", d.plan),
			localCheck("neighbours", func() []doctor.Finding { return d.neighbours(root) }))
		all = append(all, d.failoverChecks(root)...)
	}
	return all
}

// localCheck is a check of this machine, which cannot be called off.
func localCheck(what string, see func() []doctor.Finding) doctor.Check {
	return doctor.Check{What: what, Look: func(context.Context) []doctor.Finding { return see() }}
}

// knownFinding is a check that is done.
func knownFinding(f doctor.Finding) doctor.Check {
	return localCheck(f.What, func() []doctor.Finding { return []doctor.Finding{f} })
}

func (d *examination) standIn() doctor.Finding {
	if _, err := sandbox.Builtin(d.c.Upload.Sandbox); err != nil {
		return doctor.Finding{Result: doctor.Failed, What: "paths", Message: "stand-in: " + err.Error(), Do: "scenarios: " + strings.Join(sandbox.Names(), ", ") + ", or a file"}
	}
	return doctor.Finding{Result: doctor.OK, What: "paths", Message: "none: runs are against the stand-in (--sandbox)"}
}

func (d *examination) configuration() []doctor.Finding {
	f := doctor.Finding{Result: doctor.OK, What: "configuration", Message: "no file; flags, environment and defaults"}
	if len(d.c.Files) > 0 {
		f.Message = "read from " + strings.Join(d.c.Files, ", ")
	}
	all := []doctor.Finding{f}
	for _, w := range d.c.Warnings {
		all = append(all, doctor.Finding{
			Result: doctor.Warning, What: f.What, Message: w.String(), Do: "mend it there; what is in force: trafficup config show --changed",
		})
	}
	return all
}

// times finds a deadline that a run could not keep.
func (d *examination) times(now time.Time) []doctor.Finding {
	deadline, err := d.c.deadline(now)
	if err == nil {
		err = d.c.outlasts(deadline, now)
	}
	if err == nil {
		return nil
	}
	return []doctor.Finding{{Result: doctor.Failed, What: "configuration", Message: err.Error(), Do: "give a shorter --splay, or a later --deadline or --window-end"}}
}

func (d *examination) environment() []doctor.Finding {
	e := doctor.Environment{Getenv: d.sys.getenv, StateDir: d.dir, Named: d.sys.sources.File != ""}
	e.Stdin, _ = d.sys.stdin.(*os.File)
	if n := len(d.c.Files); n > 0 {
		e.ConfigFile = d.c.Files[n-1] // those before it are included
	}
	return e.Look(os.DirFS("/proc"))
}

func (d *examination) state() []doctor.Finding {
	if d.dir == "" {
		return []doctor.Finding{{Result: doctor.Failed, What: "state directory", Message: "there is none: a run ends at once", Do: "set upload.state_dir in the file, or give --state-dir"}}
	}
	return doctor.State(d.dir)
}

// secrets looks at every file that holds one, but for keys, which belong to
// paths.
func (d *examination) secrets() (all []doctor.Finding) {
	auth := d.c.API.Auth
	for _, name := range []string{auth.TokenFile, auth.OAuth.ClientSecretFile, auth.OAuth.RefreshTokenFile} {
		if name != "" {
			all = append(all, doctor.Secret(credential(name, d.sys.getenv)))
		}
	}
	within := map[string]bool{}
	hidden := secret.New("any").String()
	for _, l := range d.c.Lines() {
		if n := strings.LastIndexByte(l.Origin.Place, ':'); l.Origin.Layer == "file" && l.Value == hidden && n > 0 {
			within[l.Origin.Place[:n]] = true
		}
	}
	for _, file := range slices.Sorted(maps.Keys(within)) {
		all = append(all, doctor.SecretWithin(file))
	}
	return all
}

// duration is how long so many requests may take, each on a connection of its own,
// and what is between.
func (d *examination) duration(requests int) time.Duration {
	return time.Duration(requests)*(d.c.Upload.ConnectTimeout+d.c.Upload.RequestTimeout) + time.Second
}

// expires says when a token ends.
func expires(at, now time.Time) string {
	if at.IsZero() {
		return "when it ends is not known"
	}
	return fmt.Sprintf("expires in %v", at.Sub(now).Round(time.Second))
}
