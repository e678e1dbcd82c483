// Package sample chooses the next token from a model's logits. Backends that compute logits in this process share
// it.
//
// [Sampler.Sample] implements [backend.Sampling]. The tests compare it with a slow reference. It is not a chain of
// pluggable stages: it knows the whole request, so it passes over the vocabulary only once or twice and sorts only
// the few tokens that matter.
//
// # Method
//
// The first pass finds the largest logit of every block of tokens. The top k, the tokens above a bound and the most
// likely tokens are then collected from the blocks that can hold them. A second pass sums exponentials per block.
// It runs only when the whole distribution is needed: for log probabilities, without filters, for top-p without
// top-k, and for typical. A draw then finds first the block and then the token in it.
//
// # Constraints
//
// Let F be the distribution after filters and temperature but without the constraint, and A the allowed tokens. The
// token is distributed as F given A. The filters thus judge plausibility by the model's own distribution. Only when
// F(A) = 0, so that no plausible token is allowed, are they applied again to the allowed tokens alone.
//
// A mask is built only when needed. Draw t from F. If t is allowed it is the result. Otherwise build the mask,
// remove the tokens that are not allowed from F and draw again, independently. A token t of A then has the
// probability
//
//	F(t) + (1-F(A))·F(t)/F(A) = F(t)/F(A),
//
// which is exactly F given A: trying first does not bias the result.
//
// # Randomness
//
// There is no generator state. The draw for the token at position n of its sequence is a hash of (seed, n, 0), and
// the second draw after a refusal one of (seed, n, 1). So the same seed gives the same text, whatever ran before or
// runs at the same time. Arithmetic has a fixed order. Only another machine architecture, which may round
// differently, can give another text.
package sample

import (
	"fmt"
	"math"
	"slices"

	"runner/backend"
)

// ErrBadLogits is [backend.ErrBadLogits].
var ErrBadLogits = backend.ErrBadLogits

// Sampler samples for one vocabulary. It holds scratch space only, and no state that affects later results. It is
// not safe for concurrent use.
type Sampler struct {
	n     int
	scan  scan
	cands []candidate
	mask  backend.Mask

	counts []int32 // occurrences of each token, for penalties; all zero between calls
	undo   []change
	seen   []backend.Token // what the penalties count after a draft
}

// New returns a sampler for vocabularies of n tokens.
func New(n int) *Sampler { return &Sampler{n: n, scan: newScan(n)} }

// Sample chooses a token and writes it to out, with its log probability and the alternatives that p asks for. p
// must be valid for the vocabulary, see [backend.Sampling.Validate].
//
// position is the length of the sequence before the sampled token, including the tokens just fed. Together with the
// seed it determines the draw. c may be nil.
//
// logits has one value per token. Sample writes penalties and bias into it and restores the original values before
// it returns, so nothing else may read it meanwhile. Minus infinity forbids a token.
//
// Errors: [ErrBadLogits]; [backend.ErrNothingAllowed] when c, the bias and the logits together leave no token.
// After an error out is unchanged except for the memory of out.Top. Sample does not allocate once its scratch space
// and out.Top have grown.
func (s *Sampler) Sample(logits []float32, p *backend.Sampling, position int, c backend.Constraint,
	out *backend.Output) error {
	if len(logits) != s.n {
		return fmt.Errorf("sample: %d logits for a vocabulary of %d", len(logits), s.n)
	}
	if err := s.scan.read(logits); err != nil {
		return err
	}
	if math.IsInf(float64(s.scan.max), -1) {
		return fmt.Errorf("sample: %w: all are minus infinity", ErrBadLogits)
	}
	var logZ float64
	top := out.Top[:0]
	if p.TopLogprobs >= 0 {
		sum := s.scan.sum(logits, 1)
		logZ = float64(s.scan.ref) + math.Log(sum)
		if p.TopLogprobs > 0 {
			top = s.top(top, logits, min(p.TopLogprobs, backend.MaxTopLogprobs), logZ)
		}
	}
	plain := p.Plain()
	t, err := s.choose(logits, &plain, position, c)
	if err != nil {
		return err
	}
	out.Token, out.Logprob, out.Top = t, 0, top
	if p.TopLogprobs >= 0 {
		out.Logprob = float32(float64(logits[t]) - logZ)
	}
	return nil
}

// Follow samples for an input: after its tokens, and after each of its drafts that is right. position is the length of
// the sequence with the tokens. row returns the logits after the tokens and the first n drafts; its error is returned.
// So is the error of the first token; a later one only ends the drafts. len(out.More) is the number of drafts that were
// right. Targets are left to the caller.
func (s *Sampler) Follow(in *backend.Input, position int, row func(n int) ([]float32, error),
	out *backend.Output) error {
	logits, err := row(0)
	if err != nil {
		return err
	}
	if err := s.Sample(logits, in.Sampling, position, in.Constraint, out); err != nil {
		return err
	}
	p, last := *in.Sampling, out.Token
	for i := range in.Drafts {
		d := &in.Drafts[i]
		if d.Token != last {
			break
		}
		if logits, err = row(i + 1); err != nil {
			return err
		}
		if p.Penalises() {
			if i == 0 {
				s.seen = append(s.seen[:0], p.Seen...)
			}
			s.seen = append(s.seen, d.Token)
			p.Seen = s.seen
		}
		next := out.NextMore()
		if s.Sample(logits, &p, position+i+1, d.Constraint, next) != nil {
			out.More = out.More[:i]
			break
		}
		last = next.Token
	}
	return nil
}

// Score writes to out how likely target is after logits, together with the top most likely tokens. It does not
// change logits. The only error is [ErrBadLogits].
func (s *Sampler) Score(logits []float32, target backend.Token, top int, out *backend.TargetScore) error {
	if err := s.scan.read(logits); err != nil {
		return err
	}
	if math.IsInf(float64(s.scan.max), -1) {
		return fmt.Errorf("sample: %w: all are minus infinity", ErrBadLogits)
	}
	logZ := float64(s.scan.ref) + math.Log(s.scan.sum(logits, 1))
	own := logits[target]
	out.Logprob, out.Rank = float32(float64(own)-logZ), 1
	for _, x := range logits {
		if x > own {
			out.Rank++
		}
	}
	if out.Top = out.Top[:0]; top > 0 {
		out.Top = s.top(out.Top, logits, min(top, backend.MaxTopLogprobs), logZ)
	}
	return nil
}

// top appends the k most likely tokens, best first.
func (s *Sampler) top(dst []backend.TokenLogprob, logits []float32, k int, logZ float64) []backend.TokenLogprob {
	s.cands = s.scan.topK(s.cands[:0], logits, k)
	slices.SortFunc(s.cands, func(a, b candidate) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	for _, c := range s.cands {
		dst = append(dst, backend.TokenLogprob{Token: c.id, Logprob: float32(float64(c.key) - logZ)})
	}
	return dst
}

// choose returns the token. The scan holds the raw logits. p is in its plain form.
func (s *Sampler) choose(logits []float32, p *backend.Sampling, position int, c backend.Constraint) (backend.Token,
	error) {
	if p.Penalises() || len(p.Bias) > 0 {
		defer s.restore(logits) // even if the constraint panics
		s.adjust(logits, p)
		if err := s.scan.read(logits); err != nil {
			return backend.NoToken, err
		}
		if math.IsInf(float64(s.scan.max), -1) {
			return backend.NoToken, fmt.Errorf("sample: the bias forbids every token: %w", backend.ErrNothingAllowed)
		}
	}
	if p.Temperature == 0 {
		return s.greedy(logits, c)
	}
	t, everything := s.draw(logits, p, position)
	if c == nil || c.Allows(t) {
		return t, nil
	}
	s.fill(c)
	if !everything {
		if t, ok := again(s.cands, s.mask, p.Seed, position); ok {
			return t, nil
		}
	}
	s.cands = s.scan.masked(s.cands[:0], logits, s.mask)
	if len(s.cands) == 0 {
		return backend.NoToken, fmt.Errorf("sample: %w", backend.ErrNothingAllowed)
	}
	if k := p.TopK; k > 0 && k < len(s.cands) {
		selectCount(s.cands, k)
		s.cands = s.cands[:k]
	}
	weigh(s.cands, 1)
	s.filter(p, logits)
	return pick(s.cands, p.Temperature, uniform(p.Seed, position, 1)), nil
}

// greedy returns the most likely allowed token.
func (s *Sampler) greedy(logits []float32, c backend.Constraint) (backend.Token, error) {
	t := s.scan.best(logits)
	if c == nil || c.Allows(t) {
		return t, nil
	}
	s.fill(c)
	if t = s.scan.bestMasked(logits, s.mask); t == backend.NoToken {
		return t, fmt.Errorf("sample: %w", backend.ErrNothingAllowed)
	}
	return t, nil
}

// draw samples without a constraint. It leaves the candidates with their weights in s.cands. Without any filter
// every token is a candidate; draw then reports that instead.
func (s *Sampler) draw(logits []float32, p *backend.Sampling, position int) (t backend.Token, everything bool) {
	u := uniform(p.Seed, position, 0)
	left := *p // the filters still to be applied
	switch {
	case p.TopK > 0 && p.TopK < s.n:
		s.cands = s.scan.topK(s.cands[:0], logits, p.TopK)
		weigh(s.cands, 1)
	case p.TypicalP < 1:
		s.cands = s.typical(logits, p.TypicalP)
		left.TypicalP = 1
	case p.TopP < 1:
		s.cands = s.nucleus(logits, p.TopP)
		left.TopP = 1
	case p.MinP > 0:
		s.cands = s.scan.above(s.cands[:0], logits, s.scan.max+float32(math.Log(float64(p.MinP))))
		return pick(s.cands, p.Temperature, u), false
	default:
		return s.scan.draw(logits, inverse(p.Temperature), u), true
	}
	s.filter(&left, logits)
	return pick(s.cands, p.Temperature, u), false
}

// nucleus collects the smallest set of tokens with probability p.
func (s *Sampler) nucleus(logits []float32, p float32) []candidate {
	target := float64(p) * s.scan.sum(logits, 1)
	for depth := float32(2); ; depth *= 2 {
		c, all := s.gather(logits, s.scan.max, depth)
		if total := weigh(c, 1); total >= target || all {
			return c[:selectWeight(c, target)]
		}
	}
}

// typical collects the most typical tokens of the whole distribution, up to probability p.
func (s *Sampler) typical(logits []float32, p float32) []candidate {
	mean, total := s.scan.mean(logits)
	target := float64(p) * total
	for depth := float32(2); ; depth *= 2 {
		c, all := s.gather(logits, float32(mean), depth)
		weigh(c, 1)
		near := 0.0 // the mass within depth of the mean, all of which is collected
		for i := range c {
			if distance(c[i].key, mean) < depth {
				near += float64(c[i].weight)
			}
		}
		if near >= target || all {
			return selectTypical(c, mean, target, logits)
		}
	}
}

// gather returns the tokens whose logit is at most depth below from. Beyond a depth at which nothing has weight it
// returns all tokens above minus infinity and reports that it did.
func (s *Sampler) gather(logits []float32, from, depth float32) (c []candidate, all bool) {
	bound := from - depth
	if all = depth > 64; all {
		bound = -math.MaxFloat32
	}
	s.cands = s.scan.above(s.cands[:0], logits, bound)
	return s.cands, all
}

// filter applies typical, top-p and min-p to the weighted candidates, each to what the one before left. At least
// one candidate stays.
func (s *Sampler) filter(p *backend.Sampling, logits []float32) {
	c := s.cands
	if p.TypicalP < 1 {
		m, total := mean(c)
		c = selectTypical(c, m, float64(p.TypicalP)*total, logits)
	}
	if p.TopP < 1 {
		c = c[:selectWeight(c, float64(p.TopP)*totalWeight(c))]
	}
	if p.MinP > 0 {
		c = minP(c, p.MinP)
	}
	s.cands = c
}

func (s *Sampler) fill(c backend.Constraint) {
	if s.mask == nil {
		s.mask = backend.NewMask(s.n)
	}
	c.Fill(s.mask)
}
