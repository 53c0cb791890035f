// Package scenarios holds the sandbox's built-in scenarios, the same files that
// serve as examples of the grammar.
package scenarios

import "embed"

// Files holds one NAME.scenario for each built-in scenario.
//
//go:embed *.scenario
var Files embed.FS
