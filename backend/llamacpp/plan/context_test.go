package plan

import (
	"strings"
	"testing"
)

const gib = 1 << 30

// TestContextIsTheModelsOwnAsFarAsMemoryAllows sizes a model in the shape of gpt-oss-20b: 48 KiB per token if
// sliding-window layers keep everything, 24 KiB if not, and weights of 11.3 GiB.
func TestContextIsTheModelsOwnAsFarAsMemoryAllows(t *testing.T) {
	const weights = 12_100_000_000
	for _, c := range []struct {
		name           string
		room           room
		wish           wish
		context, cells int // cells 0: the cache is the context
		full, decided  bool
		why            string
	}{
		{"plenty", room{available: 64 * gib, weights: weights},
			wish{sequences: 8}, 131072, 0, true, true, "as long as in training"},
		{"plenty, many at once", room{available: 64 * gib, weights: weights},
			wish{sequences: 16}, 131072, 262144, true, true, "as long as in training"},
		{"room for half", room{available: 18 * gib, weights: weights},
			wish{sequences: 8}, 97536, 0, true, true, "as long as memory allows: 18432 MiB of memory are available"},
		{"the weights do not look used", room{available: 18 * gib},
			wish{sequences: 8}, 131072, 0, true, true, "as long as in training"},
		{"loaded models do not look used", room{available: 30 * gib, weights: weights, promised: weights}, wish{sequences: 8},
			88064, 0, true, true, "loaded models 11540 MiB"},
		{"another model is to come", room{available: 42 * gib, weights: weights, others: []int64{weights}},
			wish{sequences: 8},
			131072, 0, true, true, "as long as in training"},
		{"it is to have as much", room{available: 32 * gib, weights: weights, others: []int64{weights}}, wish{sequences: 8},
			60672, 0, true, true, "the same share is kept for other models (1)"},
		{"windows are forgotten for the sake of a good context", room{available: 14 * gib, weights: weights},
			wish{sequences: 8},
			43264, 0, false, true, "as long as memory allows"},
		{"unless that is ruled out", room{available: 14 * gib, weights: weights},
			wish{sequences: 8, window: "on"}, 23552, 0, true, true, "as long as memory allows"},
		{"windows are to be forgotten", room{available: 18 * gib, weights: weights},
			wish{sequences: 8, window: "off"}, 131072, 0, false, true, "as long as in training"},
		{"no room", room{available: 12 * gib, weights: weights},
			wish{sequences: 8}, 8192, 0, false, false, "the minimum, because memory is short"},
		{"unknown", room{weights: weights}, wish{sequences: 8}, 8192, 65536, false, false, "unknown"},
		{"asked for", room{available: 64 * gib, weights: weights},
			wish{context: 4096, sequences: 8}, 4096, 32768, true, true, "as requested"},
		{"asked for with a smaller cache", room{available: 18 * gib, weights: weights}, wish{context: 32768, sequences: 8},
			32768, 97536, true, true, "as requested"},
		{"asked for beyond the training", room{available: 64 * gib, weights: weights}, wish{context: 200_000, sequences: 2},
			200_000, 400_128, true, true, "as requested"},
		{"asked for without room", room{available: 12 * gib, weights: weights},
			wish{context: 16384, sequences: 8}, 16384, 0, false, false, "as requested"},
		{"asked for, memory unknown", room{},
			wish{context: 16384, sequences: 8}, 16384, 131072, false, false, "as requested"},
		{"a cache was asked for", room{available: 64 * gib},
			wish{context: 512, cells: 700, sequences: 8}, 512, 700, false, false, "as requested"},
	} {
		s := shape20B()
		p := &Plan{Sequences: c.wish.sequences, Batch: 512}
		z := s.size(c.wish, c.room, func(cells int, full bool) int64 {
			q := *p
			q.Cells = cells
			return s.cacheBytes(cells, q.windowCells(s), full, 64) + q.computeBytes(s)
		})
		if c.cells == 0 {
			c.cells = c.context
		}
		if z.context != c.context || z.cells != c.cells || z.full != c.full || z.decided != c.decided ||
			!strings.Contains(z.why, c.why) {
			t.Errorf("%s: %+v, want %d of %d cells, full %t, %q", c.name, z, c.context, c.cells, c.full, c.why)
		}
	}
}

// TestSmallModelsKeepTheirCache checks that a model trained for 8,192 tokens gets a cache for all sequences if
// there is room.
func TestSmallModelsKeepTheirCache(t *testing.T) {
	s := &shape{
		layers: 6, trained: 8192, window: 128, vocab: 512, embedding: 192, weights: 4 << 20,
		perToken: make([]int64, 6), sliding: make([]bool, 6),
	}
	for i := range s.perToken {
		s.perToken[i], s.sliding[i] = 2*64, i%2 == 0
	}
	for _, sequences := range []int{1, 2, 8, 128} {
		cost := func(cells int, full bool) int64 { return s.cacheBytes(cells, 1024, full, 64) }
		z := s.size(wish{sequences: sequences}, room{available: 4 * gib, weights: s.weights}, cost)
		if z.context != 8192 || z.cells != 8192*sequences || !z.full {
			t.Errorf("%d sequences: %+v", sequences, z)
		}
	}
}
