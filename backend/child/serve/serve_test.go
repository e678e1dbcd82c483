package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"runner/backend"
	"runner/backend/child/protocol"
	"runner/backend/fake"
)

func engine() Engine {
	return Engine{Name: "fake", Open: func(_ context.Context, _ string, cfg backend.Config) (backend.Model, error) {
		return fake.New(fake.Config{ContextSize: 64, Sequences: 2, BatchSize: 16}), nil
	}}
}

// opening is the beginning of a conversation: hello, load and a sequence.
func opening(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	w := protocol.NewWriter(&b)
	for _, err := range []error{
		w.WriteJSON(protocol.KindHello, protocol.Hello{Protocol: protocol.Version}, nil),
		w.WriteJSON(protocol.KindLoad, protocol.Load{}, nil),
		w.WriteJSON(protocol.KindNew, protocol.Sequence{}, nil),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// talk sends frames one after another, each after the answer to the one before, and returns the last answer.
func talk(t *testing.T, frames ...protocol.Frame) (protocol.Kind, protocol.Error) {
	t.Helper()
	in, to := io.Pipe()
	from, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- Run(in, out, engine()) }()
	w, r := protocol.NewWriter(to), protocol.NewReader(from)
	var last protocol.Frame
	var e protocol.Error
	opened := protocol.NewReader(bytes.NewReader(opening(t)))
	var all []protocol.Frame
	for range 3 {
		f, err := opened.Next()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, protocol.Frame{Kind: f.Kind, Head: bytes.Clone(f.Head)})
	}
	for _, f := range append(all, frames...) {
		if err := w.Write(f); err != nil {
			t.Fatal(err)
		}
		if f.Kind == protocol.KindCancel {
			continue
		}
		var err error
		if last, err = r.Next(); err != nil {
			t.Fatal(err)
		}
		for last.Kind == protocol.KindProgress {
			if last, err = r.Next(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if last.Kind == protocol.KindError {
		if err := json.Unmarshal(last.Head, &e); err != nil {
			t.Fatal(err)
		}
	}
	to.Close()
	go func() { _, _ = io.Copy(io.Discard, from) }()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
	return last.Kind, e
}

func step(in protocol.Input) protocol.Frame {
	f := protocol.Frame{Kind: protocol.KindStep, Head: protocol.AppendCount(nil, 1)}
	f.Head, f.Raw = protocol.AppendInput(f.Head, f.Raw, &in)
	return f
}

// TestWrongRequestsAreRefused: requests that make no sense get an error, and the conversation goes on.
func TestWrongRequestsAreRefused(t *testing.T) {
	sequence := func(kind protocol.Kind, s protocol.Sequence) protocol.Frame {
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return protocol.Frame{Kind: kind, Head: b}
	}
	for name, c := range map[string]struct {
		frame protocol.Frame
		code  string
	}{
		"a second model":           {protocol.Frame{Kind: protocol.KindLoad, Head: []byte("{}")}, "failed"},
		"no JSON":                  {protocol.Frame{Kind: protocol.KindNew, Head: []byte("{")}, "failed"},
		"a sequence twice":         {sequence(protocol.KindNew, protocol.Sequence{Sequence: 0}), "failed"},
		"no such sequence":         {sequence(protocol.KindNew, protocol.Sequence{Sequence: 2}), "failed"},
		"a negative sequence":      {sequence(protocol.KindFree, protocol.Sequence{Sequence: -1}), "failed"},
		"truncate a closed one":    {sequence(protocol.KindTruncate, protocol.Sequence{Sequence: 1}), "failed"},
		"fork of a closed one":     {sequence(protocol.KindFork, protocol.Sequence{Sequence: 0, From: 1}), "failed"},
		"a step of a closed one":   {step(protocol.Input{Sequence: 1, Tokens: []backend.Token{65}}), "closed"},
		"a step of another length": {step(protocol.Input{Length: 5, Tokens: []backend.Token{65}}), "failed"},
		"a step without tokens":    {step(protocol.Input{}), "no_tokens"},
		"a token too high":         {step(protocol.Input{Tokens: []backend.Token{1 << 30}}), "bad_token"},
	} {
		kind, e := talk(t, c.frame)
		if kind != protocol.KindError || e.Code != c.code {
			t.Errorf("%s: answer %v %+v, want an error with code %s", name, kind, e, c.code)
		}
	}
	kind, e := talk(t, protocol.Frame{Kind: protocol.KindCancel}, step(protocol.Input{Tokens: []backend.Token{65}}))
	if kind != protocol.KindStepped && e.Code != "canceled" {
		t.Errorf("a step after a late cancellation: %v %+v", kind, e)
	}
}

// FuzzConversation sends hostile bytes after a good beginning. Run ends, without a panic.
func FuzzConversation(f *testing.F) {
	begin := opening(f)
	var b bytes.Buffer
	w := protocol.NewWriter(&b)
	_ = w.Write(step(protocol.Input{Tokens: []backend.Token{65}, Flags: protocol.FlagSample | protocol.FlagMasked}))
	_ = w.Write(protocol.Frame{Kind: protocol.KindMasks, Head: protocol.AppendCount(nil, 0),
		Raw: protocol.AppendMask(nil, backend.NewMask(fake.Harmony().Len()))})
	_ = w.WriteJSON(protocol.KindTokenize, protocol.Tokenize{ID: 1}, []byte("text"))
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := Run(io.MultiReader(bytes.NewReader(begin), bytes.NewReader(b)), io.Discard, engine()); err != nil &&
			!errors.Is(err, protocol.ErrFrame) {
			t.Errorf("error %v is not about a frame", err)
		}
	})
}

// TestServedStepAllocatesNothing: once the buffers have grown, a step of eight sequences with masks allocates nothing
// at the engine's end. The conversation's other end sends the same bytes in each step, and the engine returns the same
// outputs, so that nothing else allocates.
func TestServedStepAllocatesNothing(t *testing.T) {
	const sequences = 8
	in, to := io.Pipe()
	from, out := io.Pipe()
	model := &still{Model: fake.New(fake.Config{ContextSize: 64, Sequences: sequences, BatchSize: 16}),
		mask: backend.NewMask(fake.Harmony().Len())}
	ended := make(chan error, 1)
	go func() {
		ended <- Run(in, out, Engine{Name: "still", Progress: func() uint64 { return 0 },
			Open: func(context.Context, string, backend.Config) (backend.Model, error) { return model, nil }})
	}()
	w, r := protocol.NewWriter(to), protocol.NewReader(from)
	send := func(f protocol.Frame, answered bool, want protocol.Kind) {
		if err := w.Write(f); err != nil {
			t.Fatal(err)
		}
		if !answered {
			return
		}
		if f, err := r.Next(); err != nil || f.Kind != want {
			t.Fatalf("%v came with %v, want %v", f.Kind, err, want)
		}
	}
	jsonOf := func(kind protocol.Kind, head any) protocol.Frame {
		f, err := jsonFrame(kind, head)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	send(jsonOf(protocol.KindHello, protocol.Hello{Protocol: protocol.Version}), true, protocol.KindEngineHello)
	send(jsonOf(protocol.KindLoad, protocol.Load{}), true, protocol.KindLoaded)
	step := protocol.Frame{Kind: protocol.KindStep, Head: protocol.AppendCount(nil, sequences)}
	masks := make([]protocol.Frame, sequences)
	for i := range sequences {
		send(jsonOf(protocol.KindNew, protocol.Sequence{Sequence: i}), true, protocol.KindDone)
		step.Head, step.Raw = protocol.AppendInput(step.Head, step.Raw, &protocol.Input{Sequence: i,
			Tokens: []backend.Token{65}, Flags: protocol.FlagSample | protocol.FlagMasked,
			Sampling: backend.Sampling{Temperature: 0.8, TopK: 40, TopP: 0.95, TopLogprobs: 5}})
		masks[i] = protocol.Frame{Kind: protocol.KindMasks, Head: protocol.AppendCount(nil, i),
			Raw: protocol.AppendMask(nil, model.mask)}
	}
	one := func() {
		send(step, false, 0)
		for i := range masks {
			send(masks[i], i == len(masks)-1, protocol.KindStepped)
		}
	}
	for range 10 {
		one()
	}
	if n := testing.AllocsPerRun(500, one); n >= 1 {
		t.Errorf("%v allocations per step", n)
	}
	if want := 10 + 1 + 500; model.steps != want { // AllocsPerRun runs it once more
		t.Errorf("the engine made %d steps, want %d", model.steps, want)
	}
	to.Close()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
}

// still is a model whose steps read the masks and change nothing.
type still struct {
	backend.Model
	mask  backend.Mask
	top   [5]backend.TokenLogprob
	steps int
}

func (m *still) Step(_ context.Context, inputs []backend.Input, outputs []backend.Output) error {
	m.steps++
	for i := range inputs {
		inputs[i].Constraint.Fill(m.mask)
		outputs[i] = backend.Output{Token: 66, Top: m.top[:]}
	}
	return nil
}
