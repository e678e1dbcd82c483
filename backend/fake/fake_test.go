package fake_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/fake"
)

// generate feeds prompt and then every token that is sampled, until the model is done.
func generate(t *testing.T, m *fake.Model, s backend.Sequence, prompt []backend.Token) string {
	t.Helper()
	var text []backend.Token
	out := make([]backend.Output, 1)
	feed := prompt
	for range 200 {
		in := []backend.Input{{Sequence: s, Tokens: feed, Sampling: &backend.Sampling{}}}
		if err := m.Step(context.Background(), in, out); err != nil {
			t.Fatal(err)
		}
		if m.Vocab().EndsGeneration(out[0].Token) {
			return fake.Decode(m.Vocab(), text)
		}
		text = append(text, out[0].Token)
		feed = []backend.Token{out[0].Token}
	}
	t.Fatal("the reply does not end")
	return ""
}

func TestReplies(t *testing.T) {
	v := fake.Harmony()
	const open = "<|start|>assistant"
	const final = open + "<|channel|>final<|message|>"
	m := fake.New(fake.Config{Vocab: v, Script: fake.Replies(v,
		fake.Reply{Prompt: "17 + 25", After: open, Say: "<|channel|>analysis<|message|>17 plus 25 is 42.<|end|>" +
			final + "42"},
		fake.Reply{Prompt: "Hello", After: open, Say: "<|channel|>final<|message|>I do not know 🙂."},
		fake.Reply{Prompt: "17 + 25", After: open + "<|channel|>final<|message|>", Say: "forty-two"},
	)})
	for prompt, want := range map[string]string{
		"<|start|>user<|message|>What is 17 + 25?<|end|>" + open: "<|channel|>analysis<|message|>17 " +
			"plus 25 is 42.<|end|>" + final + "42",
		"<|start|>user<|message|>Hello<|end|>" + open: "<|channel|>final<|message|>I do " +
			"not know 🙂.",
		"17 + 25" + open + "<|channel|>analysis<|message|>cut short<|end|>" + final: "forty-two",
	} {
		s, err := m.NewSequence()
		if err != nil {
			t.Fatal(err)
		}
		if got := generate(t, m, s, fake.Encode(v, prompt)); got != want {
			t.Errorf("after %q\n got %q\nwant %q", prompt, got, want)
		}
		s.Close()
	}
	if m.OpenSequences() != 0 || m.UsedCells() != 0 {
		t.Errorf("%d sequences and %d cells are left", m.OpenSequences(), m.UsedCells())
	}
}

func TestFailuresChangeNothing(t *testing.T) {
	boom := errors.New("boom")
	m := fake.New(fake.Config{Record: true, Fail: func(step int, _ []backend.Input) error {
		switch step {
		case 1:
			return boom
		case 3:
			return backend.ErrBroken
		}
		return nil
	}})
	s, _ := m.NewSequence()
	in := []backend.Input{{Sequence: s, Tokens: []backend.Token{1, 2, 3}}}
	out := make([]backend.Output, 1)
	ctx := context.Background()
	for i, want := range []error{nil, boom, nil, backend.ErrBroken, backend.ErrBroken} {
		if err := m.Step(ctx, in, out); !errors.Is(err, want) {
			t.Errorf("step %d: %v, want %v", i, err, want)
		}
	}
	if n := len(s.Tokens()); n != 6 {
		t.Errorf("the sequence has %d tokens, want 6", n)
	}
	if steps := m.Steps(); len(steps) != 2 || steps[1].Inputs[0] != (fake.Fed{ID: 1, Before: 3, Tokens: 3}) {
		t.Errorf("recorded %+v", steps)
	}
}

func TestDelayEndsWithTheContext(t *testing.T) {
	m := fake.New(fake.Config{Delay: func(tokens int) time.Duration { return time.Duration(tokens) * time.Hour }})
	s, _ := m.NewSequence()
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	err := m.Step(ctx, []backend.Input{{Sequence: s, Tokens: []backend.Token{1}}}, make([]backend.Output, 1))
	if !errors.Is(err, context.DeadlineExceeded) || len(s.Tokens()) != 0 {
		t.Errorf("%v, %d tokens", err, len(s.Tokens()))
	}
}
