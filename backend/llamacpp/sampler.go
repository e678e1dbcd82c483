package llamacpp

import "runner/backend"

type sampler struct{ mask backend.Mask }

func (s *sampler) Sample(logits []float32, p *backend.Sampling, tokens []backend.Token, c backend.Constraint, out *backend.Output) error {
	best := backend.NoToken
	if c != nil {
		c.Fill(s.mask)
	}
	for i, l := range logits {
		if c != nil && !s.mask.Has(backend.Token(i)) {
			continue
		}
		if best < 0 || l > logits[best] {
			best = backend.Token(i)
		}
	}
	if best < 0 {
		return backend.ErrNothingAllowed
	}
	out.Token = best
	return nil
}

func newSampler(n int) sampler { return sampler{backend.NewMask(n)} }
