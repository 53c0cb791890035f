package linklab

import "path"

// Shape is a run of tests of a package in a guest: their kernel may have what the
// machine's lacks.
type Shape struct {
	Name      string
	Package   string // of this module
	Run, Skip string // which tests, as go test takes them
}

// Shapes returns all of them, as rows that are played side by side.
func Shapes() [][]Shape {
	const tc, netshape, command = "internal/tc", "internal/netshape", "cmd/trafficup"
	return [][]Shape{
		{
			{Name: "shape-qdiscs", Package: tc, Run: "."},
			{Name: "shape-too-high", Package: command, Run: "^TestNetshapeRateTooHigh$"},
			{Name: "shape-cake", Package: command, Run: "^TestNetshapeCake(Options|Again|FromEachState)$"},
		},
		{
			{Name: "shape-latency", Package: command, Run: "^TestNetshapeLatency$"},
			{Name: "shape-measured", Package: command, Run: "^TestNetshapeMeasuredRate$"},
			{Name: "shape-machine", Package: netshape, Run: "^TestReal(Queues|Again)$"},
			{Name: "shape-confirm", Package: command, Run: "^TestNetshapeCake(Targets|Killed)$"},
		},
	}
}

// Tests is the file, beside the program to try, that the tests of a package are
// compiled to.
func (s Shape) Tests() string { return path.Base(s.Package) + ".test" }

// ShapeRun is what the tests said.
type ShapeRun struct {
	Name   string `json:"name"`
	Error  string `json:"error,omitzero"` // they did not pass
	Output string `json:"output"`
}
