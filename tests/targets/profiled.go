// Takes a CPU profile of itself with Go's runtime/pprof: spprof reads such files.
package main

import (
	"os"
	"runtime/pprof"
	"time"
)

//go:noinline
func hot(n int) (x int) {
	for i := 0; i < n; i++ {
		x += i * i % 7
	}
	return
}

// Inlined into main: one address with two functions.
func doubled(n int) int { return hot(n) + hot(n) }

func main() {
	out, err := os.Create(os.Args[1])
	if err != nil {
		panic(err)
	}
	if err := pprof.StartCPUProfile(out); err != nil {
		panic(err)
	}
	x := 0
	for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); {
		x += hot(1000000) + doubled(1000000)
	}
	pprof.StopCPUProfile()
	if err := out.Close(); err != nil || x == 1 {
		panic(err)
	}
}
