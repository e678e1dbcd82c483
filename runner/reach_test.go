package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"runner/backend"
	"runner/backend/backendtest"
	"runner/backend/fake"
	"runner/chattemplate"
	"runner/chattemplate/markup"
	"runner/generation"
	"runner/generation/delegation"
	"runner/grammar"
	"runner/reasoning"
	"runner/reasoning/prompts"
	"runner/testenv"
)

// asked is one token that the engine was asked for: the text before it and its sampling.
type asked struct {
	before   string
	sampling backend.Sampling
}

// listener is a model that records what it is asked for.
type listener struct {
	*fake.Model
	asked []asked
}

func (p *listener) Step(ctx context.Context, inputs []backend.Input, outputs []backend.Output) error {
	for i := range inputs {
		if in := &inputs[i]; in.Sampling != nil {
			s := *in.Sampling
			s.Seen, s.Bias = slices.Clone(s.Seen), slices.Clone(s.Bias)
			tokens := append(slices.Clone(in.Sequence.Tokens()), in.Tokens...)
			p.asked = append(p.asked, asked{fake.Decode(p.Vocab(), tokens), s})
		}
	}
	return p.Model.Step(ctx, inputs, outputs)
}

// piece is a section of a scripted reply, and the part that it belongs to.
type piece struct {
	part part
	text string
}

// scripted is a reply, in pieces, after a marker.
type scripted struct {
	prompt, after string
	pieces        []piece
}

func (s *scripted) text() string {
	var b strings.Builder
	for _, p := range s.pieces {
		b.WriteString(p.text)
	}
	return b.String()
}

// pieceAt returns the piece of the token that follows n bytes of the reply.
func (s *scripted) pieceAt(n int) *piece {
	for i := range s.pieces {
		if p := &s.pieces[i]; n < len(p.text) {
			return p
		}
		n -= len(s.pieces[i].text)
	}
	return nil
}

// pieceOf returns the piece of the token that follows a text, from the reply that began last, or nil.
func pieceOf(replies []scripted, before string) (found *piece) {
	last := -1
	for i := range replies {
		r := &replies[i]
		at := strings.LastIndex(before, r.after)
		if at < 0 || !strings.Contains(before[:at], r.prompt) {
			continue
		}
		if at += len(r.after); at > last && strings.HasPrefix(r.text(), before[at:]) {
			if p := r.pieceAt(len(before) - at); p != nil {
				last, found = at, p
			}
		}
	}
	return found
}

// situation is a run whose parts are known.
type situation struct {
	name    string
	model   func() fake.Config
	change  func(*generation.Request)
	replies []scripted
	// parts are the parts that the run must have.
	parts []part
}

// says reports whether a part's word is in the replies.
func (of *situation) says(p part) bool {
	for _, r := range of.replies {
		for _, piece := range r.pieces {
			if piece.part == p && heard[p] != "" && strings.Contains(piece.text, heard[p]) {
				return true
			}
		}
	}
	return false
}

const analysisTag, toolTag = "<|channel|>analysis<|message|>",
	"<|channel|>commentary to=functions.add <|constrain|>json<|message|>"

// heard has a word for each part, which is in that part and in no other.
var heard = [numParts]string{
	partReasoning: " because", partPreamble: " what", partCall: "12", partAnswer: " answer", partSummary: " minus",
}

func thinkTurn(v string) string { return v + "<|im_end|>\n<|im_start|>assistant\n" }

func harmonyModel() fake.Config { return fake.Config{ContextSize: 4096} }

// opensThinking is a template whose prompts end inside the reasoning.
func opensThinking() fake.Config {
	c := thinkModel()
	const skips = `{%- if enable_thinking is`
	opens := `{%- if enable_thinking is not defined or enable_thinking %}{{ '<think>\n' }}{% endif %}`
	c.ChatTemplate = strings.ReplaceAll(fake.ThinkTemplate, skips, opens+skips)
	return c
}

// repeated repeats a part's word, for fields whose effect does not show on a single word.
func repeated(p part) string { return strings.Repeat(heard[p], 3) }

var summaryScript = scripted{
	after:  prompts.SummaryConciseV1 + "<|end|>" + again + finalTag,
	pieces: []piece{{partSummary, "It was" + repeated(partSummary) + " END so<|return|>"}},
}

// situations returns runs in which every part occurs, for every way of marking reasoning.
func situations() []situation {
	thinking := "so" + repeated(partReasoning) + " END 12 then"
	answer := piece{partAnswer, "the" + repeated(partAnswer) + "<|constrain|> END so<|return|>"}
	thinkAnswer := piece{partAnswer, "the" + repeated(partAnswer) + " so<|im_end|>"}
	style := markup.CallStyles()[0]
	return []situation{
		{"harmony with a call", harmonyModel, func(q *generation.Request) { q.Tools = addTool },
			[]scripted{{after: ask("q"), pieces: []piece{
				{partHeader, analysisTag}, {partReasoning, thinking + "<|end|>"},
				{partHeader, again + "<|channel|>commentary<|message|>"},
				{partPreamble, "see" + repeated(partPreamble) + " END<|end|>"}, {partHeader, again + toolTag},
				{partCall, `{"a": 121212}<|call|>`},
			}}, summaryScript}, []part{partHeader, partReasoning, partPreamble, partCall}},
		{"harmony with an answer", harmonyModel, func(*generation.Request) {}, []scripted{{after: ask("q"), pieces: []piece{
			{partHeader, analysisTag}, {partReasoning, thinking + "<|end|>"}, {partHeader, again + finalTag}, answer,
		}}, summaryScript}, []part{partHeader, partReasoning, partAnswer}},
		{"harmony without reasoning", harmonyModel, func(q *generation.Request) { q.Effort = reasoning.EffortNone },
			[]scripted{
				{after: ask("q") + finalTag, pieces: []piece{answer}},
			}, []part{partAnswer}},
		{"tags", freeModel, func(*generation.Request) {}, []scripted{{after: thinkTurn("q"), pieces: []piece{
			{partHeader, "<think>"}, {partReasoning, "\n" + thinking + "</think>"}, thinkAnswer,
		}}}, []part{partHeader, partReasoning, partAnswer}},
		{"tags that the model does not open", freeModel, func(*generation.Request) {},
			[]scripted{{after: thinkTurn("q"), pieces: []piece{
				{partHeader, "the"}, {partAnswer, repeated(partAnswer) + " so<|im_end|>"},
			}}}, []part{partHeader, partAnswer}},
		{"tags that the prompt opens", opensThinking, func(*generation.Request) {},
			[]scripted{{after: thinkTurn("q") + "<think>\n", pieces: []piece{
				{partReasoning, thinking + "</think>"}, thinkAnswer,
			}}}, []part{partReasoning, partAnswer}},
		{"tags that a variable of the template skips", thinkModel, func(q *generation.Request) {
			q.TemplateArgs = map[string]any{"enable_thinking": false}
		}, []scripted{{after: thinkTurn("q") + "<think>\n\n</think>\n\n", pieces: []piece{thinkAnswer}}},
			[]part{partAnswer}},
		{"markers", harmonyModel, func(q *generation.Request) { q.Strategy = reasoning.StrategyMarkers },
			[]scripted{{after: ask("q") + finalTag, pieces: []piece{
				{partHeader, "<<REASONING>>"}, {partReasoning, thinking + "<</REASONING>>"}, answer,
			}}}, []part{partHeader, partReasoning, partAnswer}},
		{"json", harmonyModel, func(q *generation.Request) {
			q.Strategy, q.Effort = reasoning.StrategyJSON,
				reasoning.EffortLow
		}, []scripted{{after: ask("q") + finalTag, pieces: []piece{
			{partHeader, `{"reasoning": "`}, {partReasoning, thinking + `"`}, {partHeader, `, "answer": "`},
			{partAnswer, "the" + repeated(partAnswer) + ` so"`},
		}}}, []part{partReasoning, partAnswer}},
		{"tool", harmonyModel, func(q *generation.Request) { q.Strategy = reasoning.StrategyTool }, []scripted{
			{after: ask("q"), pieces: []piece{
				{partHeader, "<|channel|>commentary to=functions.report_reasoning <|constrain|>json<|message|>"},
				{partReasoning, `{"reasoning": "` + thinking + `"}<|call|>`},
			}},
			{prompt: "report_reasoning", after: "{}<|end|>" + again,
				pieces: []piece{{partHeader, finalTag}, answer}}, summaryScript,
		}, []part{partHeader, partReasoning, partAnswer}},
		{"an unfinished reply of the assistant's", harmonyModel, func(q *generation.Request) {
			q.Messages = append(q.Messages, chattemplate.Message{Role: chattemplate.Assistant, Content: "Let me think"})
		}, []scripted{{after: "Let me think<|end|>" + again, pieces: []piece{
			{partHeader, analysisTag}, {partReasoning, thinking + "<|end|>"}, {partHeader, again + finalTag}, answer,
		}}}, []part{partHeader, partReasoning, partAnswer}},
		{"a raw prompt", harmonyModel, func(q *generation.Request) {
			q.Messages, q.Prompt, q.Visibility = nil, "Once", reasoning.VisibilityNone
		}, []scripted{{after: "Once", pieces: []piece{{partAnswer,
			" so" + repeated(partAnswer) + " then<|return|>"}}}}, []part{partAnswer}},
		{"calls in text", func() fake.Config {
			c := freeModel()
			c.ChatTemplate = styleTemplate(style, true)
			return c
		}, func(q *generation.Request) { q.Tools = addTool }, []scripted{{after: thinkTurn("q"), pieces: []piece{
			{partHeader, "<think>"}, {partReasoning, thinking + "</think>"}, {partAnswer, "\n<tool_call>"},
			{partHeader, "\n{\"name\": \"add\", \"arguments\": "}, {partCall, `{"a": 121212}`},
			{partHeader, "}\n</tool_call>"},
		}}}, []part{partHeader, partReasoning, partCall}},
		{"a specialist", harmonyModel, func(q *generation.Request) {
			q.Delegation.Specialist = &delegation.Delegate{Prompt: "You add."}
		}, []scripted{
			{prompt: asSpecialist, after: ask("q"), pieces: []piece{
				{partHeader, analysisTag}, {partReasoning, thinking + "<|end|>"}, {partHeader, again + finalTag},
				{partReasoning, thinking + "<|return|>"},
			}},
			{after: "\n\nq<|end|>" + again, pieces: []piece{{partHeader, finalTag}, answer}},
		}, []part{partHeader, partReasoning, partAnswer}},
		{"a specialist that is shown", harmonyModel, func(q *generation.Request) {
			q.Delegation.Specialist = &delegation.Delegate{Prompt: "You add.", Shown: true}
		}, []scripted{
			{prompt: asSpecialist, after: ask("q"), pieces: []piece{
				{partHeader, analysisTag}, {partReasoning, thinking + "<|end|>"}, {partHeader, again + finalTag},
				answer,
			}},
		}, []part{partHeader, partReasoning, partAnswer}},
		{"a call of a specialist", harmonyModel, func(q *generation.Request) { q.Delegation.Model = true }, []scripted{
			{after: ask("q"), pieces: []piece{
				{partHeader, analysisTag}, {partReasoning, thinking + "<|end|>"},
				{partHeader, again + "<|channel|>commentary to=functions." + delegation.DelegateName +
					" <|constrain|>json<|message|>"},
				{partReasoning, `{"agent_prompt": "` + thinking + `"}<|call|>`},
			}},
			{prompt: asSpecialist, after: engaged,
				pieces: []piece{{partHeader, finalTag}, {partReasoning, thinking + "<|return|>"}}},
		}, []part{partHeader, partReasoning}},
		{"reasons for calls", harmonyModel, func(q *generation.Request) { q.Tools, q.Rationale = addTool, true },
			[]scripted{{after: ask("q"), pieces: []piece{
				{partHeader, "<|channel|>commentary<|message|>"},
				{partReasoning, `so <rationale call="1">{"why": "` + thinking + `"}</rationale> then<|end|>`},
				{partHeader, again + toolTag}, {partCall, `{"a": 121212}<|call|>`},
			}}}, []part{partHeader, partReasoning, partCall}},
	}
}

// everything sets every field that acts on tokens, each to a different value. The biases are on a word, on a token of
// the format and on a token that ends the turn.
func everything(v *backend.Vocab) backend.Sampling {
	return backend.Sampling{
		Temperature: 1.5, TopK: 7, TopP: 0.9, MinP: 0.01, TypicalP: 0.8, RepetitionPenalty: 1.3,
		PresencePenalty: 0.4, FrequencyPenalty: 0.3,
		Bias: []backend.TokenBias{{Token: 'Q', Bias: 1}, {Token: markOf(v), Bias: 1}, {Token: v.EOS(), Bias: 1}},
	}
}

// markOf returns a token of the format that does not end a turn.
func markOf(v *backend.Vocab) backend.Token {
	for _, name := range []string{"<|channel|>", "<think>"} {
		if t, ok := v.Special(name); ok {
			return t
		}
	}
	panic("no format")
}

func biased(s *backend.Sampling, t backend.Token) bool {
	return slices.ContainsFunc(s.Bias, func(b backend.TokenBias) bool { return b.Token == t })
}

// wants is the table of which field acts on which part. It repeats the table of the documents, so that nobody changes
// the code by accident.
var wants = [numFields][numParts]string{
	//                 header    reasoning  preamble  call      answer    summary
	fieldTemperature: {"at most 1", "always", "always", "always", "always", "never"},
	fieldFilter:      {"always", "always", "always", "always", "always", "never"},
	fieldSkew:        {"never", "always", "always", "always", "always", "never"},
	fieldSeed:        {"always", "always", "always", "always", "always", "never"},
	fieldPenalty:     {"never", "seen", "always", "always", "always", "never"},
	fieldSeen:        {"never", "seen", "always", "always", "always", "never"},
	fieldBias:        {"never", "seen", "always", "always", "always", "never"},
	fieldMarkBias:    {"never", "seen", "seen", "seen", "seen", "never"},
	fieldIgnoreEnd:   {"never", "never", "never", "never", "always", "never"},
	fieldStop:        {"never", "never", "never", "never", "always", "never"},
	fieldForm:        {"never", "never", "never", "never", "always", "never"},
}

// wanted reports whether a field should act on a part.
func wanted(f field, p part, sees bool) bool {
	w := wants[f][p]
	return w == "always" || w == "at most 1" || w == "seen" && sees
}

const drawn = 77

// act is whether a field acts.
type act struct {
	field field
	acts  bool
}

// actsOn reports which fields act on the next token, judged by the request to the engine. Each setting has an entry.
func actsOn(s *backend.Sampling, v *backend.Vocab, p part) []act {
	all := everything(v)
	acts := []act{{fieldSeed, s.Seed == drawn}, {fieldBias, biased(s, 'Q')}, {fieldMarkBias, biased(s, markOf(v))}}
	set := all.Settings()
	for i, x := range s.Settings() {
		switch of := &set[i]; {
		case x.Effect == backend.Detail:
		case !of.On():
			panic("the test does not set " + x.Field)
		case x.Effect == backend.Heat && p == partHeader: // only 1 counts there
			acts = append(acts, act{fieldTemperature, x.Value() == 1})
		default:
			acts = append(acts, act{field(x.Effect), x.Value() == of.Value()})
		}
	}
	return acts
}

// observe runs a situation with every field set. It reports, by field and part, each field that acts where it should
// not, or does not act where it should.
func observe(t *testing.T, of *situation, table *reach, visibility reasoning.Visibility,
	change func(*generation.Request)) (wrong map[field]map[part]string) {
	t.Helper()
	wrong = map[field]map[part]string{}
	report := func(f field, p part, format string, args ...any) {
		if wrong[f] == nil {
			wrong[f] = map[part]string{}
		}
		wrong[f][p] = fmt.Sprintf(format, args...)
	}
	cfg := of.model()
	if cfg.Vocab == nil {
		cfg.Vocab = fake.Harmony()
	}
	var replies []fake.Reply
	for i := range of.replies {
		replies = append(replies, fake.Reply{Prompt: of.replies[i].prompt, After: of.replies[i].after,
			Say: of.replies[i].text()})
	}
	cfg.Script = fake.Replies(cfg.Vocab, replies...)
	m := &listener{Model: fake.New(cfg)}
	r, err := New(m, Config{Clock: clock, Drafts: DraftsOff, Loops: loops})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.reach = table
	seed := uint64(drawn)
	req := user("q")
	req.Visibility, req.Sampling, req.Seed, req.MaxTokens = visibility, everything(cfg.Vocab), &seed, 400
	req.Delegation.Work = generation.WorkKeep
	if of.change(&req); change != nil {
		change(&req)
	}
	sees := req.Visibility == reasoning.VisibilityFull
	if g := collect(t.Context(), r, req); g.err != nil {
		t.Fatalf("%s: %v", of.name, g.err)
	}
	words := [numParts]backend.Token{}
	for p, word := range heard {
		if word != "" {
			words[p] = fake.Encode(cfg.Vocab, word)[0]
		}
	}
	came := map[part]bool{}
	counted := map[part]bool{}
	sampled := map[*piece]bool{}
	for _, a := range m.asked {
		piece := pieceOf(of.replies, a.before)
		if piece == nil {
			continue
		}
		p := piece.part
		came[p] = true
		sampled[piece] = true
		for _, f := range actsOn(&a.sampling, cfg.Vocab, p) {
			if want := wanted(f.field, p, sees); f.acts != want {
				report(f.field, p, "it acts: %v, after %q", f.acts, a.before[max(0, len(a.before)-60):])
			}
		}
		end := biased(&a.sampling, cfg.Vocab.EOS())
		if want := wanted(fieldMarkBias, p, sees) || p == partAnswer && wanted(fieldBias, p, sees); end != want {
			report(fieldMarkBias, p, "a bias on the end acts: %v, after %q", end, a.before[max(0, len(a.before)-60):])
		}
		for q, word := range words {
			if heard[q] != "" && slices.Contains(a.sampling.Seen, word) {
				counted[part(q)] = true
			}
		}
		for _, token := range a.sampling.Seen {
			if kind := cfg.Vocab.Kind(token); kind == backend.Control ||
				strings.Contains(cfg.Vocab.Piece(token), "think>") {
				report(fieldSeen, partHeader, "%q counts as seen", cfg.Vocab.Piece(token))
			}
			if piece := cfg.Vocab.Piece(token); slices.Contains([]string{"analysis", "final", "functions", "name",
				"arguments"}, piece) || piece == ">" && !sees {
				report(fieldSeen, partHeader, "%q counts as seen", piece)
			}
		}
	}
	for _, p := range of.parts {
		if !came[p] {
			t.Errorf("%s: part %d did not come", of.name, p)
		}
	}
	for i := range of.replies {
		for j := range of.replies[i].pieces {
			p := &of.replies[i].pieces[j]
			if !sampled[p] && (p.part != partSummary || visibility == reasoning.VisibilitySummary) &&
				table == &reachOf {
				t.Errorf("%s: no token of %q was sampled", of.name, p.text)
			}
		}
	}
	for p := range numParts {
		if of.says(p) && came[p] && counted[p] != wanted(fieldSeen, p, sees) {
			report(fieldSeen, p, "its words count as seen: %v", counted[p])
		}
	}
	return wrong
}

// TestFieldsActWhereTheyMay checks every field against the table, for every way of marking reasoning.
func TestFieldsActWhereTheyMay(t *testing.T) {
	for _, of := range situations() {
		t.Run(of.name, func(t *testing.T) {
			for _, v := range []reasoning.Visibility{reasoning.VisibilityNone, reasoning.VisibilitySummary,
				reasoning.VisibilityFull} {
				if of.name == "reasons for calls" && v == reasoning.VisibilityFull {
					continue // the preamble is not reasoning then
				}
				for f, parts := range observe(t, &of, &reachOf, v, nil) {
					for p, how := range parts {
						t.Errorf("visibility %v, field %d in part %d: %s", v, f, p, how)
					}
				}
			}
		})
	}
}

// mutants returns the other rules that a cell could have.
func mutants(f field, p part) []rule {
	switch wants[f][p] {
	case "never":
		return []rule{always}
	case "seen":
		return []rule{never, always}
	case "at most 1":
		return []rule{never, always}
	}
	return []rule{never}
}

// nowhere lists the cells in which a field cannot act. The summary has a sequence of its own, which has no form and
// whose tokens are not counted. Headers are not text, so they contain no stop string.
var nowhere = map[[2]int]bool{
	{int(fieldForm), int(partSummary)}: true, {int(fieldSeen), int(partSummary)}: true,
	{int(fieldStop), int(partHeader)}: true,
}

// TestEveryCellIsGuarded checks that with any other rule in any cell of the table, a check fails.
func TestEveryCellIsGuarded(t *testing.T) {
	testenv.SkipRaced(t)
	all := situations()
	with := func(names ...string) (list []*situation) {
		for i := range all {
			if slices.Contains(names, all[i].name) {
				list = append(list, &all[i])
			}
		}
		return list
	}
	two := with("harmony with a call", "harmony with an answer")
	for f := range numFields {
		for p := range numParts {
			if nowhere[[2]int{int(f), int(p)}] {
				continue
			}
			if err := checkCell(t, two, &reachOf, f, p); err != "" {
				t.Errorf("field %d, part %d: %s", f, p, err)
			}
			for _, other := range mutants(f, p) {
				table := reachOf
				table[f][p] = other
				if checkCell(t, two, &table, f, p) == "" {
					t.Errorf("field %d acts on part %d by rule %d, and no check fails", f, p, other)
				}
			}
		}
	}
}

// checkCell runs the situations and says what is wrong with a cell of a table.
func checkCell(t *testing.T, runs []*situation, table *reach, f field, p part) string {
	t.Helper()
	for _, v := range []reasoning.Visibility{reasoning.VisibilityNone, reasoning.VisibilitySummary,
		reasoning.VisibilityFull} {
		for _, of := range runs {
			bad := ""
			switch f {
			case fieldStop:
				bad = checkStop(t, of, table, v, p)
			case fieldForm:
				bad = checkForm(t, of, table, v, p)
			case fieldIgnoreEnd:
				bad = checkIgnoreEnd(table, v, p)
			default:
				bad = observe(t, of, table, v, nil)[f][p]
			}
			if bad != "" {
				return bad
			}
		}
	}
	return ""
}

// textOf runs a situation and returns what the caller sees.
func textOf(t *testing.T, of *situation, table *reach, v reasoning.Visibility, change func(*generation.Request)) got {
	t.Helper()
	cfg := of.model()
	cfg.Vocab = fake.Harmony()
	var replies []fake.Reply
	for i := range of.replies {
		replies = append(replies, fake.Reply{Prompt: of.replies[i].prompt, After: of.replies[i].after,
			Say: of.replies[i].text()})
	}
	f := start(t, cfg, Config{}, replies...)
	f.reach = table
	req := user("q")
	req.Visibility, req.MaxTokens = v, 200
	of.change(&req)
	change(&req)
	return collect(t.Context(), f.Runner, req)
}

// checkStop uses a stop string that is in every part but the header, so every part on which it acts is cut.
func checkStop(t *testing.T, of *situation, table *reach, v reasoning.Visibility, p part) string {
	stopped := textOf(t, of, table, v, func(q *generation.Request) { q.Stop = []string{" END", "2121", "channel"} })
	free := textOf(t, of, table, v, func(*generation.Request) {})
	if stopped.err != nil || free.err != nil {
		return fmt.Sprint(stopped.err, free.err)
	}
	segment := segmentOf[p]
	cut := stopped.text[segment] != free.text[segment] || p == partReasoning &&
		stopped.result.Usage.Reasoning != free.result.Usage.Reasoning
	if p == partSummary && v == reasoning.VisibilitySummary && len(of.parts) == 3 {
		cut = cut && !strings.Contains(stopped.text[segment], "END")
	}
	if free.text[segment] == "" && !(p == partReasoning) {
		return ""
	}
	if want := wanted(fieldStop, p, v == reasoning.VisibilityFull); cut != want {
		return fmt.Sprintf("a stop string cuts: %v", cut)
	}
	return ""
}

// checkForm uses a form of digits and brackets that only the answer must match.
func checkForm(t *testing.T, of *situation, table *reach, v reasoning.Visibility, p part) string {
	held := textOf(t, of, table, v, func(q *generation.Request) {
		q.Form, q.ToolChoice = grammar.Regex("[0-9]{1,20}"),
			""
	})
	if held.err != nil {
		return held.err.Error()
	}
	digits := func(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }
	answers := slices.Contains(of.parts, partAnswer)
	switch p {
	case partAnswer:
		if answers && !digits(held.text[reasoning.Answer]) {
			return fmt.Sprintf("the answer is %q", held.text[reasoning.Answer])
		}
	case partHeader, partReasoning:
		if held.result.Usage.Reasoning < 5 || v == reasoning.VisibilityFull && digits(held.text[reasoning.Reasoning]) {
			return fmt.Sprintf("%d tokens of reasoning: %q", held.result.Usage.Reasoning,
				held.text[reasoning.Reasoning])
		}
	case partPreamble:
		if !answers && digits(held.text[reasoning.Preamble]) || !answers && held.text[reasoning.Preamble] == "" {
			return fmt.Sprintf("the preamble is %q", held.text[reasoning.Preamble])
		}
	case partCall:
		if !answers && !strings.HasPrefix(held.text[reasoning.ToolCall], "{") {
			return fmt.Sprintf("the call is %q", held.text[reasoning.ToolCall])
		}
	}
	return ""
}

// checkIgnoreEnd checks the table itself. Only raw prompts may set the field, and everything after them is answer.
func checkIgnoreEnd(table *reach, v reasoning.Visibility, p part) string {
	m := marks{vocab: fake.Harmony()}
	s := table.sampling(&generation.Request{IgnoreEnd: true}, p, v == reasoning.VisibilityFull, &m)
	if acts := biased(&s, m.vocab.EOS()); acts != wanted(fieldIgnoreEnd, p, false) {
		return fmt.Sprintf("the end is ruled out: %v", acts)
	}
	return ""
}

// placeOfField says where each field of a request acts: on tokens, by rows of the table, or elsewhere.
var placeOfField = map[string]any{
	"Temperature": fieldTemperature, "TopK": fieldFilter, "TopP": fieldFilter, "MinP": fieldFilter,
	"TypicalP": fieldSkew, "Seed": fieldSeed,
	"RepetitionPenalty": fieldPenalty, "PresencePenalty": fieldPenalty, "FrequencyPenalty": fieldPenalty,
	"PenaltyWindow": fieldSeen,
	"Seen":          fieldSeen, "Bias": fieldBias, "Stop": fieldStop, "Form": fieldForm, "IgnoreEnd": fieldIgnoreEnd,
	"TopLogprobs": "tells of the answer's tokens", "Logprobs": "tells of the answer's tokens",
	"PromptLogprobs": "tells of a raw prompt", "PromptTop": "tells of a raw prompt",
	"PromptOnly": "ends before the first token",
	"Sampling":   "is the fields of backend.Sampling", "Principal": "is no content", "Thread": "is no content",
	"Unremembered": "is no content",
	"Messages":     "is the prompt", "Continues": "is the prompt", "Prompt": "is the prompt",
	"PromptSpecial": "is the prompt",
	"PromptTokens":  "is the prompt",
	"Tools":         "is the prompt, and the headers' constraint", "ToolChoice": "is the headers' constraint",
	"ToolName":   "is the headers' constraint",
	"SingleCall": "is the headers' constraint", "ResponseFormat": "is the prompt", "Visibility": "decides what is seen",
	"MaySee":          "decides what is compared with the caller's text",
	"DetailedSummary": "is the summary's length", "SummaryTokens": "is the summary's length",
	"Effort": "is the prompt", "Budget": "is the reasoning's length",
	"Strategy": "is the prompt", "Rationale": "is the prompt", "Score": "is the prompt",
	"MaxTokens": "is the run's length", "AnswerReserve": "is the reasoning's length",
	"TemplateArgs": "is the prompt", "KeepReasoning": "is the prompt", "Delegation": "is the prompt",
	"Seal":   "is no content",
	"Phases": "shows where reasoning is, not what it says",
}

// TestEveryFieldOfARequestHasItsPlace checks that a new field gets a place in the table, or a reason to have none.
func TestEveryFieldOfARequestHasItsPlace(t *testing.T) {
	names := map[string]bool{}
	for _, of := range []reflect.Type{reflect.TypeFor[generation.Request](), reflect.TypeFor[backend.Sampling]()} {
		for f := range of.Fields() {
			if f.IsExported() {
				names[f.Name] = true
			}
		}
	}
	for name := range names {
		if placeOfField[name] == nil {
			t.Errorf("field %s has no place", name)
		}
	}
	for name := range maps.Keys(placeOfField) {
		if !names[name] {
			t.Errorf("there is no field %s", name)
		}
	}
}

// A template may let the model continue the caller's own words. The output could then be the rest of its reasoning,
// which nothing marks.
func TestHiddenReasoningCannotBeBegunByTheCaller(t *testing.T) {
	cfg := thinkModel()
	cfg.ChatTemplate = `{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content }}` +
		`{% if not loop.last or m.role != 'assistant' %}{{ '<|im_end|>\n' }}{% endif %}{% endfor %}` +
		`{% if add_generation_prompt and messages[-1].role != 'assistant' %}` +
		`{{ '<|im_start|>assistant\n' + (prefix or '') }}{% endif %}`
	f := start(t, cfg, Config{},
		fake.Reply{After: thinkTurn("q") + "I think", Say: " because of this</think>so<|im_end|>"},
		fake.Reply{After: thinkTurn("q"), Say: "<think> because</think>so<|im_end|>"})
	given, prefixed := user("q"), user("q")
	given.Messages = append(given.Messages, chattemplate.Message{Role: chattemplate.Assistant, Content: "I think"})
	prefixed.TemplateArgs = map[string]any{"prefix": "I think"}
	for _, req := range []generation.Request{given, prefixed} {
		for _, v := range []reasoning.Visibility{reasoning.VisibilityNone, reasoning.VisibilitySummary} {
			req.Visibility = v
			var bad *generation.RequestError
			if g := collect(t.Context(), f.Runner, req); !errors.As(g.err, &bad) || bad.Field != "Messages" {
				t.Errorf("visibility %v: %v %q", v, g.err, g.text)
			}
		}
		req.Visibility = reasoning.VisibilityFull
		if g := collect(t.Context(), f.Runner, req); g.err != nil || g.text[reasoning.Answer] == "" {
			t.Errorf("where reasoning is seen: %v %q", g.err, g.text)
		}
	}
	f.must(t, user("q")).want(t, reasoning.Answer, "so")
}

// Where a reason for a call may come, bias and penalties do nothing, and the caller gets a warning.
func TestWithheldSamplingWarns(t *testing.T) {
	f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("q"), Say: think("", "so")})
	for _, c := range []struct {
		change func(*generation.Request)
		want   bool
	}{
		{func(q *generation.Request) {}, false},
		{func(q *generation.Request) { q.Sampling.PresencePenalty = 1 }, true},
		{func(q *generation.Request) { q.Sampling.Bias = []backend.TokenBias{{Token: 'x', Bias: 1}} }, true},
		{func(q *generation.Request) { q.Sampling.PresencePenalty, q.Visibility = 1, reasoning.VisibilityFull }, false},
		{func(q *generation.Request) { q.Sampling.PresencePenalty, q.Rationale = 1, false }, false},
		{func(q *generation.Request) { q.Sampling.PresencePenalty, q.ToolChoice = 1, generation.ToolChoiceNone }, false},
	} {
		req := user("q")
		req.Tools, req.Rationale = addTool, true
		c.change(&req)
		if got := slices.Contains(f.must(t, req).codes, generation.CodeSamplingWithheld); got != c.want {
			t.Errorf("%+v: told %v", req.Sampling, got)
		}
	}
	for _, off := range backendtest.Off {
		req := user("q")
		req.Tools, req.Rationale = addTool, true
		off.Write(&req.Sampling)
		if g := f.must(t, req); slices.Contains(g.codes, generation.CodeSamplingWithheld) {
			t.Errorf("%s: a setting that is off was withheld", off.Name)
		}
	}
}

// A model that must reason does so at the first place where it may write. No field can move that to a visible part.
// Each of these fields would do so under another rule in its cell.
func TestNoFieldMovesReasoningIntoSight(t *testing.T) {
	const because = " because"
	v := fake.Harmony()
	thoughts := strings.Repeat(because, 60)
	harmony := []fake.Reply{
		{After: ask("q"), Say: think(thoughts, "so it is")},
		{After: ask("q") + finalTag, Say: thoughts + "<|return|>"},
		{After: ask("q") + "<|channel|>commentary<|message|>",
			Say: thoughts + "<|end|>" + again + finalTag + "so<|return|>"},
	}
	tags := freeModel()
	replies := fake.Replies(tags.Vocab, fake.Reply{After: thinkTurn("q"),
		Say: "<think>" + thoughts + "</think>so it is<|im_end|>"})
	tags.Script = func(tokens []backend.Token) backend.Token {
		_, said, _ := strings.Cut(fake.Decode(tags.Vocab, tokens), thinkTurn("q"))
		if said != "" && !strings.HasPrefix(said, "<think>") {
			return fake.Encode(tags.Vocab, because)[0]
		}
		return replies(tokens)
	}
	forbid := func(v *backend.Vocab, names ...string) (list []backend.TokenBias) {
		for _, name := range names {
			list = append(list, backend.TokenBias{Token: fake.Encode(v, name)[0], Bias: -100})
		}
		return list
	}
	for _, c := range []struct {
		name     string
		cfg      fake.Config
		replies  []fake.Reply
		sampling backend.Sampling
		field    field
		part     part
	}{
		{"a bias against channels", fake.Config{Vocab: v}, harmony,
			backend.Sampling{Bias: forbid(v, "analysis", "final")}, fieldBias, partHeader},
		{"a bias against a channel", fake.Config{Vocab: v}, harmony, backend.Sampling{Bias: forbid(v, "analysis")},
			fieldBias, partHeader},
		{"a bias against a tag", tags, nil, backend.Sampling{Bias: forbid(tags.Vocab, "<think>")}, fieldMarkBias,
			partHeader},
		{"a penalty", fake.Config{Vocab: v}, harmony, backend.Sampling{FrequencyPenalty: -2}, fieldSeen, partReasoning},
		{"a penalty, with tags", tags, nil, backend.Sampling{FrequencyPenalty: -2}, fieldSeen, partReasoning},
		{"heat", fake.Config{Vocab: v}, harmony, backend.Sampling{Temperature: 50}, fieldTemperature, partHeader},
	} {
		told := func(table *reach, visibility reasoning.Visibility) bool {
			f := start(t, c.cfg, Config{}, c.replies...)
			f.reach = table
			for seed := range uint64(12) {
				req := user("q")
				req.Sampling, req.Seed, req.Visibility, req.MaxTokens = c.sampling, &seed, visibility, 150
				if isHarmony(f.Runner) {
					req.Tools = addTool
				}
				g := f.must(t, req)
				if c.field == fieldTemperature { // its texts are noise
					if g.result.Usage.Reasoning == 0 {
						return true
					}
					continue
				}
				seen := g.text[reasoning.Answer] + g.text[reasoning.Preamble] + g.text[reasoning.ToolCall]
				if strings.Contains(seen, because+because) {
					return true
				}
			}
			return false
		}
		for _, visibility := range []reasoning.Visibility{reasoning.VisibilityNone, reasoning.VisibilitySummary} {
			if told(&reachOf, visibility) {
				t.Errorf("%s tells hidden reasoning", c.name)
			}
			table := reachOf
			table[c.field][c.part] = always
			if !told(&table, visibility) {
				t.Errorf("%s would tell nothing anyway: the test does not see what it is about", c.name)
			}
		}
	}
}

// Bias and penalties change nothing before the first visible token.
func TestBiasChangesNothingBeforeWhatIsSeen(t *testing.T) {
	testenv.SkipRaced(t)
	rng := rand.New(rand.NewPCG(3, 4))
	for _, of := range situations() {
		cfg := of.model()
		if cfg.Vocab == nil {
			cfg.Vocab = fake.Harmony()
		}
		var replies []fake.Reply
		for i := range of.replies {
			r := &of.replies[i]
			replies = append(replies, fake.Reply{Prompt: r.prompt, After: r.after, Say: r.text()})
		}
		cfg.Script = fake.Replies(cfg.Vocab, replies...)
		hidden := func(sampling backend.Sampling) (list []string) {
			m := &listener{Model: fake.New(cfg)}
			r, err := New(m, Config{Clock: clock, Drafts: DraftsOff, Loops: loops})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			seed := uint64(drawn)
			req := user("q")
			req.Sampling, req.Seed, req.MaxTokens = sampling, &seed, 200
			of.change(&req)
			if g := collect(t.Context(), r, req); g.err != nil {
				t.Fatalf("%s: %v", of.name, g.err)
			}
			for _, a := range m.asked {
				if p := pieceOf(of.replies, a.before); p != nil && p.part != partHeader && p.part != partReasoning {
					break
				}
				list = append(list, a.before)
			}
			return list
		}
		want := hidden(backend.Sampling{Temperature: 1})
		for range 8 {
			s := backend.Sampling{
				Temperature: 1, PresencePenalty: rng.Float32()*4 - 2, FrequencyPenalty: rng.Float32()*4 - 2,
				RepetitionPenalty: rng.Float32() * 10,
			}
			for range 1 + rng.IntN(60) {
				token := backend.Token(rng.IntN(cfg.Vocab.Len()))
				s.Bias = append(s.Bias, backend.TokenBias{Token: token, Bias: []float32{-100, 60, 100}[rng.IntN(3)]})
			}
			if got := hidden(s); !slices.Equal(got, want) {
				t.Errorf("%s: %d hidden tokens, and %d without bias and penalties", of.name, len(got), len(want))
			}
		}
	}
}

// TestBiasLeavesTheBeginningOfTagsAlone: a model that spells its tags out cannot be kept from beginning one.
func TestBiasLeavesTheBeginningOfTagsAlone(t *testing.T) {
	v := fake.Harmony()
	less, other := fake.Encode(v, "<")[0], fake.Encode(v, "a")[0]
	req := &generation.Request{}
	req.Sampling.Bias = []backend.TokenBias{{Token: less, Bias: -100}, {Token: other, Bias: -100}}
	m := marks{vocab: v, spelled: []string{"<think>", "</think>"}}
	for _, sees := range []bool{false, true} {
		s := reachOf.sampling(req, partAnswer, sees, &m)
		if biased(&s, less) != sees || !biased(&s, other) {
			t.Errorf("sees %v: the beginning is biased: %v, other text: %v", sees, biased(&s, less), biased(&s, other))
		}
	}
}
