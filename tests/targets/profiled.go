// Takes a CPU profile of itself with Go's runtime/pprof: spprof reads such files.
package main

import (
	"os"
	"runtime/pprof"
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
	for i := 0; i < 100; i++ { // half a second or so
		x += hot(1500000) + doubled(1500000)
	}
	pprof.StopCPUProfile()
	if err := out.Close(); err != nil || x == 1 {
		panic(err)
	}
}
