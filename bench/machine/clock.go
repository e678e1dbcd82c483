package machine

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// The clock frequency is measured, because many systems tell it to administrators only, and many virtual machines show
// the same number all the time. A chain of additions and exclusive ors that need each other's results takes one cycle
// for each of them on x86-64 and arm64. So its time gives the frequency.
const (
	// slice is how many cycles are timed at once: 30 to 100 µs, so that many of them end without another program between.
	slice = 200_000
	// enough slices are timed also where other programs leave no time for them.
	enough = 10
	// An idle processor lowers its clock and takes some milliseconds to raise it again.
	atWork   = time.Millisecond
	fromIdle = 30 * time.Millisecond
	// One of several threads most likely meets a fast core where the cores differ.
	most = 4
)

// measureClock returns the highest frequency, in hertz, that processors showed while chains ran on them for a time.
// There is at least one processor.
func measureClock(processors int, limit time.Duration) float64 {
	fastest := make([]float64, min(processors, most))
	var running sync.WaitGroup
	for i := range fastest {
		running.Go(func() { fastest[i] = fastestOf(limit, time.Now, chain) })
	}
	running.Wait()
	return slices.Max(fastest)
}

// fastestOf returns the highest frequency of the slices that begin before a time is over, and of enough others. A slice
// that another program interrupts looks slow and so does not count.
func fastestOf(limit time.Duration, now func() time.Time, work func(cycles int)) float64 {
	clock, began := 0.0, now()
	from := began
	for n := 0; n < enough || from.Sub(began) < limit; n++ {
		work(slice)
		to := now()
		if took := to.Sub(from).Seconds(); took > 0 {
			clock = max(clock, slice/took)
		}
		from = to
	}
	return clock
}

// used keeps the compiler from leaving out the chain.
var used atomic.Uint64

// chain takes a number of cycles.
func chain(cycles int) { used.Add(steps(used.Load(), 3, 5, cycles/8)) }

// steps computes eight steps in each round. a and b are arguments, since some processors add constants in no time.
//
//go:noinline
func steps(x, a, b uint64, rounds int) uint64 {
	for range rounds {
		x = (x + a) ^ b
		x = (x + a) ^ b
		x = (x + a) ^ b
		x = (x + a) ^ b
	}
	return x
}
