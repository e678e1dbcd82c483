package roofline

import (
	"encoding/binary"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// readTotal is how many bytes a measurement reads again and again. It is more than the caches of most processors
	// hold.
	readTotal = 256 << 20
	// readLeast is the least that says something about memory and not about caches.
	readLeast = 64 << 20
	// block is how many bytes are read in a place between two looks at the clock.
	block = 1 << 18
	// The measurement takes the best of several rounds, because other programs may disturb one.
	rounds    = 3
	roundTime = 50 * time.Millisecond
)

// Meter measures how many bytes a second this machine's processor reads from memory, with all cores that the program
// may use. It keeps the memory that it reads until it is closed. One goroutine may use it at a time.
type Meter struct {
	memory []byte
	parts  [][]byte // one for each core
}

// NewMeter takes the memory that is read: 256 MiB at most, or 1 MiB for each core where that is more. room is how much
// memory the program may take, or 0 if that is not known; a fourth of it is taken at most. It reports false if that is
// too little.
func NewMeter(room int64) (*Meter, bool) {
	cores := int64(runtime.GOMAXPROCS(0))
	least := max(readLeast, cores*streams*block)
	size := max(readTotal, least)
	if room > 0 {
		size = min(size, room/4)
	}
	if size < least {
		return nil, false
	}
	m := &Meter{memory: take(size)}
	begin := func(i int64) int64 { return size * i / cores / block * block }
	for i := range cores {
		m.parts = append(m.parts, m.memory[begin(i):begin(i+1)])
	}
	each(len(m.parts), func(i int) {
		for at := 0; at < len(m.parts[i]); at += os.Getpagesize() {
			m.parts[i][at] = 1 // memory that was never written takes no room and is not read
		}
	})
	return m, true
}

// Rate measures once, which takes about 0.15 seconds.
func (m *Meter) Rate() (bytesPerSecond float64) {
	for range rounds {
		rates := make([]float64, len(m.parts))
		each(len(m.parts), func(i int) { rates[i] = read(m.parts[i]) })
		sum := 0.0
		for _, r := range rates {
			sum += r
		}
		bytesPerSecond = max(bytesPerSecond, sum)
	}
	return bytesPerSecond
}

// Close gives the memory back.
func (m *Meter) Close() {
	give(m.memory)
	m.memory, m.parts = nil, nil
	debug.FreeOSMemory()
}

// Measure is one [Meter.Rate] that gives the memory back. It takes about a quarter of a second.
func Measure(room int64) (bytesPerSecond float64, ok bool) {
	m, ok := NewMeter(room)
	if !ok {
		return 0, false
	}
	rate := m.Rate()
	m.Close() // what follows may load a model
	return rate, true
}

// each runs do for 0 to n-1 at once.
func each(n int, do func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { do(i) })
	}
	all.Wait()
}

// streams is in how many places at once a core reads. A core has more reads under way then than in one place.
const streams = 4

// kept takes the results of reads, so that the compiler does not leave them out.
var kept atomic.Uint64

// read reads memory for a round and returns the bytes a second. One word of a cache line brings the whole line.
func read(memory []byte) float64 {
	const line = 64
	part := len(memory) / streams / block * block
	a, b, c, d := memory[:part], memory[part:][:part], memory[2*part:][:part], memory[3*part:][:part]
	begin, total, sum := time.Now(), 0, uint64(0)
	for at := 0; ; at = (at + block) % part {
		for i := at; i < at+block; i += line {
			sum += binary.LittleEndian.Uint64(a[i:]) + binary.LittleEndian.Uint64(b[i:]) +
				binary.LittleEndian.Uint64(c[i:]) + binary.LittleEndian.Uint64(d[i:])
		}
		total += streams * block
		if took := time.Since(begin); took >= roundTime {
			kept.Add(sum)
			return float64(total) / took.Seconds()
		}
	}
}
