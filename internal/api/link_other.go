//go:build !linux

package api

// sample knows nothing here.
func (cn *conn) sample() *LinkSample { return nil }
