package linklab

import "time"

// Clock is one upload while the clock on the wall is set. Those that are played in
// one kernel share a state directory, one after the other.
type Clock struct {
	Name     string
	Start    time.Time // what the clock shows at first
	Steps    []Step
	First    int // number of the first record
	Records  int
	Patience time.Duration // that the API asks for in its first second
}

// Step sets the clock to a time, so long after the first request.
type Step struct {
	After time.Duration
	To    time.Time
}

// ClockRun is what the guest saw of one.
type ClockRun struct {
	Name     string    `json:"name"`
	Error    string    `json:"error,omitzero"` // the lab failed, not the upload
	Exit     int       `json:"exit"`
	Requests []float64 `json:"requests"` // seconds since the first, by a clock that is never set
	Late     float64   `json:"late"`     // seconds that a timer of the API for Patience was late at most
	Seconds  float64   `json:"seconds"`  // that the upload took, by that clock
	Report   string    `json:"report"`   // of the upload, JSON
	Log      string    `json:"log"`      // of the upload, a JSON object a line
	Said     string    `json:"said"`     // on stderr
}

// Made is the day on which the program in the lab was made, as it is told.
const Made = "2026-11-01T00:00:00Z"

// Clocks returns all, by the kernel that plays them.
func Clocks() [][]Clock {
	day := time.Date(2026, 12, 1, 2, 0, 0, 0, time.UTC)
	epoch := time.Unix(300, 0) // no clock can be set to a time before its kernel's start
	return [][]Clock{{
		{Name: "clock-steps", Start: day, Records: 20, Patience: 5 * time.Second, Steps: []Step{
			{1500 * time.Millisecond, day.AddDate(0, 0, 1)}, {3 * time.Second, day.AddDate(0, 0, -1)},
		}},
	}, {
		{Name: "clock-from-1970", Start: epoch, Records: 40, Steps: []Step{{time.Second, day}}},
		{Name: "clock-set", Start: day.Add(time.Hour), Records: 40},
		{Name: "clock-to-1970", Start: day.Add(2 * time.Hour), First: 40, Records: 40, Steps: []Step{{time.Second, epoch}}},
		{Name: "clock-set-again", Start: day.AddDate(0, 0, 1), Records: 80},
		{Name: "clock-ahead", Start: day.AddDate(10, 0, 0), Records: 80},
		{Name: "clock-set-back", Start: day.AddDate(0, 0, 2), Records: 80},
	}}
}
