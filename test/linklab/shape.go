package linklab

// Shape is a run of tests of internal/tc in a guest: their kernel may have what
// the machine's lacks.
type Shape struct {
	Name      string
	Run, Skip string // which tests, as go test takes them
}

// Shapes returns all of them, as rows that are played side by side.
func Shapes() [][]Shape {
	return [][]Shape{
		{{Name: "shape-qdiscs", Run: ".", Skip: "Latency"}, {Name: "shape-unshaped", Run: "TestLatencyUnshaped"}},
		{{Name: "shape-shaped", Run: "TestLatencyShaped"}},
	}
}

// ShapeRun is what the tests said.
type ShapeRun struct {
	Name   string `json:"name"`
	Error  string `json:"error,omitzero"` // they did not pass
	Output string `json:"output"`
}
