// A library whose threads are Go's. Its runtime ends the process if a signal's handler runs on a goroutine's stack, which is small
// and moves.
package main

import "C"
import "sync"

//go:noinline
func leaf(n int, x uint64) uint64 {
	for i := 0; i < n; i++ {
		x = x*6364136223846793005 + uint64(i)
	}
	return x
}

// Deep enough that a goroutine's stack grows, and is moved, again and again.
func deep(n int, x uint64) uint64 {
	if n == 0 {
		return leaf(20000, x)
	}
	var kept [16]uint64
	kept[n&15] = x
	return deep(n-1, x+1) + kept[n&15]
}

// The same number for the same arguments.
//
//export Compute
func Compute(workers C.int, rounds C.int) C.ulonglong {
	var wait sync.WaitGroup
	sums := make([]uint64, int(workers))
	for round := 0; round < int(rounds); round++ {
		for worker := range sums {
			wait.Add(1)
			go func(worker int) {
				defer wait.Done()
				sums[worker] += deep(20*worker, uint64(round))
			}(worker)
		}
		wait.Wait()
	}
	var total uint64
	for _, sum := range sums {
		total += sum
	}
	return C.ulonglong(total)
}

func main() {}
