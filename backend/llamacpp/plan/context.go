package plan

import (
	"fmt"

	"runner/backend"
)

const (
	// leastContext is the context of a model when memory is short, or its trained context if that is less.
	leastContext = 8192
	// goodContext holds the first prompts of coding agents. Up to this size a longer context is worth more than
	// keeping the past of sliding windows, which otherwise must be read again in the next turn. Beyond it the past
	// is worth more.
	goodContext = 32768
)

// room is the memory, in bytes, that the default context depends on. A tenth of what is available stays free.
type room struct {
	// available is what this process can get; 0 if unknown.
	available int64
	// weights is the size of this model's weights. Mapped weights count, although the system reports their memory
	// as available.
	weights int64
	// promised is the memory that loaded models will still take: their mapped weights and the unused part of their
	// caches.
	promised int64
	// others are the sizes of models that are still to be loaded. Each gets as much room as this one.
	others []int64
}

// left returns the memory for this model's cache and buffers.
func (r room) left() int64 {
	n := float64(r.available-r.available/10) - float64(r.weights) - float64(r.promised)
	for _, w := range r.others {
		n -= float64(w)
	}
	return clamp(max(n, 0) / float64(len(r.others)+1))
}

func (r room) String() string {
	text := fmt.Sprintf("%s of memory are available, the weights take %s", mebibytes(r.available), mebibytes(r.weights))
	if r.promised > 0 {
		text += ", loaded models " + mebibytes(r.promised)
	}
	if n := len(r.others); n > 0 {
		text += fmt.Sprintf(", the same share is kept for other models (%d)", n)
	}
	return text + " and a tenth stays free"
}

// sizing is how many tokens a sequence can hold, and the size of the shared cache.
type sizing struct {
	context, cells int
	// full keeps the whole context of sliding-window layers. It is valid if decided is true.
	full, decided bool
	// why explains the context to people.
	why string
}

// wish is the part of a Config about sizes. size chooses context and cells that are zero.
type wish struct {
	context, cells, sequences int
	window                    string
}

// size chooses the context and the cache. The context is the trained one, as far as memory allows. cost returns the
// memory for a number of cells, with or without the whole context of sliding-window layers.
func (s *shape) size(w wish, r room, cost func(cells int, full bool) int64) sizing {
	trained := int(min(max(s.trained, 1), backend.MaxContextSize))
	least := min(trained, leastContext)
	switch {
	case w.cells > 0:
		if w.context == 0 {
			w.context = min(trained, w.cells)
		}
		return sizing{context: w.context, cells: w.cells, why: "as requested"}
	case r.available == 0:
		if w.context > 0 {
			return sizing{context: w.context, cells: w.context * w.sequences, why: "as requested"}
		}
		return sizing{context: least, cells: least * w.sequences, why: "a safe length, because the free memory is unknown"}
	}
	goal, most := w.context, w.context*w.sequences
	if goal == 0 {
		goal = trained
		most = min(trained*w.sequences, max(trained, goodContext*w.sequences/2))
	}
	enough := min(goal, goodContext)
	if w.context > 0 {
		enough = goal
	}
	var best sizing
	for _, full := range s.windows(w.window) {
		cells := fitting(most, r.left(), func(n int) int64 { return cost(n, full) })
		if context := min(goal, cells); context > best.context {
			best = sizing{context: context, cells: cells, full: full, decided: true}
		}
		if best.context >= enough {
			break
		}
	}
	switch {
	case w.context > 0:
		// An explicit context is only refused if even the smallest cache does not fit.
		best.why = "as requested"
		if best.context < w.context {
			best = sizing{context: w.context, cells: w.context, why: best.why}
		}
	case best.context == trained:
		best.why = "as long as in training"
	case best.context >= least:
		best.why = "as long as memory allows: " + r.String()
	default:
		best = sizing{context: least, cells: least, why: "the minimum, because memory is short: " + r.String()}
	}
	return best
}

// windows lists the ways to keep sliding-window layers that a Config allows, the preferred one first.
func (s *shape) windows(asked string) []bool {
	switch {
	case s.window == 0, asked == "on":
		return []bool{true}
	case asked == "off":
		return []bool{false}
	}
	return []bool{true, false}
}

// fitting returns the largest number of cells, in the engine's units and at most most, whose cost is at most left.
func fitting(most int, left int64, cost func(int) int64) int {
	const unit = 256
	low, high := 0, (most+unit-1)/unit
	for low < high {
		if middle := (low + high + 1) / 2; cost(middle*unit) <= left {
			low = middle
		} else {
			high = middle - 1
		}
	}
	return low * unit
}
