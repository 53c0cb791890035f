// Package sharedlimit holds all uploaders of an API together below one ceiling,
// and gathers what they measure, with Redis as what they share.
//
// Time on Redis' clock is cut into windows of 250 ms. Each window has as many
// calls as the ceiling allows, and a node takes a lease of some of them: once a
// window, for the one that comes next, in the background. A record therefore
// waits for no round trip. A node spends its lease evenly over the window; a call
// not spent in time expires, and so no backlog builds up. Hence the sum of all
// nodes in any time is what the windows in it hold, and what may be spent late:
// calls of patience (80 ms), or one for a node whose calls are further apart.
//
// How large a lease is depends on what all nodes seen in the last two seconds
// ask for. The classes are served in strict order, [Nightly] before [Replay]
// before [Backfill], but of every window 10 % are kept for replays and 5 % for
// back-fill as long as they ask for them: what waits must not starve. Within a
// class the nodes that ask for little get it, the others the same each (max-min).
// What nobody has claimed when a window begins is there for the first who asks.
// Parts of a call are carried on as a node's credit. If nodes are told different
// ceilings the lowest counts for all.
//
// While Redis is away each node goes on by itself with the ceiling divided by the
// nodes known last, and asks again every second. Back again it claims no more
// than that for three seconds, by when the others are back too. What cannot be
// held: of nodes cut off from a Redis that others reach, the others know nothing
// after two seconds, and the sum may exceed the ceiling by what those spend.
package sharedlimit
