// Takes a CPU profile of itself with Go's runtime/pprof: spprof reads such files.
package main

import (
	"math/rand"
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
	// A second, and enough turns for a slow processor. Each turn takes another time: Go samples every 10 ms to the clock, and where each turn took
	// 3.33 ms all samples fell in the same third of it.
	for i, began := 0, time.Now(); i < 100 || time.Since(began) < time.Second; i++ {
		n := 1000000 + rand.Intn(1000000)
		x += hot(n) + doubled(n)
	}
	pprof.StopCPUProfile()
	if err := out.Close(); err != nil || x == 1 {
		panic(err)
	}
}
