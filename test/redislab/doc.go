// Package redislab tries what uploads share with each other over Redis: real
// processes of trafficup, on real Redis servers that fail while they work.
//
// A scenario is a fleet of uploads with an API in the test's own process, which
// writes down when each request came. What it shows is held against what is
// promised: how many calls an outage of the API costs all of them together, that
// their sum keeps to the ceiling, and that none of this is lost with Redis.
//
// Time is real. Where it is allowed, the processes of the lab run before all
// others on the machine; how late the machine is nevertheless is measured in the
// same run, and taken into account.
package redislab
