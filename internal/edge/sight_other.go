//go:build !linux

package edge

import "context"

// See fails.
func See(context.Context) (Sight, error) { return Sight{}, errLinux }
