package backendtest

import (
	"os"
	"runtime"
	"strconv"
	"strings"

	"runner/backend"
)

// testLeaks opens, forks, feeds and closes a thousand sequences. All places and all cells must be free again, and the
// process must not have grown.
func testLeaks(h *harness) {
	p := h.tokens(1, 200)
	want := h.fresh(p[:100])
	round := func(i int) {
		s := h.sequence()
		h.feed(s, p[:1+i%40], 0)
		f := h.fork(s)
		g := h.fork(f)
		h.step([]backend.Input{{Sequence: f, Tokens: p[:1+i%7]}, h.input(s, p[3:4])}, make([]backend.Output, 2))
		if i%3 == 0 {
			h.truncate(f, i%20)
		}
		for _, c := range [3]backend.Sequence{s, f, g} {
			c.Close()
		}
	}
	for i := range 40 {
		round(i)
	}
	before := resident()
	for i := range 1000 / 3 {
		round(i)
	}
	if grown := resident() - before; grown > 24<<20 {
		h.Errorf("the process grew by %d MiB over 1,000 sequences", grown>>20)
	}
	// Every place and cell is free: all sequences can be open at once and full.
	var open []backend.Sequence
	for range h.info.Sequences {
		s := h.sequence()
		h.feed(s, p[:100], 0)
		open = append(open, s)
	}
	s := open[len(open)-1]
	kept := h.truncate(s, 0)
	h.same(h.feed(s, p[kept:100], 0), want, "a prompt after 1,000 sequences")
	for _, s := range open {
		s.Close()
	}
}

// resident returns the memory of the process in bytes, C included; 0 where the system does not say.
func resident() int64 {
	runtime.GC()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b))
	if len(f) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(f[1], 10, 64)
	return pages * int64(os.Getpagesize())
}
