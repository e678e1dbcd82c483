package openai

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"runner/backend/fake"
	"runner/generation"
	"runner/server/wire"
	"runner/server/wiretest"
)

var errQueue = fmt.Errorf("wrapped: %w", generation.ErrQueueFull)

// completeText posts a completion and returns its answer.
func (f *fixture) complete(body string) *Completion {
	f.t.Helper()
	a := f.post("/v1/completions", body)
	if a.status != http.StatusOK {
		f.t.Fatalf("%s: status %d: %s", body, a.status, a.body)
	}
	var c Completion
	decode(f.t, a.body, &c)
	return &c
}

func TestCompletions(t *testing.T) {
	f := start(t, Config{}, nil, fake.Reply{After: "once upon",
		Say: " a time é中 there was more and more and more<|return|>"},
		fake.Reply{After: "<|start|>", Say: "assistant<|channel|>analysis"})
	c := f.complete(`{"prompt":"once upon"}`)
	if got := c.Choices[0].Text; !strings.HasPrefix(got, " a time é") || *c.Choices[0].FinishReason != "length" ||
		(*c.Usage).CompletionTokens != 16 || c.Object != "text_completion" ||
		!strings.HasPrefix(c.ID, "cmpl-") || (*c.Usage).TotalTokens != (*c.Usage).PromptTokens+16 {
		t.Errorf("the answer is %s", pretty(t, c))
	}
	c = f.complete(`{"prompt":"once upon","max_tokens":-1,"echo":true,"stop":" more"}`)
	if c.Choices[0].Text != "once upon a time é中 there was" || *c.Choices[0].FinishReason != "stop" {
		t.Errorf("the echo is %s", pretty(t, c))
	}
	// Names of control tokens are text unless the request says otherwise.
	if plain := f.complete(`{"prompt":"<|start|>","max_tokens":1}`); (*plain.Usage).PromptTokens < 5 {
		t.Errorf("the prompt has %d tokens", (*plain.Usage).PromptTokens)
	}
	special := f.complete(`{"prompt":"<|start|>","parse_special":true,"max_tokens":1}`)
	if special.Choices[0].Text != "assistant" || (*special.Usage).PromptTokens > 2 {
		t.Errorf("the answer is %s", pretty(t, special))
	}
	tokens := fake.Encode(f.models.Fake.Vocab(), "once upon")
	list := strings.Join(strings.Fields(fmt.Sprint(tokens)), ",")
	c = f.complete(`{"prompt":` + list + `,"echo":true,"max_tokens":3}`)
	if !strings.HasPrefix(c.Choices[0].Text, "once upon a") {
		t.Errorf("from tokens: %s", pretty(t, c))
	}
	many := f.complete(`{"prompt":["once upon",` + list + `,"else"],"n":2,"max_tokens":4,"echo":true}`)
	if len(many.Choices) != 6 || many.Choices[3].Index != 3 || !strings.HasPrefix(many.Choices[3].Text, "once upon") ||
		!strings.HasPrefix(many.Choices[5].Text, "else") {
		t.Errorf("several prompts: %s", pretty(t, many))
	}
}

// A stream of a completion adds up to the answer.
func TestCompletionStreams(t *testing.T) {
	scripted := start(t, Config{}, nil, fake.Reply{After: "once upon", Say: " a time é中🙂 there<|return|>"})
	noisy := startModel(t, Config{}, nil, fake.Config{})
	for _, fields := range []string{`"prompt":"once upon","seed":1`, `"prompt":"once upon","logprobs":3,"seed":1`,
		`"prompt":["once upon","noise"],"n":2,"echo":true,"seed":1,"temperature":1`,
		`"prompt":"noise","logprobs":1,"seed":2,"temperature":2,"max_tokens":60`,
		`"prompt":"once upon","echo":true,"logprobs":2,"seed":1`,
		`"prompt":["noise é","b"],"n":2,"echo":true,"logprobs":0,"seed":1`,
		`"prompt":"once upon","echo":true,"logprobs":1,"seed":1,"max_tokens":0`} {
		f := scripted
		if strings.Contains(fields, "noise") {
			f = noisy
		}
		want := f.complete(`{` + fields + `}`)
		frames := framesOf(t, f.post("/v1/completions",
			`{`+fields+`,"stream":true,"stream_options":{"include_usage":true}}`).body)
		got := &Completion{Choices: make([]CompletionChoice, len(want.Choices))}
		for i, frame := range frames {
			var c Completion
			decode(t, frame, &c)
			if i == len(frames)-1 {
				got.Usage = c.Usage
				break
			}
			got.Choices[c.Choices[0].Index].add(&c.Choices[0])
		}
		(*got.Usage).PromptTokensDetails, (*want.Usage).PromptTokensDetails = PromptDetails{}, PromptDetails{}
		if a, b := pretty(t, got.Choices)+pretty(t, got.Usage), pretty(t, want.Choices)+pretty(t, want.Usage); a != b {
			t.Errorf("%s: the stream adds up to\n%s\nand the answer is\n%s", fields, a, b)
		}
	}
}

// The same is true for any events.
func TestCompletionStreamsAddUp(t *testing.T) {
	for seed := range uint64(1000) {
		g := generator{rand.New(rand.NewPCG(seed, 2))}
		c := oneCompletion()
		c.texts, c.echo = []string{g.text()}, g.IntN(2) == 0
		list := g.stream(g.IntN(2) == 0)
		got := CompletionChoice{}
		var frames []string
		streamed, whole := c.reply(testHead, framed(t, &frames)), c.reply(testHead, nil)
		for i := range list {
			if err := errors.Join(streamed.push(0, &list[i]), whole.push(0, &list[i])); err != nil {
				t.Fatal(err)
			}
		}
		for _, frame := range frames {
			var f Completion
			decode(t, frame, &f)
			got.add(&f.Choices[0])
		}
		want := whole.complete().(*Completion).Choices[0]
		if a, b := pretty(t, got), pretty(t, want); a != b {
			t.Fatalf("seed %d: the stream adds up to\n%s\nand the answer is\n%s", seed, a, b)
		}
	}
}

// add appends a frame's choice to the earlier ones.
func (to *CompletionChoice) add(d *CompletionChoice) {
	to.Index = d.Index
	to.Text += d.Text
	if d.Logprobs != nil {
		if to.Logprobs == nil {
			to.Logprobs = &CompletionLogprobs{}
		}
		to.Logprobs.Tokens = append(to.Logprobs.Tokens, d.Logprobs.Tokens...)
		to.Logprobs.TokenLogprobs = append(to.Logprobs.TokenLogprobs, d.Logprobs.TokenLogprobs...)
		to.Logprobs.TopLogprobs = append(to.Logprobs.TopLogprobs, d.Logprobs.TopLogprobs...)
		to.Logprobs.TextOffset = append(to.Logprobs.TextOffset, d.Logprobs.TextOffset...)
	}
	if d.FinishReason != nil {
		to.FinishReason, to.FinishDetail, to.Warnings = d.FinishReason, d.FinishDetail, d.Warnings
	}
}

func TestCompletionLogprobs(t *testing.T) {
	f := start(t, Config{}, nil, fake.Reply{After: "once", Say: " é!<|return|>"})
	l := f.complete(`{"prompt":"once","logprobs":2}`).Choices[0].Logprobs
	if len(l.Tokens) != len(l.TokenLogprobs) || len(l.Tokens) != len(l.TopLogprobs) || len(l.Tokens) != len(l.TextOffset) {
		t.Fatalf("lists of different lengths: %s", pretty(t, l))
	}
	for i, name := range l.Tokens {
		if _, ok := l.TopLogprobs[i][name]; !ok {
			t.Errorf("%q is not among the most likely %v", name, l.TopLogprobs[i])
		}
	}
	if last := len(l.TextOffset) - 1; l.TextOffset[0] != 0 || l.TextOffset[last] > 3 {
		t.Errorf("offsets are %v of %q", l.TextOffset, l.Tokens)
	}
	noisy := startModel(t, Config{}, nil, fake.Config{})
	likely := noisy.complete(`{"prompt":"x","logprobs":1,"temperature":2,"seed":4,"max_tokens":30}`).Choices[0].Logprobs
	added := 0
	for i, name := range likely.Tokens {
		if p, ok := likely.TopLogprobs[i][name]; !ok || p != *likely.TokenLogprobs[i] {
			t.Errorf("%q with %v is told as %v", name, *likely.TokenLogprobs[i], likely.TopLogprobs[i])
		}
		if len(likely.TopLogprobs[i]) == 2 {
			added++
		}
	}
	if added == 0 {
		t.Error("every token was the most likely one: the test does not test")
	}
	for token, want := range map[string]string{"a": "a", "é": "é", "\xe2\x80": `bytes:\xe2\x80`} {
		if got := tokenName(token); got != want {
			t.Errorf("%q is written %q", token, got)
		}
	}
}

func TestPromptsAreScored(t *testing.T) {
	f := startModel(t, Config{}, nil, fake.Config{})
	const fields = `"prompt":"once é","seed":1,"temperature":0`
	echo := f.complete(`{` + fields + `,"echo":true,"logprobs":2,"max_tokens":1}`).Choices[0]
	only := f.complete(`{` + fields + `,"echo":true,"logprobs":2,"max_tokens":0,"prompt_logprobs":1}`)
	c, l, n := only.Choices[0], only.Choices[0].Logprobs, (*only.Usage).PromptTokens
	if c.Text != "once é" || *c.FinishReason != "length" || (*only.Usage).CompletionTokens != 0 ||
		len(l.Tokens) != n || n < 5 {
		t.Fatalf("nothing but the prompt is %s", pretty(t, only))
	}
	if len(echo.Logprobs.Tokens) != n+1 || pretty(t, echo.Logprobs.TokenLogprobs[:n]) != pretty(t, l.TokenLogprobs) {
		t.Errorf("with a token after it the prompt is %s, else %s", pretty(t, echo.Logprobs), pretty(t, l))
	}
	if l.TokenLogprobs[0] != nil || l.TopLogprobs[0] != nil || c.PromptLogprobs[0] != nil || len(c.PromptLogprobs) != n {
		t.Errorf("the first token has nothing before it: %s", pretty(t, c))
	}
	best := 0
	for i := 1; i < n; i++ {
		own, ok := l.TopLogprobs[i][l.Tokens[i]]
		if !ok || own != *l.TokenLogprobs[i] || len(l.TopLogprobs[i]) > 3 {
			t.Errorf("%q with %v is reported as %v", l.Tokens[i], *l.TokenLogprobs[i], l.TopLogprobs[i])
		}
		found := false
		for _, p := range c.PromptLogprobs[i] {
			if p.Rank == 1 {
				best++
			}
			found = found || p.DecodedToken == l.Tokens[i] && p.Logprob == own && p.Rank >= 1
		}
		if !found || len(c.PromptLogprobs[i]) > 2 {
			t.Errorf("%q is reported as %v", l.Tokens[i], c.PromptLogprobs[i])
		}
	}
	if best != n-1 {
		t.Errorf("the most likely token stands in %d of %d places", best, n-1)
	}
}

func TestIgnoreEOSGoesOnToTheLimit(t *testing.T) {
	f := start(t, Config{}, nil, fake.Reply{After: "once", Say: " more<|return|>"})
	if c := f.complete(`{"prompt":"once","max_tokens":30}`); *c.Choices[0].FinishReason != "stop" {
		t.Fatalf("the answer is %s", pretty(t, c))
	}
	if c := f.complete(`{"prompt":"once","max_tokens":30,"ignore_eos":true}`); (*c.Usage).CompletionTokens != 30 ||
		*c.Choices[0].FinishReason != "length" {
		t.Errorf("the answer is %s", pretty(t, c))
	}
}

func TestRefusedCompletions(t *testing.T) {
	f := start(t, Config{}, nil)
	for fields, param := range map[string]string{
		``: "prompt", `"prompt":7`: "prompt", `"prompt":""`: "prompt", `"prompt":["a",""]`: "prompt[1]",
		`"prompt":[]`: "prompt", `"prompt":[1,"a"]`: "prompt", `"prompt":["a",7]`: "prompt[1]",
		`"prompt":[[],"a"]`: "prompt[0]",
		`"prompt":[1,null]`: "prompt", `"prompt":[1.5]`: "prompt", `"prompt":[99999999]`: "prompt",
		`"prompt":"a","suffix":"b"`: "suffix", `"prompt":"a","best_of":2`: "best_of",
		`"prompt":"a","logprobs":21`: "logprobs", `"prompt":"a","max_tokens":-2`: "max_tokens",
		`"prompt":"a","prompt_logprobs":21`:              "prompt_logprobs",
		`"prompt":"a","prompt_logprobs":1,"stream":true`: "prompt_logprobs",
		`"prompt":"a","ignore_eos":true,"regex":"b"`:     "ignore_eos",
		`"prompt":["a","b","c"],"n":16`:                  "n", `"prompt":"a","reasoning":"full"`: "reasoning",
		`"prompt":"a","reasoning_effort":"low"`: "reasoning_effort",
		`"prompt":"a","temperature":-1`:         "temperature", `"prompt":"a","model":"x"`: "model",
	} {
		a := f.post("/v1/completions", `{`+fields+`}`)
		if e := a.failing(t); a.status != 400 && a.status != 404 || e.Param == nil || *e.Param != param {
			t.Errorf("%s: %d %s", fields, a.status, a.body)
		}
	}
}

func TestEmbeddings(t *testing.T) {
	f := start(t, Config{}, nil)
	ask := func(fields string) EmbeddingList {
		t.Helper()
		a := f.post("/v1/embeddings", `{`+fields+`}`)
		var l EmbeddingList
		decode(t, a.body, &l)
		if a.status != http.StatusOK || l.Object != "list" || l.Model != wiretest.Name {
			t.Fatalf("%s: %d %s", fields, a.status, a.body)
		}
		return l
	}
	size := f.models.Engine.Info().EmbeddingLength
	one := ask(fmt.Sprintf(`"input":"some text","dimensions":%d`, size))
	numbers := one.Data[0].Embedding.([]any)
	if len(one.Data) != 1 || one.Data[0].Object != "embedding" || len(numbers) != size || one.Usage.PromptTokens == 0 ||
		one.Usage.TotalTokens != one.Usage.PromptTokens {
		t.Fatalf("the answer is %s", pretty(t, one))
	}
	packed := ask(`"input":["other","some text"],"encoding_format":"base64"`)
	raw, err := base64.StdEncoding.DecodeString(packed.Data[1].Embedding.(string))
	if err != nil || len(raw) != 4*size || packed.Data[1].Index != 1 {
		t.Fatalf("%v, %s", err, pretty(t, packed))
	}
	length := 0.0
	for i := range size {
		x := math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		if x != float32(numbers[i].(float64)) {
			t.Fatalf("number %d is %v as base64 and %v as a number", i, x, numbers[i])
		}
		length += float64(x) * float64(x)
	}
	if math.Abs(length-1) > 1e-4 {
		t.Errorf("the embedding's length is %v", math.Sqrt(length))
	}
	// Fewer dimensions are the first ones, scaled to length 1 again, in both encodings.
	short := ask(`"input":"some text","dimensions":3`).Data[0].Embedding.([]any)
	shortPacked := ask(`"input":"some text","dimensions":3,"encoding_format":"base64"`).Data[0].Embedding.(string)
	if raw, err = base64.StdEncoding.DecodeString(shortPacked); err != nil || len(short) != 3 || len(raw) != 12 {
		t.Fatalf("3 dimensions are %v and %d bytes, %v", short, len(raw), err)
	}
	scale := 0.0
	for i := range 3 {
		scale += numbers[i].(float64) * numbers[i].(float64)
	}
	for i := range 3 {
		want := numbers[i].(float64) / math.Sqrt(scale)
		if math.Abs(short[i].(float64)-want) > 1e-6 ||
			math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])) != float32(short[i].(float64)) {
			t.Errorf("number %d of 3 is %v, want %v", i, short[i], want)
		}
	}
	tokens, err := f.models.Engine.Tokenize(t.Context(), "", "some text", false)
	if err != nil {
		t.Fatal(err)
	}
	list := strings.Join(strings.Fields(fmt.Sprint(f.models.Engine.WithBOS(tokens))), ",")
	if l := ask(`"input":` + list); pretty(t, l.Data) != pretty(t, one.Data) {
		t.Error("tokens give another embedding than their text")
	}
	if l := ask(`"input":[` + list + `,` + list + `],"user":"u"`); len(l.Data) != 2 ||
		l.Usage.PromptTokens != 2*one.Usage.PromptTokens {
		t.Errorf("lists of tokens: %s", pretty(t, l.Usage))
	}
	for fields, param := range map[string]string{
		``: "input", `"input":""`: "input", `"input":[]`: "input", `"input":["a",""]`: "input[1]",
		`"input":[[1],[]]`: "input[1]", `"input":[[1],[99999999]]`: "input[1]",
		`"input":{}`: "input", `"input":["a",{}]`: "input[1]",
		`"input":"a","encoding_format":"int8"`: "encoding_format", `"input":"a","dimensions":0`: "dimensions",
		`"input":"a","dimensions":-3`: "dimensions", `"input":"a","dimensions":100000`: "dimensions",
		`"input":"a","model":"x"`: "model", `"input":["` + strings.Repeat(`a","`, 2048) + `a"]`: "input",
		`"input":["a","` + strings.Repeat("long ", 9000) + `"]`: "input[1]",
	} {
		a := f.post("/v1/embeddings", `{`+fields+`}`)
		if e := a.failing(t); a.status != 400 && a.status != 404 || e.Param == nil || *e.Param != param {
			t.Errorf("%.100s: %d %.300s", fields, a.status, a.body)
		}
	}
}

func TestModels(t *testing.T) {
	f := start(t, Config{}, nil)
	var list ModelList
	decode(t, f.get("/v1/models").body, &list)
	if len(list.Data) != 1 || list.Object != "list" || list.Data[0].ID != wiretest.Name ||
		list.Data[0].Object != "model" || !list.Data[0].Loaded ||
		list.Data[0].ContextLength != 8192 || list.Data[0].Created != wiretest.Today.Unix() {
		t.Errorf("the list is %s", pretty(t, list))
	}
	for _, path := range []string{"/v1/models/" + wiretest.Name, "/v1/models/" + url.PathEscape(wiretest.Name)} {
		var m Model
		decode(t, f.get(path).body, &m)
		if pretty(t, m) != pretty(t, list.Data[0]) {
			t.Errorf("%s is %s", path, pretty(t, m))
		}
	}
	if a := f.get("/v1/models/none"); a.status != http.StatusNotFound || a.failing(t).Code != wire.CodeModel {
		t.Errorf("a model that is not there: %d %s", a.status, a.body)
	}
	if m := modelOf(&wire.Card{Name: "a", Modified: wiretest.Today}); m.Created != wiretest.Today.Unix() || m.Loaded ||
		m.ContextLength != 0 {
		t.Errorf("a model that is not loaded is %s", pretty(t, m))
	}
	p := wiretest.Anyone()
	p.Models = []string{}
	if a := start(t, Config{}, p).get("/v1/models"); a.body != `{"object":"list","data":[]}` {
		t.Errorf("a key without models sees %s", a.body)
	}
}
