// Command clock prints when its first instruction ran, in nanoseconds of CLOCK_MONOTONIC, which a host and its containers
// share. The entry of the program reads the clock before anything else, so that the start of Go's runtime does not count.
// It has to be linked with -ldflags "-E main.first".
package main

import "fmt"

// began is set by first: seconds and nanoseconds.
var began [2]int64

func main() { fmt.Println(began[0]*1e9 + began[1]) }
