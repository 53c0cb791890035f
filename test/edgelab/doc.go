// Package edgelab tries an edge node: the program, as it is built, in network
// namespaces with two uplinks, a provider behind each, and a host in the LAN.
//
// Time is real, and the benches run beside each other: they mostly wait.
package edgelab
