package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"runner/backend"
	"runner/backend/fake"
	"runner/generation"
	"runner/reasoning"
	"runner/reasoning/prompts"
)

// plainTemplate is ChatML for a model that does not mark its reasoning.
const plainTemplate = `{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{%- endif %}`

// plainModel is a model whose vocabulary has no tags either.
func plainModel() fake.Config {
	think := fake.Think()
	c := backend.VocabConfig{BOS: think.BOS(), EOS: think.EOS()}
	for i := range backend.Token(think.Len()) {
		piece := think.Piece(i)
		if think.Kind(i) == backend.UserDefined {
			piece = fmt.Sprintf("<|spare_%d|>", i)
		}
		c.Pieces, c.Kinds = append(c.Pieces, piece), append(c.Kinds, think.Kind(i))
		if think.EndsGeneration(i) {
			c.EOG = append(c.EOG, i)
		}
	}
	v, err := backend.NewVocab(c)
	if err != nil {
		panic(err)
	}
	return fake.Config{Vocab: v, ChatTemplate: plainTemplate}
}

// turnOf returns the marker after which a scripted reply of a ChatML model starts.
func turnOf(text string) string { return text + "<|im_end|>\n<|im_start|>assistant\n" }

// soon fails a test whose run does not end.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestBudgetClosesMarkers(t *testing.T) {
	for name, c := range map[string]struct {
		model       fake.Config
		after, stop string
	}{
		"plain":   {plainModel(), turnOf("q"), "<|im_end|>"},
		"think":   {thinkModel(), turnOf("q") + "<think>\n\n</think>\n\n", "<|im_end|>"},
		"harmony": {fake.Config{}, ask("q") + finalTag, "<|return|>"},
	} {
		f := start(t, c.model, Config{},
			fake.Reply{After: c.after, Say: "<<REASONING>>\n" + strings.Repeat("hm ", 400) + c.stop},
			fake.Reply{After: prompts.BudgetV1 + "\n<</REASONING>>\n", Say: "in time" + c.stop})
		req := user("q")
		req.Strategy, req.Visibility, req.Budget = reasoning.StrategyMarkers, reasoning.VisibilityFull, 20
		g := collect(soon(t), f.Runner, req)
		if g.err != nil {
			t.Fatalf("%s: %v", name, g.err)
		}
		g.want(t, reasoning.Answer, "in time")
		if g.result.Detail != reasoning.DetailReasoningBudget || g.result.Usage.Reasoning != 20 || len(g.codes) > 0 {
			t.Errorf("%s: %+v, warnings %v", name, g.result, g.codes)
		}
	}
}

func TestEndingInsideMarkersStillGivesAnAnswer(t *testing.T) {
	f := start(t, plainModel(), Config{},
		fake.Reply{After: turnOf("q"), Say: "<<REASONING>>" + thought + "<|im_end|>"},
		fake.Reply{After: thought + "\n<</REASONING>>\n", Say: "four<|im_end|>"})
	req := user("q")
	req.Strategy, req.Visibility = reasoning.StrategyMarkers, reasoning.VisibilityFull
	g := collect(soon(t), f.Runner, req)
	if g.err != nil {
		t.Fatal(g.err)
	}
	g.want(t, reasoning.Answer, "four")
	g.want(t, reasoning.Reasoning, thought)
}

func TestMarkersAfterOtherTextAreStillHidden(t *testing.T) {
	f := start(t, plainModel(), Config{},
		fake.Reply{After: turnOf("q"), Say: "Sure. <<REASONING>>" + thought + "<</REASONING>>four<|im_end|>"})
	req := user("q")
	req.Strategy = reasoning.StrategyMarkers
	g := f.must(t, req)
	if a := g.text[reasoning.Answer]; strings.Contains(a, thought) || !strings.HasSuffix(a, "four") {
		t.Errorf("answer %q", a)
	}
}

func TestSummaryPassHidesItsOwnReasoning(t *testing.T) {
	f := start(t, plainModel(), Config{},
		fake.Reply{After: turnOf("q"), Say: "<<REASONING>>" + thought + "<</REASONING>>four<|im_end|>"},
		fake.Reply{After: turnOf(prompts.SummaryConciseV1), Say: "<<REASONING>>raw<</REASONING>>Added.<|im_end|>"})
	req := user("q")
	req.Strategy, req.Visibility = reasoning.StrategyMarkers, reasoning.VisibilitySummary
	g := f.must(t, req)
	g.want(t, reasoning.Answer, "four")
	g.want(t, reasoning.Summary, "Added.")
}

func TestSummaryPassEndsWithItsMessage(t *testing.T) {
	f := start(t, fake.Config{}, Config{},
		fake.Reply{After: ask("2+2?"), Say: think(thought, "It is 4.")},
		fake.Reply{After: prompts.SummaryConciseV1 + "<|end|>" + again + finalTag,
			Say: "Added.<|end|>" + again + "<|channel|>analysis<|message|>" + strings.Repeat("hm ", 200)})
	req := user("2+2?")
	req.Visibility = reasoning.VisibilitySummary
	g := f.must(t, req)
	g.want(t, reasoning.Summary, "Added.")
	if g.result.Usage.Summary > 20 {
		t.Errorf("%d tokens for a summary of one word", g.result.Usage.Summary)
	}
}

func TestContinuedEndingKeepsTheLimit(t *testing.T) {
	f := start(t, fake.Config{}, Config{},
		fake.Reply{After: ask("2+2?"), Say: "<|channel|>analysis<|message|>" + thought + "<|return|>"},
		fake.Reply{After: thought + "<|end|>" + again + finalTag, Say: "4<|return|>"})
	for n := 1; n < 40; n++ {
		req := user("2+2?")
		req.MaxTokens, req.AnswerReserve = n, -1
		if g := f.must(t, req); g.result.Usage.Completion > n {
			t.Errorf("%d tokens, at most %d allowed", g.result.Usage.Completion, n)
		}
	}
}

func TestReserveCountsWhatClosingCosts(t *testing.T) {
	f := start(t, fake.Config{ContextSize: 500}, Config{},
		fake.Reply{After: ask("2+2?"), Say: think(strings.Repeat("hm ", 500), "late")},
		fake.Reply{After: prompts.BudgetV1 + "<|end|>" + again + finalTag, Say: "It is 4.<|return|>"})
	req := user("2+2?")
	req.AnswerReserve = 20
	g := f.must(t, req)
	g.want(t, reasoning.Answer, "It is 4.")
	if g.result.Detail != reasoning.DetailAnswerReserve || g.result.Finish != reasoning.FinishStop {
		t.Errorf("%+v", g.result)
	}
}

func TestReasoningWithoutAnAnswerIsSummarizedOrReported(t *testing.T) {
	f := start(t, fake.Config{}, Config{},
		fake.Reply{After: ask("2+2?"), Say: "<|channel|>analysis<|message|>" + thought + "<|end|><|return|>"},
		summaryReply(prompts.SummaryConciseV1, "I added them."))
	req := user("2+2?")
	req.Visibility = reasoning.VisibilitySummary
	g := f.must(t, req)
	g.want(t, reasoning.Summary, "I added them.")
	if g.result.SummarySource != "reasoning" {
		t.Errorf("%+v", g.result)
	}
	req.MaxTokens, req.AnswerReserve = 6, -1
	g = f.must(t, req)
	g.want(t, reasoning.Summary, "")
	if !slices.Contains(g.codes, "summary_unavailable") || g.result.SummarySource != "" {
		t.Errorf("warnings %v, %+v", g.codes, g.result)
	}
}

// failPass returns a hook that fails every step of a summary pass after so many tokens.
func failPass(v *backend.Vocab, said int) func(int, []backend.Input) error {
	return func(_ int, inputs []backend.Input) error {
		for i := range inputs {
			text := fake.Decode(v, inputs[i].Sequence.Tokens())
			_, after, ok := strings.Cut(text, prompts.SummaryConciseV1+"<|end|>"+again+finalTag)
			if ok && len(after) > said {
				return &backend.InputError{Index: i, Err: errors.New("no luck")}
			}
		}
		return nil
	}
}

func TestAFailedPassClosesItsSegment(t *testing.T) {
	for _, long := range []int{1, 100} { // the answer ends before or after the pass fails
		v := fake.Harmony()
		f := start(t, fake.Config{Vocab: v, Fail: failPass(v, 10)}, Config{},
			fake.Reply{After: ask("2+2?"), Say: think(thought, strings.Repeat("It is 4. ", long))},
			summaryReply(prompts.SummaryConciseV1, strings.Repeat("Added. ", 20)))
		req := user("2+2?")
		req.Visibility = reasoning.VisibilitySummary
		g := f.must(t, req)
		if g.text[reasoning.Summary] == "" || !slices.Contains(g.codes, "summary_unavailable") ||
			g.result.SummarySource != "reasoning" {
			t.Errorf("%q, warnings %v, %+v", g.text[reasoning.Summary], g.codes, g.result)
		}
	}
}

// unshared is a model whose sequences cannot be forked because there is no room.
type unshared struct{ *fake.Model }

type unsharedSequence struct{ backend.Sequence }

func (unsharedSequence) Fork() (backend.Sequence, error) { return nil, backend.ErrCacheFull }

func (m unshared) NewSequence() (backend.Sequence, error) {
	s, err := m.Model.NewSequence()
	if err != nil {
		return nil, err
	}
	return unsharedSequence{s}, nil
}

func (m unshared) Step(ctx context.Context, inputs []backend.Input, outputs []backend.Output) error {
	inner := slices.Clone(inputs)
	for i := range inner {
		inner[i].Sequence = inner[i].Sequence.(unsharedSequence).Sequence
	}
	return m.Model.Step(ctx, inner, outputs)
}

func TestPrefixIsFedAgainIfForkingFails(t *testing.T) {
	v := fake.Harmony()
	m := unshared{fake.New(fake.Config{Vocab: v, Script: fake.Replies(v,
		fake.Reply{After: ask("2+2?"), Say: think(thought, strings.Repeat("It is 4. ", 30))},
		summaryReply(prompts.SummaryConciseV1, "I added them."))})}
	r, err := New(m, Config{})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			req := user("2+2?")
			req.Visibility = reasoning.VisibilitySummary
			g := collect(t.Context(), r, req)
			if g.err != nil || g.text[reasoning.Summary] != "I added them." {
				t.Errorf("%q, warnings %v, %v", g.text[reasoning.Summary], g.codes, g.err)
			}
		})
	}
	wg.Wait()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if n := m.OpenSequences(); n != 0 {
		t.Errorf("%d sequences leaked", n)
	}
}

// slowTokenizer counts the calls of Tokenize in flight, and those during which the model is closed.
type slowTokenizer struct {
	*fake.Model
	busy, met atomic.Int32
	closed    atomic.Bool
	// begun is closed by the 20th call.
	begun chan struct{}
	calls atomic.Int32
}

func (m *slowTokenizer) Tokenize(dst []backend.Token, text string) ([]backend.Token, error) {
	m.busy.Add(1)
	defer m.busy.Add(-1)
	if m.calls.Add(1) == 20 {
		close(m.begun)
	}
	time.Sleep(time.Millisecond)
	if m.closed.Load() {
		m.met.Add(1)
	}
	return m.Model.Tokenize(dst, text)
}

func (m *slowTokenizer) Close() error {
	m.closed.Store(true)
	m.met.Add(m.busy.Load())
	return m.Model.Close()
}

func TestCloseWaitsForPromptsBeingMade(t *testing.T) {
	v := fake.Harmony()
	m := &slowTokenizer{begun: make(chan struct{}), Model: fake.New(fake.Config{Vocab: v,
		Script: fake.Replies(v, fake.Reply{After: ask("a"), Say: think("", "b")})})}
	r, err := New(m, Config{})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				if g := collect(t.Context(), r, user("a")); errors.Is(g.err, generation.ErrClosed) {
					break
				} else if g.err != nil {
					t.Error(g.err)
					break
				}
			}
			if g := collect(t.Context(), r, user("a")); !errors.Is(g.err, generation.ErrClosed) {
				t.Errorf("after close: %v", g.err)
			}
		})
	}
	<-m.begun
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if n := m.met.Load(); n != 0 {
		t.Errorf("%d calls of Tokenize met Close", n)
	}
}

func TestCloseEndsARunWithOnlyItsSummaryLeft(t *testing.T) {
	v := fake.Harmony()
	summarizing := make(chan struct{})
	var once sync.Once
	f := start(t, fake.Config{Vocab: v, Delay: func(int) time.Duration { return time.Millisecond },
		Fail: func(_ int, inputs []backend.Input) error {
			if len(inputs) == 1 && strings.Contains(fake.Decode(v, inputs[0].Sequence.Tokens()), "Added, added, ") {
				once.Do(func() { close(summarizing) })
			}
			return nil
		}}, Config{},
		fake.Reply{After: ask("2+2?"), Say: think(thought, "4")},
		summaryReply(prompts.SummaryConciseV1, strings.Repeat("Added, added, ", 100)))
	go func() {
		<-summarizing
		f.Close()
	}()
	req := user("2+2?")
	req.Visibility = reasoning.VisibilitySummary
	if g := collect(soon(t), f.Runner, req); !errors.Is(g.err, generation.ErrClosed) {
		t.Errorf("ended with %v, %+v", g.err, g.result)
	}
}

// This test needs the race detector.
func TestRequestMayBeReusedAfterItsRun(t *testing.T) {
	f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("a"), Say: think("", strings.Repeat("la ", 300))})
	req := user("a")
	req.Sampling.Bias = []backend.TokenBias{{Token: 1, Bias: 1}}
	req.Stop = []string{"never"}
	for range 20 {
		for e, err := range f.Generate(t.Context(), req, generation.Unobserved{}) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Kind == reasoning.SegmentDelta {
				break
			}
		}
		req.Sampling.Bias[0].Bias++
		req.Stop[0] += "!"
	}
}

func TestNobodyStarvesInSmallBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, fake.Config{BatchSize: 2, Sequences: 6, Fail: func(step int, _ []backend.Input) error {
			if step == 0 {
				time.Sleep(50 * time.Millisecond) // so that all have arrived
			}
			return nil
		}}, Config{}, fake.Reply{After: ask("a"), Say: think("", strings.Repeat("la ", 60))})
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				if g := collect(t.Context(), f.Runner, user("a")); g.err != nil {
					t.Error(g.err)
				}
			})
		}
		wg.Wait()
		last := map[int]int{}
		for i, s := range f.model.Steps() {
			for _, in := range s.Inputs {
				if before, ok := last[in.ID]; ok && i-before > 12 && in.Before > 0 {
					t.Fatalf("a sequence of %d tokens waited for %d steps", in.Before, i-before)
				}
				last[in.ID] = i
			}
		}
	})
}

func TestEmptyReasoningIsNotSummarized(t *testing.T) {
	f := start(t, fake.Config{}, Config{},
		fake.Reply{After: ask("2+2?"), Say: think("", "four")},
		summaryReply(prompts.SummaryConciseV1, strings.Repeat("I thought nothing. ", 5)),
		summaryReply(prompts.PosthocV1, "It follows by adding."))
	req := user("2+2?")
	req.Visibility = reasoning.VisibilitySummary
	g := f.must(t, req)
	g.want(t, reasoning.Summary, "It follows by adding.")
	if g.result.SummarySource != "posthoc" || !g.result.ReasoningUnavailable {
		t.Errorf("%+v", g.result)
	}
}
