package runner

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/fake"
	"runner/chattemplate"
	"runner/generation"
	"runner/reasoning"
	"runner/reasoning/prompts"
)

// notebook is an observer that traces, and the Recorder of one run.
type notebook struct {
	generation.Unobserved
	run *generation.TracedRun
	// refuse is Trace's error, and lose is End's.
	refuse, lose error
	// wait, when not nil, blocks every event until it is closed.
	wait    chan struct{}
	events  []reasoning.Event
	flushes int
	ends    []error
}

func (n *notebook) Trace(_ context.Context, run *generation.TracedRun) (generation.Recorder, error) {
	n.run = run
	return n, n.refuse
}

func (n *notebook) Record(e reasoning.Event) {
	if n.wait != nil {
		<-n.wait
	}
	n.events = append(n.events, e)
}

func (n *notebook) Flush() { n.flushes++ }

func (n *notebook) End(why error) (string, error) {
	n.ends = append(n.ends, why)
	return "the id", n.lose
}

func (n *notebook) text(s reasoning.Segment) (text string) {
	for _, e := range n.events {
		if e.Kind == reasoning.SegmentDelta && e.Segment == s {
			text += e.Text
		}
	}
	return text
}

func TestTraceHoldsWhatIsHidden(t *testing.T) {
	f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("q"), Say: think(thought, "four")},
		summaryReply(prompts.SummaryConciseV1, "I added."))
	for _, v := range []reasoning.Visibility{reasoning.VisibilityNone, reasoning.VisibilitySummary,
		reasoning.VisibilityFull} {
		n := &notebook{}
		req := user("q")
		req.Visibility = v
		g := f.must(t, req, n)
		if g.result.Trace != "the id" || len(g.codes) > 0 {
			t.Errorf("%v: trace %q with warnings %q", v, g.result.Trace, g.codes)
		}
		if got := n.text(reasoning.Reasoning); got != thought {
			t.Errorf("%v: the reasoning is %q", v, got)
		}
		if got := n.text(reasoning.Answer); got != "four" {
			t.Errorf("%v: the answer is %q", v, got)
		}
		if (g.text[reasoning.Reasoning] != "") != (v == reasoning.VisibilityFull) {
			t.Errorf("%v: the reader saw %q", v, g.text[reasoning.Reasoning])
		}
		first, last := n.events[0], n.events[len(n.events)-1]
		if first.Kind != reasoning.Started || last.Kind != reasoning.Done || last.Result.Usage != g.result.Usage ||
			last.Result.Trace != "" {
			t.Errorf("%v: the trace goes from %+v to %+v", v, first, last.Result)
		}
		if len(n.ends) != 1 || n.ends[0] != nil {
			t.Errorf("%v: it ended with %v", v, n.ends)
		}
		if n.run.Request.Seed == nil || *n.run.Request.Seed != g.info.Seed || n.run.Model != g.info.Model ||
			n.run.Digest() != f.Info().Digest || n.run.Key != f.Info().Key {
			t.Errorf("%v: it began with %+v", v, n.run)
		}
	}
}

// A trace contains the conversation as the model got it.
func TestTraceHasInstructions(t *testing.T) {
	f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("q"), Say: think(thought, "four")})
	n := &notebook{}
	req := user("q")
	req.Rationale, req.Tools = true, addTool
	f.must(t, req, n)
	messages := n.run.Request.Messages
	if len(messages) != 2 || messages[0].Role != chattemplate.System ||
		!strings.Contains(messages[0].Content, prompts.RationaleV1) {
		t.Errorf("%+v", messages)
	}
}

func TestRunsGoOnWithoutTheirTrace(t *testing.T) {
	f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("q"), Say: think(thought, "four")})
	for name, n := range map[string]*notebook{"refused": {refuse: errors.New("the disk is full")},
		"lost": {lose: errors.New("the disk is full")}} {
		g := f.must(t, user("q"), n)
		g.want(t, reasoning.Answer, "four")
		if g.result.Trace != "" || !slices.Equal(g.codes, []string{generation.CodeNotTraced}) {
			t.Errorf("%s: trace %q, warnings %q", name, g.result.Trace, g.codes)
		}
		if k := len(g.order); g.order[k-2] != reasoning.Warning || g.order[k-1] != reasoning.Done {
			t.Errorf("%s: %v", name, g.order)
		}
		if refused := n.refuse != nil; refused != (len(n.ends) == 0) {
			t.Errorf("%s: it ended with %v", name, n.ends)
		}
	}
}

// However a run ends, its trace has ended before Generate returns.
func TestTraceEndsWithItsRun(t *testing.T) {
	broken := errors.New("it broke")
	for _, c := range []struct {
		name string
		cfg  fake.Config
		run  func(f fixture, req generation.Request, n *notebook)
		why  error
	}{
		{"the reader leaves", fake.Config{}, func(f fixture, req generation.Request, n *notebook) {
			for range f.Generate(t.Context(), req, n) {
				break
			}
		}, context.Canceled},
		{"the context ends", fake.Config{}, func(f fixture, req generation.Request, n *notebook) {
			ctx, cancel := context.WithCancel(t.Context())
			for e := range f.Generate(ctx, req, n) {
				if e.Kind == reasoning.SegmentDelta {
					cancel()
				}
			}
			cancel()
		}, context.Canceled},
		{"the context has ended", fake.Config{}, func(f fixture, req generation.Request, n *notebook) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			collect(ctx, f.Runner, req, n)
		}, context.Canceled},
		{"the engine fails", fake.Config{Fail: failAfter(3, broken)}, func(f fixture, req generation.Request, n *notebook) {
			collect(t.Context(), f.Runner, req, n)
		}, broken},
		{"the runner closes", fake.Config{}, func(f fixture, req generation.Request, n *notebook) {
			closed := make(chan error, 1)
			for e := range f.Generate(t.Context(), req, n) {
				if e.Kind == reasoning.Started {
					go func() { closed <- f.Close() }()
				}
			}
			if err := <-closed; err != nil {
				t.Error(err)
			}
		}, generation.ErrClosed},
	} {
		c.cfg.Vocab, c.cfg.ContextSize = fake.Harmony(), 16384
		c.cfg.Script = endless(c.cfg.Vocab, "analysis")
		n := &notebook{}
		req := user("go on")
		req.Visibility = reasoning.VisibilityFull
		c.run(start(t, c.cfg, Config{}), req, n)
		if len(n.ends) != 1 || !errors.Is(n.ends[0], c.why) {
			t.Errorf("%s: it ended with %v", c.name, n.ends)
		}
	}
}

// A recorder that waits delays only the end of its own run.
func TestSlowRecorderDelaysNobody(t *testing.T) {
	f := start(t, fake.Config{Sequences: 4}, Config{}, fake.Reply{After: ask("q"), Say: think(thought, "four")})
	slow := &notebook{wait: make(chan struct{})}
	answered, done := make(chan struct{}), make(chan string)
	go func() {
		text := ""
		for e, err := range f.Generate(context.WithoutCancel(t.Context()), user("q"), slow) {
			switch {
			case err != nil:
				text = err.Error()
			case e.Kind == reasoning.SegmentEnd && e.Segment == reasoning.Answer:
				close(answered)
			case e.Kind == reasoning.Done:
				text = e.Result.Trace
			}
		}
		done <- text
	}()
	<-answered // although no event is recorded yet
	f.must(t, user("q"))
	select {
	case <-done:
		t.Error("the run was over before its trace")
	case <-time.After(20 * time.Millisecond):
	}
	close(slow.wait)
	if id := <-done; id != "the id" || slow.text(reasoning.Reasoning) != thought {
		t.Errorf("trace %q with %q", id, slow.text(reasoning.Reasoning))
	}
}

// failAfter returns a hook that fails every step after the nth.
func failAfter(n int, err error) func(int, []backend.Input) error {
	return func(step int, _ []backend.Input) error {
		if step > n {
			return err
		}
		return nil
	}
}
