package backendtest

import (
	"context"
	"errors"
	"time"

	"runner/backend"
)

func testInfo(h *harness) {
	i := h.info
	if i.Name == "" || i.Backend == "" || i.Architecture == "" || i.Header == "" {
		h.Errorf("name %q, backend %q, architecture %q or header %q is empty", i.Name, i.Backend, i.Architecture, i.Header)
	}
	if i.ContextSize != 256 || i.Sequences != 3 || i.BatchSize != 64 {
		h.Errorf("asked for a context of 256, 3 sequences and batches of 64, got %d, %d and %d", i.ContextSize, i.Sequences,
			i.BatchSize)
	}
	if i.TrainedContext <= 0 || !h.caps.Paced && (i.Threads <= 0 || i.EmbeddingLength <= 0) {
		h.Errorf("trained context %d, %d threads and embedding length %d", i.TrainedContext, i.Threads, i.EmbeddingLength)
	}
}

// unchanged runs a step that must fail and checks that it changed no sequence.
func (h *harness) unchanged(ctx context.Context, in []backend.Input) error {
	h.Helper()
	var before [][]backend.Token
	for i := range in {
		if in[i].Sequence == nil {
			before = append(before, nil)
			continue
		}
		before = append(before, append([]backend.Token(nil), in[i].Sequence.Tokens()...))
	}
	err := backend.StepAll(ctx, h.m, in, make([]backend.Output, len(in)))
	if err == nil {
		h.Error("Step returned no error")
	}
	for i := range in {
		if in[i].Sequence == nil {
			continue
		}
		got := in[i].Sequence.Tokens()
		if len(got) != len(before[i]) {
			h.Errorf("after the error %v sequence %d has %d tokens, not %d", err, i, len(got), len(before[i]))
			continue
		}
		for j := range got {
			if got[j] != before[i][j] {
				h.Errorf("after the error %v sequence %d has another token at %d", err, i, j)
				break
			}
		}
	}
	return err
}

func testErrors(h *harness) {
	ctx := context.Background()
	s, other := h.sequence(), h.sequence()
	p := h.tokens(1, 20)
	h.feed(s, p, 0)
	h.feed(other, p[:5], 0)
	good := backend.Input{Sequence: other, Tokens: p[:2]}
	with := func(in backend.Input) []backend.Input { return []backend.Input{good, in} }

	h.wantInput(h.unchanged(ctx, with(backend.Input{Sequence: s})), backend.ErrNoTokens, 1, "no tokens")
	for _, t := range []backend.Token{-1, -7, backend.Token(h.v.Len()), 1 << 30} {
		h.wantInput(h.unchanged(ctx, with(backend.Input{Sequence: s, Tokens: []backend.Token{p[0], t}})), backend.ErrBadToken,
			1, "bad token")
	}
	h.wantInput(h.unchanged(ctx, []backend.Input{good, {Sequence: other, Tokens: p[:1]}}), backend.ErrRepeated, 1,
		"sequence twice")
	big := h.tokens(2, h.info.BatchSize)
	h.wantError(h.unchanged(ctx, with(backend.Input{Sequence: s, Tokens: big})), backend.ErrBatchTooLarge,
		"batch too large")
	for _, bad := range []backend.Sampling{{Temperature: -1}, {TopP: 2}, {TopLogprobs: 21},
		{Bias: []backend.TokenBias{{Token: -1}}}} {
		var e *backend.InputError
		if err := h.unchanged(ctx, with(backend.Input{Sequence: s, Tokens: p[:1], Sampling: &bad})); !errors.As(err, &e) ||
			e.Index != 1 {
			h.Errorf("sampling %+v: error %v, want an InputError for input 1", bad, err)
		}
	}
	if h.caps.Logits {
		_ = h.unchanged(ctx, with(backend.Input{Sequence: s, Tokens: p[:1], Logits: make([]float32, 3)}))
	}
	var e *backend.InputError
	if err := h.unchanged(ctx, with(backend.Input{Tokens: p[:1]})); !errors.As(err, &e) || e.Index != 1 {
		h.Errorf("missing sequence: error %v, want an InputError for input 1", err)
	}
	if err := h.m.Step(ctx, []backend.Input{good}, nil); err == nil {
		h.Error("too few outputs returned no error")
	}
	other.Close()
	h.wantInput(h.m.Step(ctx, []backend.Input{{Sequence: s, Tokens: p[:1]}, good}, make([]backend.Output, 2)),
		backend.ErrClosed, 1, "closed sequence")
	h.same(h.feed(s, p[:3], 0), h.fresh(append(append([]backend.Token(nil), p...), p[:3]...)), "after all these errors")
	if err := h.m.Step(ctx, nil, nil); err != nil {
		h.Errorf("a step without inputs: %v", err)
	}
}

func testContextFull(h *harness) {
	s := h.sequence()
	p := h.tokens(1, h.info.ContextSize)
	h.feed(s, p[:h.info.ContextSize-2], 0)
	err := h.unchanged(context.Background(), []backend.Input{{Sequence: s, Tokens: p[:3]}})
	h.wantInput(err, backend.ErrContextFull, 0, "three tokens into room for two")
	h.same(h.feed(s, p[h.info.ContextSize-2:], 0), h.fresh(p), "the full context")
	err = h.unchanged(context.Background(), []backend.Input{{Sequence: s, Tokens: p[:1]}})
	h.wantInput(err, backend.ErrContextFull, 0, "one token into a full context")
	kept := h.truncate(s, 100)
	h.same(h.feed(s, p[kept:150], 0), h.fresh(p[:150]), "shortened after it was full")
}

func testCacheFull(h *harness) {
	p, q := h.tokens(1, 400), h.tokens(2, 500)
	a, b := h.sequence(), h.sequence()
	h.feed(a, p, 0)
	half := h.feed(b, q[:50], 0)
	var err error
	fed := 50
	for fed < 500 && err == nil {
		if err = h.m.Step(context.Background(), []backend.Input{{Sequence: b, Tokens: q[fed : fed+50]}},
			make([]backend.Output, 1)); err == nil {
			fed += 50
		}
	}
	h.wantError(err, backend.ErrCacheFull, "more tokens than the cache has cells")
	if n := len(b.Tokens()); n != fed {
		h.Errorf("after ErrCacheFull the sequence has %d tokens, not %d", n, fed)
	}
	f, ferr := a.Fork() // either shares its cells or fails with ErrCacheFull
	if ferr == nil {
		f.Close()
	} else {
		h.wantError(ferr, backend.ErrCacheFull, "fork in a full cache")
	}
	a.Close()
	h.same(h.feed(b, q[fed:500], 0), h.fresh0(b, q[:500]), "after another sequence made room")
	kept := h.truncate(b, 0)
	h.same(h.feed(b, q[kept:50], 0), half, "started again")
}

// fresh0 is fresh when the cache has no room for a second copy: it truncates s to nothing and feeds it again.
func (h *harness) fresh0(s backend.Sequence, tokens []backend.Token) result {
	h.Helper()
	h.truncate(s, 0)
	return h.feed(s, tokens, 64)
}

func testNoSequence(h *harness) {
	var open []backend.Sequence
	for range h.info.Sequences {
		open = append(open, h.sequence())
	}
	_, err := h.m.NewSequence()
	h.wantError(err, backend.ErrNoSequence, "one sequence too many")
	_, err = open[0].Fork()
	h.wantError(err, backend.ErrNoSequence, "a fork too many")
	open[1].Close()
	open[1].Close()
	f := h.fork(open[0])
	_, err = h.m.NewSequence()
	h.wantError(err, backend.ErrNoSequence, "closing twice frees one place")
	f.Close()
}

func testClosed(h *harness) {
	s := h.sequence()
	gone := h.sequence()
	h.feed(s, h.tokens(1, 3), 0)
	gone.Close()
	_, err := gone.Fork()
	h.wantError(err, backend.ErrClosed, "fork of a closed sequence")
	_, err = gone.Truncate(0)
	h.wantError(err, backend.ErrClosed, "truncating a closed sequence")
	for range 2 {
		if err := h.m.Close(); err != nil {
			h.Errorf("Close: %v", err)
		}
	}
	_, err = h.m.NewSequence()
	h.wantError(err, backend.ErrClosed, "NewSequence on a closed model")
	err = h.m.Step(context.Background(), []backend.Input{{Sequence: s, Tokens: []backend.Token{1}}},
		make([]backend.Output, 1))
	h.wantError(err, backend.ErrClosed, "Step on a closed model")
	s.Close()
}

// testCanceled runs steps with ended contexts between normal steps.
func testCanceled(h *harness) {
	p := h.tokens(1, 600)
	s, other := h.sequence(), h.sequence()
	h.feed(s, p[:200], 0)
	h.feed(other, p[:30], 0)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	late, cancel := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
	defer cancel()
	for i, ctx := range []context.Context{ended, late} {
		err := h.unchanged(ctx, []backend.Input{h.input(s, p[200:300]), {Sequence: other, Tokens: p[30:31]}})
		h.wantError(err, ctx.Err(), "step with an ended context")
		h.same(h.feed(s, p[200+i:201+i], 0), h.fresh(p[:201+i]), "after a cancelled step")
	}
	h.same(h.feed(other, p[30:40], 0), h.fresh(p[:40]), "the other sequence after cancelled steps")
}

// tellable is the minimum length of a step for the clock to show whether a cancelled one stopped early.
const tellable = 20 * time.Millisecond

// testCanceledInFlight cancels a long step while it runs, at many moments, between complete steps. A backend that
// checks the context only before and after computing always takes the full time. So the fastest cancelled step must
// be clearly faster than the fastest complete one. The fastest are compared because other work on the machine only
// makes steps slower.
func testCanceledInFlight(h *harness) {
	// More than attempts are needed only while other work on the machine hides the difference.
	const shared, attempts, most = 300, 8, 40
	p := h.tokens(1, 900)
	s := h.sequence()
	var want result
	whole, stopped, canceled := time.Hour, time.Hour, 0
	back := func(n int) {
		if kept := h.truncate(s, n); kept < n {
			h.feed(s, p[kept:n], 0)
		}
	}
	tried := 0
	for ; tried < attempts || tried < most && whole >= tellable && stopped > whole*3/4; tried++ {
		i := tried
		if i%3 == 0 || i >= attempts { // complete steps take most of the time
			back(shared)
			begin := time.Now()
			want = h.feed(s, p[shared:], 0)
			whole = min(whole, time.Since(begin))
		}
		from := shared + i // one more token each time, so that the steps differ
		back(from)
		ctx, cancel := context.WithTimeout(context.Background(), whole*time.Duration(i%attempts+1)/10)
		begin := time.Now()
		in := []backend.Input{{Sequence: s, Tokens: p[from:]}}
		if h.caps.Paced { // prefill alone is nothing that an engine must be waited for
			in[0].Sampling = &backend.Sampling{}
		}
		err := backend.StepAll(ctx, h.m, in, make([]backend.Output, 1))
		took := time.Since(begin)
		cancel()
		if err == nil { // the step ended before it was cancelled
			continue
		}
		h.wantError(err, context.DeadlineExceeded, "step cancelled while it ran")
		if n := len(s.Tokens()); n != from {
			h.Fatalf("a cancelled step left %d tokens, not %d", n, from)
		}
		if took > 4*whole+time.Second {
			h.Errorf("a cancelled step took %v; a whole one takes %v", took, whole)
		}
		canceled++
		stopped = min(stopped, took)
	}
	h.Logf("of %d steps %d were cancelled while they ran; the fastest whole one took %v, the fastest cancelled one %v",
		tried, canceled, whole, stopped)
	switch {
	case whole < tellable:
		h.Logf("too short to tell whether a cancelled step stops early: that takes %v", tellable)
	case stopped > whole*3/4:
		h.Error("no cancelled step stopped early")
	}
	back(shared) // the last step may have run to its end
	h.same(h.feed(s, p[shared:], 0), want, "the prompt after cancelled steps")
}
