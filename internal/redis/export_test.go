package redis

import "time"

// Patient returns cfg with a bound that a busy machine does not reach, for tests
// that are not about it.
func (cfg Config) Patient() Config {
	cfg.timeout = 10 * time.Second
	return cfg
}
