// Package metrics writes numbers in the text format of Prometheus, and puts them where
// a collector finds them: into a file that is replaced whole, or on a page.
//
// What can be counted, and how it is called, is known by those who count.
package metrics
