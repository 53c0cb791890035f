package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"trafficup/internal/failover"
)

// simulateOptions are the flags of simulate.
type simulateOptions struct {
	profile string
	days    int
	seed    uint64
	traces  []string
}

func newFailoverSimulateCommand(sys *system, asJSON *bool) *cobra.Command {
	o := simulateOptions{profile: "leo", days: 60, seed: 1}
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "run the decision over recorded or made-up days of a link, and count switches",
		Long: `Run the very decision of failover run over what failover run --record wrote, or over
days of a link that is made up after published figures, with a mobile network as the
metered backup: switches a day that were not needed, how fast an outage is seen, time
on the metered uplink. Beside the rules as they are configured stand those that many
scripts have, strict.

In a recording an outage is a minute or more without a good look; a switch from an
uplink outside of one was not needed. Times at which nothing was recorded are left
out. Uplinks are those of the configuration; where it has none, those of the recording
in the order of their appearance, and all but the first are metered.`,
		Example: `  trafficup failover simulate --profile leo --days 60
  trafficup failover simulate --trace failover.trace.1 --trace failover.trace`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, flag := range []string{"profile", "days", "seed"} {
				if len(o.traces) > 0 && cmd.Flags().Changed(flag) {
					return usageError("leave it out", "--%s: --trace has days of its own", flag)
				}
			}
			return o.run(sys, *asJSON)
		},
	}
	cmd.Flags().StringVar(&o.profile, "profile", o.profile, "the link: leo, geo or lte")
	cmd.Flags().IntVar(&o.days, "days", o.days, "how many")
	cmd.Flags().Uint64Var(&o.seed, "seed", o.seed, "another one makes up other days")
	cmd.Flags().StringArrayVar(&o.traces, "trace", nil, "a file that failover run --record wrote; several are taken together")
	addConfigFlags(cmd.Flags())
	addOptionFlags(cmd.Flags(), []string{"failover.preset"}, nil)
	return cmd
}

// simulation is what the rules are tried on.
type simulation struct {
	uplinks []failover.Uplink
	paths   func() []failover.Path // anew for each set of rules
	begin   time.Time
	span    time.Duration
}

func (o *simulateOptions) run(sys *system, asJSON bool) error {
	setup := sys.config.failoverSetup(func(string, string, ...any) {}) // told when it was read
	var on simulation
	var err error
	if len(o.traces) > 0 {
		on, err = recordedDays(sys, setup, o.traces)
	} else {
		on, err = o.madeUp()
	}
	if err != nil {
		return err
	}
	strict, err := failover.Preset("strict")
	if err != nil {
		return usageError("", "%w", err)
	}
	w := tabwriter.NewWriter(sys.stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	if !asJSON {
		fmt.Fprintln(w, "rules\tdays\tswitches\ta day\tneedless a day\tseen after\tat most\tmissed\tmetered\tno service\t")
	}
	name := sys.config.Failover.Preset
	if preset, err := failover.Preset(name); err == nil && preset != setup.decide.Rules {
		name += " as configured"
	}
	if err := on.run(name, setup.decide.Rules).write(sys, w, asJSON); err != nil {
		return unheard(err)
	}
	if setup.decide.Rules != strict {
		if err := on.run("strict", strict).write(sys, w, asJSON); err != nil {
			return unheard(err)
		}
	}
	err = w.Flush()
	if err == nil && !asJSON && len(o.traces) > 0 {
		_, err = fmt.Fprintf(sys.stdout, "an outage is %v or more without a good look; what was not recorded is left out\n", failover.OutageFrom)
	}
	return unheard(err)
}

// madeUp are days of a model.
func (o *simulateOptions) madeUp() (simulation, error) {
	model, ok := failover.Models[o.profile]
	switch {
	case !ok:
		return simulation{}, usageError("for example --profile leo", "--profile %q: want leo, geo or lte", o.profile)
	case o.days < 1 || o.days > 366:
		return simulation{}, usageError("for example --days 60", "--days %d: want 1 to 366", o.days)
	}
	span := time.Duration(o.days) * 24 * time.Hour
	return simulation{
		uplinks: []failover.Uplink{{Name: "primary"}, {Name: "backup", Metered: true}},
		begin:   time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), span: span,
		paths: func() []failover.Path {
			rng := rand.New(rand.NewPCG(o.seed, 0))
			return []failover.Path{model.Path(span, rng), failover.Models["lte"].Path(span, rng)}
		},
	}, nil
}

// simulated is a line of the result. Times are seconds.
type simulated struct {
	Type     string  `json:"message_type"`
	Preset   string  `json:"preset"`
	Days     float64 `json:"days"` // of which something is known
	Switches int     `json:"switches"`
	ADay     float64 `json:"switches_a_day"`
	Needless float64 `json:"needless_a_day"`
	Seen     float64 `json:"detection_mean_s"`
	Latest   float64 `json:"detection_max_s"`
	Missed   int     `json:"missed"`
	Metered  float64 `json:"metered_s"`
	Down     float64 `json:"no_service_s"`
}

func (s simulation) run(name string, rules failover.Rules) simulated {
	r := failover.Config{Uplinks: s.uplinks, Rules: rules}.Simulate(s.paths(), s.span, s.begin)
	days := r.Span.Hours() / 24
	line := simulated{
		Type: "summary", Preset: name, Days: days, Switches: r.Switches, ADay: float64(r.Switches) / days, Needless: float64(r.Needless) / days,
		Missed: r.Missed, Metered: r.Metered.Seconds(), Down: r.Down.Seconds(),
	}
	if n := len(r.Detected); n > 0 {
		var sum time.Duration
		for _, d := range r.Detected {
			sum += d
		}
		line.Seen, line.Latest = (sum / time.Duration(n)).Seconds(), slices.Max(r.Detected).Seconds()
	}
	return line
}

func (s simulated) write(sys *system, w *tabwriter.Writer, asJSON bool) error {
	if asJSON {
		return writeLine(sys.stdout, s)
	}
	seconds := func(v float64) time.Duration { return time.Duration(v * float64(time.Second)).Round(time.Second) }
	_, err := fmt.Fprintf(w, "%s\t%.4g\t%d\t%.2f\t%.2f\t%.1f s\t%.1f s\t%d\t%v\t%v\t\n", s.Preset, s.Days, s.Switches, s.ADay, s.Needless, s.Seen, s.Latest, s.Missed, seconds(s.Metered), seconds(s.Down))
	return err
}
