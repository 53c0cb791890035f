// Package linklab tries trafficup over bad links. A User-Mode Linux kernel runs
// as a process, with the machine's files as its own, read-only, and has what
// the machine's kernel may lack: network namespaces with netem between them.
//
// [Boot] starts such a kernel on a program that becomes its init and ends it
// when that is done. The program in guest is one: it builds the links of each
// [Scenario] it is told to play, runs trafficup's sandbox at one end and an
// upload at the other, and writes one [Result] for each.
//
// Time in the guest is real time. Scenarios of one boot run side by side; each
// has namespaces of its own.
package linklab
