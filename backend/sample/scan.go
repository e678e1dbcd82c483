package sample

import (
	"fmt"
	"math"
	"math/bits"

	"runner/backend"
)

// blockSize is how many tokens share one entry of the index. It is a multiple of 64, so that a block covers whole
// words of a mask.
const blockSize = 256

// scan is an index over one vector of logits: its largest value and, after sum, the mass of every block.
type scan struct {
	max  float32
	maxs []float32

	scale float32 // the scale that sums holds for; 0 for none
	ref   float32 // the largest logit, or a value very near it
	sums  []float32
	total float64

	order []candidate // scratch for ordering blocks
}

func newScan(n int) scan {
	blocks := (n + blockSize - 1) / blockSize
	return scan{maxs: make([]float32, blocks), sums: make([]float32, blocks), order: make([]candidate, 0, blocks)}
}

// read indexes logits.
func (s *scan) read(logits []float32) error {
	s.scale = 0
	most := float32(math.Inf(-1))
	for i := range s.maxs {
		m := largest(s.block(logits, i))
		if m != m {
			return fmt.Errorf("sample: %w: a logit is NaN", ErrBadLogits)
		}
		s.maxs[i] = m
		if m > most {
			most = m
		}
	}
	s.max = most
	if most > math.MaxFloat32 {
		return fmt.Errorf("sample: %w: a logit is plus infinity", ErrBadLogits)
	}
	return nil
}

// sum returns the sum of exp((logit-ref)*scale) and keeps the sums of the blocks.
func (s *scan) sum(logits []float32, scale float32) float64 {
	if s.scale == scale {
		return s.total
	}
	s.scale, s.ref, s.total = scale, s.max, 0
	steps := scale * expScale
	offset := float32(math.Round(float64(s.max * steps)))
	heavy := -1.0
	if math.Abs(float64(offset)) <= 1<<20 { // larger offsets have steps that float32 cannot hold
		s.ref = offset / steps
		for i := range s.sums {
			s.sums[i] = sumExpCoarse(s.block(logits, i), offset, steps)
			s.total += float64(s.sums[i])
		}
		heavy = s.total / 1024
	}
	// Sum the blocks that matter again precisely. They are few unless the distribution is flat. A block whose
	// tokens have no weight gets a sum of exactly 0, so that no draw can end there.
	s.total = 0
	for i, m := range s.maxs {
		switch {
		case exp(m-s.ref, scale) == 0:
			s.sums[i] = 0
		case float64(s.sums[i]) > heavy:
			s.sums[i] = float32(sumExp(s.block(logits, i), s.ref, scale))
		}
		s.total += float64(s.sums[i])
	}
	return s.total
}

// mean returns the mean logit of the whole distribution and the sum of exp(logit-max).
func (s *scan) mean(logits []float32) (mean, total float64) {
	sum := 0.0
	for i, m := range s.maxs {
		if exp(m-s.max, 1) == 0 {
			continue
		}
		for _, v := range s.block(logits, i) {
			if w := exp(v-s.max, 1); w > 0 { // avoids 0 times minus infinity
				total += float64(w)
				sum += float64(w) * float64(v)
			}
		}
	}
	return sum / total, total
}

func (s *scan) block(logits []float32, i int) []float32 {
	return logits[i*blockSize : min((i+1)*blockSize, len(logits))]
}

// draw returns the token at the fraction u of the whole distribution, in token order, with the logits multiplied by
// scale.
func (s *scan) draw(logits []float32, scale float32, u float64) backend.Token {
	rest := u * s.sum(logits, scale)
	block := -1
	for i, m := range s.sums {
		if m > 0 {
			block = i // if rounding leaves none, the last block with any mass
			if rest < float64(m) {
				break
			}
			rest -= float64(m)
		}
	}
	t := backend.NoToken
	for i, v := range s.block(logits, block) {
		if w := exp(v-s.ref, scale); w > 0 {
			t = backend.Token(block*blockSize + i)
			if rest < float64(w) {
				break
			}
			rest -= float64(w)
		}
	}
	return t
}

// best returns the token with the largest logit, the lowest token among equals.
func (s *scan) best(logits []float32) backend.Token {
	for i, m := range s.maxs {
		if m == s.max {
			for j, v := range logits[i*blockSize:] {
				if v == m {
					return backend.Token(i*blockSize + j)
				}
			}
		}
	}
	return backend.NoToken
}

// bestMasked is best among the tokens of a mask; NoToken if all are minus infinity.
func (s *scan) bestMasked(logits []float32, mask backend.Mask) backend.Token {
	best, t := float32(math.Inf(-1)), backend.NoToken
	const words = blockSize / 64
	for i, m := range s.maxs {
		if m <= best {
			continue
		}
		for w := i * words; w < min((i+1)*words, len(mask)); w++ {
			for set := mask[w]; set != 0; set &= set - 1 {
				id := w*64 + bits.TrailingZeros64(set)
				if id < len(logits) && logits[id] > best {
					best, t = logits[id], backend.Token(id)
				}
			}
		}
	}
	return t
}

// above appends the tokens whose logit is at least bound, in token order.
func (s *scan) above(dst []candidate, logits []float32, bound float32) []candidate {
	for i, m := range s.maxs {
		if m >= bound {
			for j, v := range s.block(logits, i) {
				if v >= bound {
					dst = append(dst, candidate{key: v, id: backend.Token(i*blockSize + j)})
				}
			}
		}
	}
	return dst
}

// masked appends the tokens of a mask whose logit is above minus infinity, in token order.
func (s *scan) masked(dst []candidate, logits []float32, mask backend.Mask) []candidate {
	for w, set := range mask {
		for ; set != 0; set &= set - 1 {
			id := w*64 + bits.TrailingZeros64(set)
			if id < len(logits) && logits[id] >= -math.MaxFloat32 {
				dst = append(dst, candidate{key: logits[id], id: backend.Token(id)})
			}
		}
	}
	return dst
}

// topK appends the k most likely tokens above minus infinity, in unspecified order.
func (s *scan) topK(dst []candidate, logits []float32, k int) []candidate {
	bound := float32(-math.MaxFloat32)
	if k <= len(s.maxs) {
		// k blocks hold a value as large as the k-th largest of the blocks' maxima, so the top k are not smaller
		// than that.
		s.order = s.order[:0]
		for i, m := range s.maxs {
			s.order = append(s.order, candidate{key: m, id: backend.Token(i)})
		}
		selectCount(s.order, k)
		least := s.order[0].key
		for _, c := range s.order[:k] {
			least = min(least, c.key)
		}
		bound = max(bound, least)
	}
	dst = s.above(dst, logits, bound)
	if k < len(dst) {
		selectCount(dst, k)
		dst = dst[:k]
	}
	return dst
}
