package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"trafficup/internal/netshape"
	"trafficup/internal/tc"
)

// measureOptions are the flags of measure.
type measureOptions struct {
	netshapeOptions
	target, sink, maxBytes string
	uploads                int
	load                   time.Duration
}

func newNetshapeMeasureCommand(sys *system, asJSON *bool) *cobra.Command {
	var o measureOptions
	cmd := &cobra.Command{
		Use:   "measure",
		Short: "find what the uplink carries, and what an upload does to its delay",
		Long: `Find the delay to a target without load, and under uploads to a sink what that
becomes and what gets through; propose a rate and a profile. Nothing else should use
the uplink meanwhile. Takes 20 to 40 seconds and at most --max-bytes. Changes nothing:
an interface that is shaped is measured as it is shaped. The sink reads what it is
sent and says nothing, as a discard service does; the target is not a modem but
something behind it.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return o.run(sys, *asJSON) },
	}
	fs := cmd.Flags()
	o.addIfaceFlags(fs)
	fs.StringVar(&o.target, "target", "", "`HOST:PORT` that takes connections, or icmp:HOST, the time for which is the delay (default: the interface's target in the configuration)")
	fs.StringVar(&o.sink, "sink", "", "`HOST:PORT` that the uploads go to")
	fs.StringVar(&o.maxBytes, "max-bytes", "50MB", "`SIZE` of all uploads at most, in kB, MB or GB")
	fs.IntVar(&o.uploads, "uploads", 4, "uploads at once")
	fs.DurationVar(&o.load, "for", 10*time.Second, "how long there is load, 3s to 10m")
	return cmd
}

func (o *measureOptions) run(sys *system, asJSON bool) error {
	survey, err := o.survey(sys.config)
	if err != nil {
		return err
	}
	m, err := o.shaper(sys)
	if err != nil {
		return err
	}
	seen, err := m.Observe()
	if err != nil {
		return &failure{exitFailed, "", err}
	}
	if !slices.Contains(seen.Names, survey.Interface) {
		return usageError("there are: "+strings.Join(seen.Names, ", "), "refused: there is no interface %s", survey.Interface)
	}
	s, err := m.Status(survey.Interface)
	if err != nil {
		return &failure{exitFailed, "", err}
	}
	survey.Shaped = s.Interfaces[0].Root.Rate
	if !asJSON {
		fmt.Fprintf(sys.stderr, "trafficup: measuring %s: nothing else should use it for half a minute\n", survey.Interface)
	}
	sys.graceful.Store(true)
	found, err := survey.Measure(sys.soft)
	if err != nil {
		return notMeasured(sys, err)
	}
	kind := kindFor(seen.Missing)
	if kind == "" {
		found.Notes = append(found.Notes, "this kernel has neither sch_cake nor sch_htb with sch_fq_codel, and cannot shape before it has one of them: trafficup netshape plan --iface "+quoted(survey.Interface)+" --kind cake --up "+netshape.FormatRate(cmp.Or(found.Proposed, found.Rate))+" names the modules and packages")
	}
	if asJSON {
		return writeJSON(sys, struct {
			Type      string `json:"message_type"`
			Interface string `json:"interface"`
			netshape.Measured
		}{"measured", survey.Interface, found})
	}
	return unheard(writeMeasured(sys.stdout, survey.Interface, kind, found))
}

// kindFor is the queue that a kernel can make without these; "": there is none.
func kindFor(missing []tc.Kind) string {
	lacks := func(k tc.Kind) bool { return slices.Contains(missing, k) }
	switch {
	case !lacks(tc.KindCake):
		return netshape.KindCake
	case !lacks(tc.KindHTB) && !lacks(tc.KindFqCodel):
		return netshape.KindFqCodel
	}
	return ""
}

// survey is what the flags ask for.
func (o *measureOptions) survey(c Config) (s netshape.Survey, err error) {
	name, err := o.single(c)
	if err != nil {
		return s, err
	}
	target := cmp.Or(o.target, c.shaped(name).Target)
	if err := checkTarget("--target", target); err != nil {
		return s, err
	}
	if o.sink == "" {
		return s, usageError(sinkHint, "--sink is missing: give --sink HOST:PORT")
	}
	if _, _, err := net.SplitHostPort(o.sink); err != nil {
		return s, usageError(sinkHint, "--sink %q: want HOST:PORT", o.sink)
	}
	n, err := parseBytes(o.maxBytes)
	if err != nil {
		return s, usageError("for example: --max-bytes 50MB", "--max-bytes: %w", err)
	}
	if o.uploads < 1 || o.uploads > 64 {
		return s, usageError("", "--uploads %d: want 1 to 64", o.uploads)
	}
	if o.load < 3*time.Second || o.load > 10*time.Minute {
		return s, usageError("", "--for %s: want 3s to 10m", o.load)
	}
	return netshape.Survey{Interface: name, Target: target, Sink: o.sink, Uploads: o.uploads, Load: o.load, MaxBytes: n}, nil
}

const sinkHint = "on a machine behind the uplink: socat -u TCP-LISTEN:9,fork OPEN:/dev/null, and here: --sink THATMACHINE:9"

// single is the one interface that is meant by flags or configuration.
func (o *netshapeOptions) single(c Config) (string, error) {
	names, err := o.names(c)
	switch {
	case err != nil:
		return "", err
	case len(names) == 0:
		return "", usageError("give --iface NAME, or netshape.interfaces in the configuration", "no interface is named")
	case len(names) > 1:
		return "", usageError("choose one with --iface: "+strings.Join(names, ", "), "one interface at a time")
	}
	return names[0], nil
}

// isTarget tells what netshape.NewProbe takes.
func isTarget(s string) bool {
	if host, ping := strings.CutPrefix(s, "icmp:"); ping {
		return host != ""
	}
	_, _, err := net.SplitHostPort(s)
	return err == nil
}

func checkTarget(flag, target string) error {
	if target == "" {
		return usageError("something behind the modem that answers, such as "+flag+" probe.example:443", "%s is missing: give %s HOST:PORT or icmp:HOST", flag, flag)
	}
	if !isTarget(target) {
		return usageError("give "+flag+" HOST:PORT or icmp:HOST, something behind the modem that answers", "%s %q: want HOST:PORT or icmp:HOST", flag, target)
	}
	return nil
}

// parseBytes reads a size such as 50MB; units are those of the metric system.
func parseBytes(s string) (uint64, error) {
	for _, u := range []struct {
		name string
		size float64
	}{{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}} {
		number, ok := strings.CutSuffix(strings.ToUpper(s), u.name)
		if !ok {
			continue
		}
		if n, err := strconv.ParseFloat(strings.TrimSpace(number), 64); err == nil && n*u.size >= 1 && n*u.size <= 1e12 {
			return uint64(n * u.size), nil
		}
		break
	}
	return 0, fmt.Errorf("%q is no size: want a number with kB, MB or GB, up to 1000GB", s)
}

// notMeasured says why there are no figures.
func notMeasured(sys *system, err error) error {
	code, hint := int(sys.signal.Load()), "see that target and sink can be reached by this interface"
	switch {
	case code != 0:
		return &failure{exitSignal + code, "", errors.New("stopped by a signal: nothing was measured")}
	case errors.Is(err, netshape.ErrTooShort):
		hint = "give more with --max-bytes, or more time with --for"
	case errors.Is(err, netshape.ErrSink):
		hint = sinkHint
	}
	return &failure{exitFailed, hint, err}
}

// writeMeasured writes m, and the command that may come next; kind "" has none.
func writeMeasured(w io.Writer, name, kind string, m netshape.Measured) error {
	ms := func(d netshape.Millis) time.Duration { return d.Round(100 * time.Microsecond) }
	var b strings.Builder
	fmt.Fprintf(&b, "idle      delay %v, 95%% below %v, jitter %v\n", ms(m.Idle), ms(m.IdleP95), ms(m.Jitter))
	if m.Loaded.Duration > 0 {
		fmt.Fprintf(&b, "loaded    delay %v, 95%% below %v: load adds %v\n", ms(m.Loaded), ms(m.LoadedP95), ms(m.Bloat))
	} else {
		b.WriteString("loaded    no answer\n")
	}
	fmt.Fprintf(&b, "carries   %s, a quarter of the time below %s; %s bytes were sent\n", roughly(m.Rate), roughly(m.Slow), thousands(int64(m.Bytes)))
	profile, flag := "no profile, for none fits", ""
	if m.Profile != "" {
		profile, flag = "profile "+m.Profile, " --profile "+m.Profile
	}
	up, next := "no rate", ""
	switch rate := netshape.FormatRate(m.Proposed); {
	case m.Proposed == 0: // a note says why
	case kind == "":
		up = "up " + rate
	default:
		up, next = "up "+rate, "trafficup netshape plan --iface "+quoted(name)+" --kind "+kind+" --up "+rate+flag
	}
	fmt.Fprintf(&b, "proposed  %s, %s\n", up, profile)
	for _, n := range m.Notes {
		fmt.Fprintf(&b, "note      %s\n", n)
	}
	if next != "" {
		fmt.Fprintf(&b, "\n%s\n", next)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// roughly is a rate for people.
func roughly(bits uint64) string {
	switch {
	case bits >= 10e6:
		return netshape.FormatRate((bits + 50e3) / 100e3 * 100e3)
	case bits >= 10e3:
		return netshape.FormatRate((bits + 500) / 1000 * 1000)
	}
	return netshape.FormatRate(bits)
}
