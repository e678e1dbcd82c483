package runner

import (
	"math/rand/v2"
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
	"runner/testenv"
)

// TestMarksArePartsByPieces checks which pieces count as a part or as the end of a mark. White space is neither.
func TestMarksArePartsByPieces(t *testing.T) {
	pieces := []string{"", " ", "\n\n", "<th", " think", "ink>\n", "so", "<think>"}
	v, err := backend.NewVocab(backend.VocabConfig{Pieces: pieces, Kinds: make([]backend.TokenKind, len(pieces)),
		BOS: backend.NoToken, EOS: backend.NoToken})
	if err != nil {
		t.Fatal(err)
	}
	m := marks{vocab: v, tags: []string{"<think>", "</think>"}}
	for i, want := range [][2]bool{{false, false}, {false, false}, {false, false}, {true, false}, {true, false},
		{true, true}, {false, false}, {true, true}} {
		tok := backend.Token(i)
		if got := [2]bool{m.within(tok), m.ends(tok)}; got != want {
			t.Errorf("%q: part and end are %v, want %v", pieces[i], got, want)
		}
	}
}

// TestUnseenTokensMeetNoOthers compares random sequences. A seen token never meets an unseen one, so what two sequences
// share does not depend on which unseen tokens one of them has.
func TestUnseenTokensMeetNoOthers(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	crossed, stopped := 0, 0
	for range 20000 {
		sequence := func() ([]backend.Token, origins) {
			var tokens []backend.Token
			var of origins
			for range 1 + r.IntN(5) {
				kind := chattemplate.Origin(r.IntN(3))
				for range 1 + r.IntN(3) {
					tokens, of = append(tokens, backend.Token(r.IntN(2))), append(of, kind)
				}
			}
			return tokens, of
		}
		a, of := sequence()
		b, with := sequence()
		if r.IntN(2) == 0 {
			b, with = slices.Clone(a), slices.Clone(of)
			at := r.IntN(len(b))
			b[at] = backend.Token(r.IntN(2))
			if r.IntN(2) == 0 {
				with[at] = chattemplate.Origin(r.IntN(3))
			}
		}
		limit := r.IntN(len(a) + 1)
		n, apart := shared(a, b, of, with, true, limit)
		if back, also := shared(b, a, with, of, true, limit); back != n || also != apart {
			t.Fatalf("%d and %d tokens, depending on the order", n, back)
		}
		if n > min(limit, len(b)) || !slices.Equal(a[:n], b[:n]) {
			t.Fatalf("%d tokens of %v and %v", n, a, b)
		}
		for i := range n {
			x, y := of[i], with[i]
			if x != y && (x == chattemplate.Unseen && y == chattemplate.Seen ||
				x == chattemplate.Seen && y == chattemplate.Unseen) {
				t.Fatalf("token %d of %v and %v is shared", i, of, with)
			}
			if x == chattemplate.Unseen && y == chattemplate.Unseen {
				crossed++
			}
		}
		if m, _ := shared(a, b, of, with, false, limit); m > n || slices.Contains(of[:m], chattemplate.Unseen) {
			t.Fatalf("%d tokens of another turn are shared of %v", m, of)
		}
		// The caller does not choose the unseen tokens of one sequence. With others, it may only learn whether whole
		// stretches are equal, and that only where it has unseen tokens itself.
		others := slices.Clone(b)
		changed := false
		for i := range others {
			if with[i] == chattemplate.Unseen && (i >= len(of) || of[i] == chattemplate.Seen) {
				others[i], changed = 1-others[i], true
			}
		}
		if changed {
			if m, _ := shared(a, others, of, with, true, limit); m != n {
				t.Fatalf("%d tokens are shared, and %d with other unseen tokens:\n%v %v\n%v %v", n, m, a, of, b, with)
			}
			stopped++
		}
	}
	if crossed < 1000 || stopped < 1000 {
		t.Errorf("%d tokens were crossed and %d cases changed", crossed, stopped)
	}
}

// hiding is a model whose turn hides a reasoning, and how it writes one with a call.
type hiding struct {
	name   string
	model  func() fake.Config
	asked  func(text string) string
	think  func(reasoning, rest string) string
	call   string
	result string
	end    string
}

var hidingModels = []hiding{
	{"harmony", func() fake.Config { return fake.Config{} }, ask,
		func(r, rest string) string {
			return "<|channel|>analysis<|message|>" + r + "<|end|>" + again + rest
		},
		`<|channel|>commentary to=functions.add <|constrain|>json<|message|>{"a":2}<|call|>`,
		"tool says 4<|end|>" + again, "<|return|>"},
	{"tags", thinkWithTools, turnOf,
		func(r, rest string) string { return "<think>\n" + r + "\n</think>\n\n" + rest },
		"<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 2}}\n</tool_call><|im_end|>",
		turnOf("tool says 4"), "<|im_end|>"},
}

// thinkWithTools is a model with tags whose template shows tools, calls and the reasoning before them.
func thinkWithTools() fake.Config {
	cfg := thinkModel()
	cfg.ChatTemplate = `{% if tools %}<|im_start|>system
{{ tools|tojson }}<|im_end|>
{% endif %}{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}` +
		`{% if m.reasoning_content %}{{ '<think>\n' + m.reasoning_content + '\n</think>\n\n' }}{% endif %}` +
		`{{ m.content }}{% for c in m.tool_calls %}{{ '<tool_call>\n{"name": "' + c.function.name + '", "arguments": ' }}` +
		`{{ c.function.arguments|tojson }}{{ '}\n</tool_call>' }}{% endfor %}{{ '<|im_end|>\n' }}{% endfor %}` +
		`{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`
	return cfg
}

// secret is long, so that many words of it can be guessed.
const secret = "the pear lies below the old stone by the third gate and nobody but the owl knows it there"

// callBack returns a request that sends the result of a call.
func callBack(req generation.Request, id, reasoning string) generation.Request {
	req.Messages = append(slices.Clone(req.Messages),
		chattemplate.Message{Role: chattemplate.Assistant, Reasoning: reasoning,
			ToolCalls: []chattemplate.ToolCall{{ID: id, Name: "add", Arguments: `{"a":2}`}}},
		chattemplate.Message{Role: chattemplate.ToolRole, ToolCallID: id, ToolName: "add", Content: "tool says 4"})
	return req
}

// view is what a caller may see and asks for.
type view struct {
	name       string
	may, asked reasoning.Visibility
}

// views are what callers may see and ask for.
var views = []view{
	{"none of none", reasoning.VisibilityNone, reasoning.VisibilityNone},
	{"none of summary", reasoning.VisibilitySummary, reasoning.VisibilityNone},
	{"summary of summary", reasoning.VisibilitySummary, reasoning.VisibilitySummary},
	{"none of full", reasoning.VisibilityFull, reasoning.VisibilityNone},
	{"summary of full", reasoning.VisibilityFull, reasoning.VisibilitySummary},
	{"full of full", reasoning.VisibilityFull, reasoning.VisibilityFull},
}

// shows is what a caller can read of a run: the cached tokens, the tokens that the engine was fed, which is the time to
// the first token, how many guesses were fed and right, and what the metrics count.
type shows struct {
	cached, fed       int
	drafted, accepted int64
	// tokens is what the metrics count as fed.
	tokens int64
}

// watched runs a request and returns what it shows.
func (f fixture) watched(t *testing.T, req generation.Request) (got, shows) {
	t.Helper()
	before, stats := len(f.model.Steps()), f.Stats()
	g := f.must(t, req)
	now := f.Stats()
	s := shows{cached: g.result.Usage.Cached, drafted: now.Drafted - stats.Drafted,
		accepted: now.Accepted - stats.Accepted}
	for _, step := range f.model.Steps()[before:] {
		for _, in := range step.Inputs {
			s.fed += in.Tokens
		}
	}
	s.tokens = now.Tokens - stats.Tokens - int64(s.fed)
	return g, s
}

// guesses are texts of which more and more is secret.
func secretGuesses() (list []string) {
	words := strings.Fields(secret)
	for _, n := range []int{0, 1, 2, len(words) / 2, len(words) - 1, len(words)} {
		wrong := strings.Repeat("zz ", len(words)-n)
		list = append(list, strings.TrimSpace(strings.Join(append(words[:n:n], wrong), " ")))
	}
	return list
}

// TestCallersLearnNothingOfHiddenText is a table: where the text stands with which a caller's text is compared, what
// the caller may see, and what it can read. Below visibility full nothing that it reads may depend on whether it
// guesses right. A caller that may see the text keeps the speed.
func TestCallersLearnNothingOfHiddenText(t *testing.T) {
	testenv.SkipRaced(t)
	for _, m := range hidingModels {
		for _, v := range views {
			open := v.may == reasoning.VisibilityFull
			replies := []fake.Reply{
				{After: m.asked("2+2?"), Say: m.think(secret, m.call)},
				{After: m.result, Say: m.think("so", answering(m, "It is 4."))},
			}
			request := func() generation.Request {
				req := user("2+2?")
				req.Tools, req.MaySee, req.Visibility, req.Sampling.Temperature = addTool, v.may, v.asked, 0
				return req
			}
			t.Run(m.name+"/"+v.name+"/a generated text", func(t *testing.T) {
				var seen []shows
				for _, guess := range secretGuesses() {
					f := start(t, m.model(), Config{Drafts: DraftsOff}, replies...)
					g := f.must(t, request())
					_, s := f.watched(t, callBack(request(), g.calls[0].ID, guess))
					if open { // else the guess is left out of the prompt
						s.fed += len(fake.Encode(f.model.Vocab(), secret)) - len(fake.Encode(f.model.Vocab(), guess))
					}
					seen = append(seen, s)
				}
				compareShown(t, seen, open)
			})
			t.Run(m.name+"/"+v.name+"/a restored text", func(t *testing.T) {
				var seen []shows
				for _, guess := range secretGuesses() {
					f := start(t, m.model(), Config{Drafts: DraftsOff, CallMemory: NewCallMemory(4, 0)}, replies...)
					g := f.must(t, request())
					f.evict(t) // what was generated is cached no longer
					f.must(t, callBack(request(), g.calls[0].ID, guess))
					_, s := f.watched(t, callBack(request(), g.calls[0].ID, ""))
					seen = append(seen, s)
				}
				compareShown(t, seen, false) // what is remembered wins over the caller's text
			})
			t.Run(m.name+"/"+v.name+"/an honest return", func(t *testing.T) {
				f := start(t, m.model(), Config{Drafts: DraftsOff, CallMemory: NewCallMemory(4, 0)}, replies...)
				g := f.must(t, request())
				_, s := f.watched(t, callBack(request(), g.calls[0].ID, ""))
				if least := g.result.Usage.Prompt + g.result.Usage.Reasoning; s.cached < least {
					t.Errorf("%d tokens are cached; the prompt and its reasoning have %d", s.cached, least)
				}
			})
			t.Run(m.name+"/"+v.name+"/texts to embed and to score", func(t *testing.T) {
				f := start(t, m.model(), Config{Drafts: DraftsOff}, replies...)
				f.must(t, request())
				for _, guess := range secretGuesses() {
					tokens := fake.Encode(f.model.Vocab(), m.asked("2+2?")+m.think(guess, m.call))
					for what, ask := range map[string]func() error{
						"embedding": func() error {
							_, err := f.Embed(t.Context(), "", tokens)
							return err
						},
						"scoring": func() error {
							g := collect(t.Context(), f.Runner, generation.Request{PromptTokens: tokens, PromptLogprobs: true,
								PromptOnly: true, MaySee: v.may})
							if g.result.Usage.Cached != 0 {
								t.Errorf("%d tokens of a text to score are cached", g.result.Usage.Cached)
							}
							return g.err
						},
					} {
						before, at := f.Stats(), len(f.model.Steps())
						if err := ask(); err != nil {
							t.Fatal(err)
						}
						fed := 0
						for _, step := range f.model.Steps()[at:] {
							for _, in := range step.Inputs {
								fed += in.Tokens
							}
						}
						if now := f.Stats(); fed != len(tokens) || now.Tokens-before.Tokens != int64(fed) {
							t.Errorf("%s: %d of %d tokens are fed, %d are counted", what, fed, len(tokens), now.Tokens-before.Tokens)
						}
					}
				}
			})
			t.Run(m.name+"/"+v.name+"/guesses", func(t *testing.T) {
				var seen []shows
				for _, guess := range secretGuesses() {
					after := m.asked("say it: " + guess)
					f := start(t, m.model(), Config{Drafts: DraftsOn}, fake.Reply{After: after,
						Say: m.think(secret, answering(m, "It is 4. It is 4. It is 4. It is 4."))})
					req := request()
					req.Messages[0].Content = "say it: " + guess
					_, s := f.watched(t, req)
					s.fed, s.cached = 0, 0 // the prompts differ
					seen = append(seen, s)
				}
				if compareShown(t, seen, open); seen[0].accepted == 0 {
					t.Error("nothing is guessed in the answer, which repeats itself")
				}
			})
		}
	}
}

// between is a conversation in which the caller wrote a guess where a model between markers had written its reasoning.
func between(v view, guess string) generation.Request {
	req := marking(v)
	req.Messages = append(req.Messages, chattemplate.Message{Role: chattemplate.Assistant,
		Content: "<<REASONING>>\n" + guess + "\n<</REASONING>>\nIt is 4."},
		chattemplate.Message{Role: chattemplate.User, Content: "go on"})
	return req
}

// marking asks a model to reason between markers.
func marking(v view) generation.Request {
	req := user("2+2?")
	req.Strategy, req.MaySee, req.Visibility = reasoning.StrategyMarkers, v.may, v.asked
	return req
}

// marked is a model that reasons between markers.
func marked() (fake.Config, []fake.Reply) {
	const says = "<<REASONING>>\n" + secret + "\n<</REASONING>>\nIt is 4.<|im_end|>"
	return plainModel(), []fake.Reply{
		{After: turnOf("2+2?\n\n" + prompts.MarkersV1), Say: says},
		{After: turnOf("2+2?"), Say: says},
		{After: turnOf("go on"), Say: "<<REASONING>>\nso\n<</REASONING>>\nYes.<|im_end|>"},
	}
}

// TestTextInTheAnswerMeetsNoHiddenText: with strategy markers the reasoning stands in the text of the answer, which a
// caller sends back.
func TestTextInTheAnswerMeetsNoHiddenText(t *testing.T) {
	for _, v := range views {
		var seen []shows
		for _, guess := range secretGuesses() {
			cfg, replies := marked()
			f := start(t, cfg, Config{Drafts: DraftsOff}, replies...)
			if g := f.must(t, marking(v)); g.text[reasoning.Answer] != "It is 4." {
				t.Fatalf("%+v", g)
			}
			_, s := f.watched(t, between(v, guess))
			s.fed += len(fake.Encode(f.model.Vocab(), secret)) - len(fake.Encode(f.model.Vocab(), guess))
			seen = append(seen, s)
		}
		t.Run(v.name, func(t *testing.T) { compareShown(t, seen, v.may == reasoning.VisibilityFull) })
	}
}

// TestHiddenTextsOfTurnsAreNotCompared: two calls have reasoning of which the caller sees none. What is cached must not
// say whether it is the same.
func TestHiddenTextsOfTurnsAreNotCompared(t *testing.T) {
	m := hidingModels[0]
	for _, other := range []string{secret, "the pear lies elsewhere", secret[:30]} {
		replies := []fake.Reply{
			{After: m.asked("2+2?"), Say: m.think(secret, m.call)},
			{After: m.result, Say: m.think("so", answering(m, "It is 4."))},
		}
		f := start(t, m.model(), Config{Drafts: DraftsOff, CallMemory: NewCallMemory(4, 0)}, replies...)
		req := user("2+2?")
		req.Tools = addTool
		first := f.must(t, req).calls[0].ID
		second := f.must(t, req).calls[0].ID
		back := callBack(req, second, "")
		f.cfg.CallMemory.keep(callKey{"", second}, f.momentAt(&back, 1), other)
		f.must(t, callBack(req, first, ""))
		f.evictAll(t, 1)
		_, s := f.watched(t, back)
		if least := f.must(t, req).result.Usage.Prompt; s.cached > least+8 {
			t.Errorf("%q: %d tokens are cached, the prompt before the call has %d", other, s.cached, least)
		}
	}
}

// TestPlainReasoningOfCappedCallersIsLeftOut: a prompt with a guess must never be equal to one with hidden reasoning.
func TestPlainReasoningOfCappedCallersIsLeftOut(t *testing.T) {
	for _, v := range views {
		m := hidingModels[0]
		f := start(t, m.model(), Config{}, fake.Reply{After: m.asked("2+2?"), Say: m.think(secret, m.call)},
			fake.Reply{After: m.result, Say: m.think("so", answering(m, "It is 4."))})
		req := user("2+2?")
		req.Tools, req.MaySee, req.Visibility = addTool, v.may, v.asked
		f.must(t, req)
		back := callBack(req, "call_other", secret)
		g := f.must(t, back)
		p, err := f.Prompt(t.Context(), "", back)
		open := v.may == reasoning.VisibilityFull
		if err != nil || strings.Contains(p.Text, secret) != open ||
			slices.Contains(g.codes, generation.CodePlainReasoning) == open {
			t.Errorf("%s: %v, warnings %v, prompt %q", v.name, err, g.codes, p.Text)
		}
		if back.Messages[1].Reasoning != secret {
			t.Error("the caller's message was changed")
		}
	}
}

// answering returns an answer as a model writes it.
func answering(m hiding, text string) string {
	if m.name == "harmony" {
		return finalTag + text + m.end
	}
	return text + m.end
}

// compareShown fails a test if what was shown depends on the guess although the text is hidden, or does not although it
// is open.
func compareShown(t *testing.T, seen []shows, open bool) {
	t.Helper()
	same := true
	for _, s := range seen[1:] {
		same = same && s == seen[0]
	}
	if same == open {
		t.Errorf("shown for texts of which more and more is right: %+v", seen)
	}
}

// evictAll closes idle sequences until so many are left.
func (f fixture) evictAll(t *testing.T, left int) {
	t.Helper()
	if err := f.sched.do(t.Context(), func() {
		for len(f.sched.cache.idle) > left {
			f.sched.cache.evict()
		}
	}); err != nil {
		t.Fatal(err)
	}
}

// evict closes all idle sequences.
func (f fixture) evict(t *testing.T) {
	t.Helper()
	if err := f.sched.do(t.Context(), func() {
		for f.sched.cache.evict() {
		}
	}); err != nil {
		t.Fatal(err)
	}
}

// TestCachedTokensAreNotComputedAgain checks that a run that had to give its sequence back does not count what it then
// computed again.
func TestCachedTokensAreNotComputedAgain(t *testing.T) {
	text := strings.Repeat("a question that is long ", 8)
	f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask(text), Say: think("x", "y")})
	f.must(t, user(text))
	again := f.must(t, user(text)).result.Usage.Cached
	if again == 0 {
		t.Fatal("nothing is cached")
	}
	turn := f.newJob(t.Context(), user(text), generation.Unobserved{}).newTurn(&generation.Turn{Request: user(text)})
	if err := turn.prepare(); err != nil {
		t.Fatal(err)
	}
	turn.started(turn.lane, again)
	if turn.started(turn.lane, 3); turn.result.Usage.Cached != 3 {
		t.Errorf("%d tokens count as cached of 3", turn.result.Usage.Cached)
	}
}

// TestEarlyReasoningMeetsNoCaller: at an engine at an address the beginning of a turn may be reasoning that no mark
// opens. A caller's text in its place never meets it, unless it turned out to be the answer.
func TestEarlyReasoningMeetsNoCaller(t *testing.T) {
	for _, c := range []struct {
		name, say string
		most      int
		hidden    bool
	}{
		{"reasoning", secret + ".\n</think>\n\nHi.", 0, true},
		{"cut off", secret + ".\n</think>\n\nHi.", 40, true},
		{"an answer", secret + ".", 0, false},
	} {
		var seen []shows
		for _, guess := range secretGuesses() {
			cfg := thinkModel()
			cfg.Pace = func(int, int) time.Duration { return 0 }
			f := start(t, cfg, Config{Drafts: DraftsOff}, fake.Reply{After: turnOf("q"), Say: c.say + "<|im_end|>"},
				fake.Reply{After: turnOf("and now?"), Say: "Bye.<|im_end|>"})
			req := user("q")
			req.MaxTokens = c.most
			if g := f.must(t, req); strings.Contains(g.text[reasoning.Answer], "pear") == c.hidden {
				t.Fatalf("%s: the answer is %q", c.name, g.text[reasoning.Answer])
			}
			req = user("q")
			req.Messages = append(req.Messages, chattemplate.Message{Role: chattemplate.Assistant, Content: guess},
				chattemplate.Message{Role: chattemplate.User, Content: "and now?"})
			_, s := f.watched(t, req)
			s.fed = 0
			seen = append(seen, s)
		}
		t.Run(c.name, func(t *testing.T) { compareShown(t, seen, !c.hidden) })
	}
}

// TestCallersLearnNothingOfReasoningInArguments has a model reason between markers in a call's arguments, and a caller
// send the call back with guesses of the hidden text in it.
func TestCallersLearnNothingOfReasoningInArguments(t *testing.T) {
	tools := []chattemplate.Tool{{Name: "add", Parameters: []byte(
		`{"type":"object","properties":{"a":{"type":"string"}}}`)}}
	arguments := func(text string) string { return `{"a":"<<REASONING>>` + text + `<</REASONING>>x"}` }
	for _, v := range views {
		open := v.may == reasoning.VisibilityFull
		var seen []shows
		for _, guess := range secretGuesses() {
			f := start(t, fake.Config{}, Config{Drafts: DraftsOff}, fake.Reply{After: ask("2+2?"),
				Say: addCall + arguments(secret) + "<|call|>"},
				fake.Reply{After: "tool says 4<|end|>" + again, Say: finalTag + "four<|return|>"})
			req := user("2+2?")
			req.Tools, req.MaySee, req.Visibility, req.Strategy = tools, v.may, v.asked, reasoning.StrategyMarkers
			g := f.must(t, req)
			g.want(t, reasoning.ToolCall, `{"a":"x"}`)
			next := callBack(req, g.calls[0].ID, "")
			next.Messages[1].ToolCalls[0].Arguments = arguments(guess)
			_, s := f.watched(t, next)
			s.fed += len(fake.Encode(f.model.Vocab(), secret)) - len(fake.Encode(f.model.Vocab(), guess))
			seen = append(seen, s)
		}
		compareShown(t, seen, open)
	}
}
