// Package ical reads when events of an iCalendar file are (RFC 5545), such as the
// maintenance that a provider publishes.
//
// [Parse] checks all that bears on the times of events: what it does not know of
// that, it refuses with the number of the line, and what says nothing of times it
// leaves alone. [Calendar.Spans] are the times within two moments, overlapping ones
// joined. [File] is a calendar that is read again when it changed. Files come from
// others: their size, their number of rules and the work of each are bounded.
package ical
