package backendtest

import (
	"os"
	"runtime"
	"strconv"
	"strings"

	"runner/backend"
)

// How much a process may grow during testLeaks. The resident memory includes C's, whose allocator and caches take a
// while to settle.
const (
	leakSequences   = 1000
	maxHeapGrowth   = 256 << 10
	maxMemoryGrowth = 24 << 20
)

// testLeaks opens, forks, feeds and closes a thousand sequences. Afterwards all sequences and all cells must be
// free. Go's heap must not have grown, nor the process, where its size is known.
func testLeaks(h *harness) {
	p := h.tokens(1, 200)
	want := h.fresh(p[:100])
	round := func(i int) (opened int) {
		s := h.sequence()
		h.feed(s, p[:1+i%40], 0)
		f := h.fork(s)
		g := h.fork(f)
		h.step([]backend.Input{{Sequence: f, Tokens: p[:1+i%7]}, h.input(s, p[3:4])}, make([]backend.Output, 2))
		if i%3 == 0 {
			h.truncate(f, i%20)
		}
		sequences := []backend.Sequence{s, f, g}
		for _, c := range sequences {
			c.Close()
		}
		return len(sequences)
	}
	for i := range 40 {
		round(i)
	}
	heap, memory, measured := memoryInUse()
	opened := 0
	for i := 0; opened < leakSequences; i++ {
		opened += round(i)
	}
	heapAfter, memoryAfter, _ := memoryInUse()
	heap, memory = heapAfter-heap, memoryAfter-memory
	if heap > maxHeapGrowth {
		h.Errorf("Go's heap grew by %d KiB over %d sequences", heap>>10, opened)
	}
	if memory > maxMemoryGrowth {
		h.Errorf("the process grew by %d MiB over %d sequences", memory>>20, opened)
	}
	if measured {
		h.Logf("over %d sequences Go's heap grew by %d bytes and the process by %d KiB", opened, heap, memory>>10)
	} else {
		h.Logf("over %d sequences Go's heap grew by %d bytes; the size of the process is unknown on this system, so C's "+
			"memory is not measured", opened, heap)
	}
	// Every sequence and cell is free: all sequences can be open and full at once.
	var open []backend.Sequence
	for range h.info.Sequences {
		s := h.sequence()
		h.feed(s, p[:100], 0)
		open = append(open, s)
	}
	s := open[len(open)-1]
	kept := h.truncate(s, 0)
	h.same(h.feed(s, p[kept:100], 0), want, "a prompt after a thousand sequences")
	for _, s := range open {
		s.Close()
	}
}

// memoryInUse returns the bytes of live objects on Go's heap and, where /proc has it, the resident memory of the
// process, which includes C's.
func memoryInUse() (heap, resident int64, measured bool) {
	runtime.GC()
	runtime.GC() // the first run only moves what is in a sync.Pool to its victim cache
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	heap = int64(m.HeapAlloc)
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return heap, 0, false
	}
	f := strings.Fields(string(b))
	if len(f) < 2 {
		return heap, 0, false
	}
	pages, err := strconv.ParseInt(f[1], 10, 64)
	return heap, pages * int64(os.Getpagesize()), err == nil
}
