// Package failover decides which uplink carries a station's traffic. It sends
// nothing and changes nothing: evidence goes in, a decision comes out.
//
// A [Round] is one look at an uplink, which [Judge] makes of what its targets
// answered. [Config.Saw] and [Config.Link] add evidence to a [State];
// [Config.Decide] says which uplink is to be active now, how often each is to be
// looked at, and what happened. All are pure functions of their arguments.
//
// Time is the time since the machine was started, [Now].Boot: no clock that is set
// makes an uplink old or young. Only windows go by the clock on the wall.
package failover
