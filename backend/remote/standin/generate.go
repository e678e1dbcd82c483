package standin

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"runner/backend"
	"runner/backend/fake"
)

// generation is a request that passed all checks.
type generation struct {
	// id is the server's name for it.
	id       string
	body     []byte
	tokens   []backend.Token
	most     int
	sampling backend.Sampling
	stops    []backend.Token
	allowed  allowed
	// logits says that each sample needs the raw logits.
	logits bool
	stream bool
}

// sample is a token that was sampled.
type sample struct {
	token   backend.Token
	logprob float32
	top     []backend.TokenLogprob
	logits  []float32
}

// chunk is what one event tells.
type chunk struct {
	// fresh are the new samples, and all are those so far.
	fresh, all []sample
	// finish is "stop", "length", "abort" or empty. stopped is the token that ended the generation, or NoToken.
	finish  string
	stopped backend.Token
}

// allowed is a constraint. nil allows everything.
type allowed []backend.Token

// Allows implements backend.Constraint.
func (a allowed) Allows(t backend.Token) bool { return slices.Contains(a, t) }

// Fill implements backend.Constraint.
func (a allowed) Fill(m backend.Mask) {
	m.Clear()
	for _, t := range a {
		m.Set(t)
	}
}

// run computes a generation and writes it. event makes the event of a chunk.
func (s *Server) run(w http.ResponseWriter, r *http.Request, g *generation, event func(c *chunk) any) {
	fault, end, leave := s.enter(g)
	defer leave()
	switch {
	case fault.What == Silent:
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case fault.Status != 0:
		if fault.RetryAfter != "" {
			w.Header().Set("Retry-After", fault.RetryAfter)
		}
		refuse(w, fault.Status, "the server is overloaded")
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	out := &writer{w: w, flush: http.NewResponseController(w).Flush}
	out.flushed()
	m, _ := s.current()
	var c chunk
	err := s.samples(r.Context(), m, g, func(x sample, finish string) bool {
		if fault.What != Nothing && len(c.all) == fault.After {
			return s.misbehave(r.Context(), out, fault.What, m, event)
		}
		select {
		case <-end:
			out.event(event(&chunk{finish: "abort", all: c.all, stopped: backend.NoToken}))
			return false
		default:
		}
		c.all = append(c.all, x)
		c.fresh = append(c.fresh, x)
		if c.finish = finish; finish == "" && len(c.fresh) < s.cfg.Burst {
			return true
		}
		c.stopped = backend.NoToken
		if finish == "stop" {
			c.stopped = x.token
		}
		out.event(event(&c))
		c.fresh = c.fresh[:0]
		return !out.failed
	})
	switch {
	case r.Context().Err() != nil:
		return
	case err != nil:
		out.event(map[string]any{"error": map[string]any{"message": err.Error(), "code": http.StatusInternalServerError}})
	}
	out.line("[DONE]")
}

// enter counts a generation. leave must be called at its end; end closes when the generation is aborted.
func (s *Server) enter(g *generation) (f Fault, end chan struct{}, leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = keep(s.requests, g.body)
	if s.fault != nil {
		f = s.fault(s.count)
	}
	s.count++
	end = make(chan struct{})
	s.running[g.id] = end
	return f, end, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.running[g.id] == end {
			delete(s.running, g.id)
		}
	}
}

// abort ends all generations whose names begin with a name, as SGLang does.
func (s *Server) abort(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.aborted = keep(s.aborted, id)
	found := false
	for name, end := range s.running {
		if strings.HasPrefix(name, id) {
			found = true
			delete(s.running, name)
			close(end)
		}
	}
	if !found {
		s.missed = keep(s.missed, id)
	}
}

// misbehave does what a fault says. It returns whether the generation goes on.
func (s *Server) misbehave(ctx context.Context, out *writer, what What, m *fake.Model, event func(c *chunk) any) bool {
	switch what {
	case Drop:
		panic(http.ErrAbortHandler)
	case Stall:
		<-ctx.Done()
	case Garbage:
		out.line(`{"choices":[{"index":0,`)
	case Wrong:
		out.line(`{"choices":{"index":"zero"},"output_ids":7}`)
	case Foreign:
		x := sample{token: backend.Token(m.Vocab().Len())}
		out.event(event(&chunk{fresh: []sample{x}, all: []sample{x}, stopped: backend.NoToken}))
	case Endless:
		_, _ = out.w.Write([]byte("data: "))
		block := make([]byte, 1<<20)
		for i := range block {
			block[i] = ' '
		}
		for ctx.Err() == nil {
			if _, err := out.w.Write(block); err != nil {
				break
			}
		}
	case Early:
	case Failure:
		out.line(`{"error":{"message":"Internal server error","type":"InternalServerError","param":null,"code":500}}`)
	case GiveUp:
		out.event(event(&chunk{finish: "abort", stopped: backend.NoToken}))
	}
	return false
}

// samples samples tokens until the generation ends or yield returns false.
func (s *Server) samples(ctx context.Context, m *fake.Model, g *generation,
	yield func(x sample, finish string) bool) error {
	s.mu.Lock()
	q, err := m.NewSequence()
	s.mu.Unlock()
	if err != nil {
		return err
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		q.Close()
	}()
	feed := g.tokens
	for n := 1; ; n++ {
		if s.cfg.Pace > 0 {
			select {
			case <-time.After(s.cfg.Pace):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		x, err := s.step(ctx, m, q, feed, g)
		if err != nil {
			return err
		}
		finish := ""
		switch {
		case m.Vocab().EOS() == x.token || slices.Contains(g.stops, x.token):
			finish = "stop"
		case n == g.most:
			finish = "length"
		}
		if !yield(x, finish) || finish != "" {
			return nil
		}
		feed = []backend.Token{x.token}
	}
}

// step feeds tokens and samples one.
func (s *Server) step(ctx context.Context, m *fake.Model, q backend.Sequence, feed []backend.Token,
	g *generation) (x sample, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]backend.Output, 1)
	for chunk := range slices.Chunk(feed, m.Info().BatchSize) {
		in := []backend.Input{{Sequence: q, Tokens: chunk}}
		if len(q.Tokens())+len(chunk) == len(g.tokens) || len(feed) == 1 {
			in[0].Sampling = &g.sampling
			if g.allowed != nil {
				in[0].Constraint = g.allowed
			}
			if g.logits {
				in[0].Logits = make([]float32, m.Vocab().Len())
				x.logits = in[0].Logits
			}
		}
		if err := m.Step(ctx, in, out); err != nil {
			return x, fmt.Errorf("computing: %w", err)
		}
	}
	x.token, x.logprob, x.top = out[0].Token, out[0].Logprob, slices.Clone(out[0].Top)
	return x, nil
}

// distribution returns the logarithms of the probabilities after a bias and a temperature.
func distribution(logits []float32, p *backend.Sampling) []float64 {
	out := make([]float64, len(logits))
	t := float64(p.Temperature)
	if t == 0 {
		t = 1
	}
	for i, x := range logits {
		out[i] = float64(x)
	}
	for _, b := range p.Bias {
		out[b.Token] += float64(b.Bias)
	}
	most := slices.Max(out)
	sum := 0.0
	for i := range out {
		out[i] = (out[i] - most) / t
		sum += math.Exp(out[i])
	}
	for i := range out {
		out[i] -= math.Log(sum)
	}
	return out
}

// writer writes server-sent events.
type writer struct {
	w      http.ResponseWriter
	flush  func() error
	failed bool
}

func (w *writer) event(value any) {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err) // all values are made here
	}
	w.line(string(data))
}

func (w *writer) line(data string) {
	if _, err := fmt.Fprintf(w.w, "data: %s\n\n", data); err != nil {
		w.failed = true
	}
	w.flushed()
}

func (w *writer) flushed() {
	if w.flush() != nil {
		w.failed = true
	}
}
