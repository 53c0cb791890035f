// Package sandbox stands in for the ingestion API: an http.Handler with an
// idempotency ledger and faults that follow a script.
//
// A client can be tried against it in three ways: called directly in a unit
// test, through an in-memory listener inside a testing/synctest bubble, or on
// a real port. It reads the clock only through package time, so in a bubble a
// whole night passes in milliseconds.
//
// What a healthy server does: a POST with an Idempotency-Key is applied once
// and answered 201 {"id":"rcpt-…"}; the same key with the same body is
// answered 200 with the same receipt and Idempotent-Replayed: true, and is not
// applied again; the same key with another body is answered 422. What goes
// wrong, and when, is the [Scenario].
//
// The invariant tests lean on: whether a fault strikes depends on the seed,
// the line of the scenario, the key and how often that key was seen, never on
// the order in which goroutines happen to run. Only windows of time or of call
// numbers and the rate limit depend on the order of arrival, as they must.
package sandbox
