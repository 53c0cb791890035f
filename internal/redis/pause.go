package redis

import "time"

// answered resets the count. It does not end a pause: that is for the probe, so
// that the end is told after the beginning.
func (c *Client) answered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures = 0
}

// failed counts a call that began at begin. Calls that were under way together
// are one failure: they may all have met the same short stall.
func (c *Client) failed(err error, begin time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failures == 0 || !begin.Before(c.failedAt) {
		c.failures, c.failedAt = c.failures+1, time.Now()
	}
	switch {
	case c.paused != nil:
		c.paused = err // the newest reason
	case c.failures >= patience && !c.closed:
		c.paused = err
		c.work.Go(c.probe)
	}
}

// probe waits until Redis can be written to again. It writes, because a replica
// and a full server can be read from, and under the tag of the API, because one
// shard of a cluster can be away. A Redis that comes and goes is told of once a
// minute: an absence within a minute of the last trouble is told, and so its end,
// when it outlasts that minute.
func (c *Client) probe() {
	told := false
	for pause := firstPause; ; pause = min(2*pause, longPause) {
		if !told {
			told = c.tellTrouble()
		}
		select {
		case <-c.ctx.Done():
			return
		case <-time.After(pause):
		}
		if c.Check(c.ctx) == nil {
			break
		}
	}
	if told {
		c.tell(nil) // before calls are made again, whose failures begin another probe
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures, c.paused = 0, nil
}

// tellTrouble tells the reason of the pause, if it may.
func (c *Client) tellTrouble() bool {
	c.mu.Lock()
	reason, may := c.paused, c.tellable()
	c.mu.Unlock()
	if may {
		c.tell(reason)
	}
	return may
}

// complain tells of an error that is about one key or command, and so nothing that
// the calls are given up for.
func (c *Client) complain(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed && c.tellable() {
		c.work.Go(func() { c.tell(err) })
	}
}

// tellable reports whether trouble may be told now; it then has to be. requires mu.
func (c *Client) tellable() bool {
	if !c.toldAt.IsZero() && time.Since(c.toldAt) < tellEvery {
		return false
	}
	c.toldAt = time.Now()
	return true
}

func (c *Client) tell(err error) {
	if c.cfg.Notify == nil {
		return
	}
	c.telling.Lock()
	defer c.telling.Unlock()
	c.cfg.Notify(err)
}
