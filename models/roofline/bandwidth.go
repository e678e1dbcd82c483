package roofline

import (
	"bytes"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

const (
	// readTotal is how many bytes a measurement reads again and again. It is more than the caches of most processors
	// hold.
	readTotal = 128 << 20
	// readLeast is the least that says something about memory and not about caches.
	readLeast = readTotal / 2
	// block is how many bytes are read between two looks at the clock.
	block = 1 << 20
	// The measurement takes the best of several rounds, because other programs may disturb one.
	rounds    = 3
	roundTime = 50 * time.Millisecond
)

// Measure returns how many bytes a second this machine's processor reads from memory, with all cores that the program
// may use. It takes about a quarter of a second. room is how much memory the program may take, or 0 if that is not
// known. It reports false if that is too little.
func Measure(room int64) (bytesPerSecond float64, ok bool) {
	size := int64(readTotal)
	if room > 0 {
		size = min(size, room/4)
	}
	if size < readLeast {
		return 0, false
	}
	workers := runtime.GOMAXPROCS(0)
	parts := make([][]byte, workers)
	each(workers, func(i int) {
		parts[i] = make([]byte, max(size/int64(workers), block))
		for at := 0; at < len(parts[i]); at += os.Getpagesize() {
			parts[i][at] = 1 // memory that was never written takes no room and is not read
		}
	})
	best := 0.0
	for range rounds {
		rates := make([]float64, workers)
		each(workers, func(i int) { rates[i] = read(parts[i]) })
		sum := 0.0
		for _, r := range rates {
			sum += r
		}
		best = max(best, sum)
	}
	clear(parts)
	debug.FreeOSMemory() // what follows may load a model
	return best, true
}

// each runs do for 0 to n-1 at once.
func each(n int, do func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { do(i) })
	}
	all.Wait()
}

// read reads memory for a round and returns the bytes a second. It searches for a byte that is not there, because that
// is what Go reads memory fastest with.
func read(memory []byte) float64 {
	begin := time.Now()
	total := 0
	for at := 0; ; at += block {
		if at+block > len(memory) {
			at = 0
		}
		if bytes.IndexByte(memory[at:at+block], 0xff) >= 0 {
			panic("roofline: memory that nobody wrote has changed")
		}
		total += block
		if took := time.Since(begin); took >= roundTime {
			return float64(total) / took.Seconds()
		}
	}
}
