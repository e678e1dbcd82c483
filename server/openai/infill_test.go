package openai

import (
	"net/http"
	"strings"
	"testing"

	"runner/backend/fake"
	"runner/reasoning"
	"runner/server/wiretest"
)

// A gap is filled after the model's own tokens around the texts, which stay text whatever they spell.
func TestInfill(t *testing.T) {
	const prompt = "<|fim_prefix|>def f(x):\n  return <|fim_suffix|>\n# <|fim_middle|> end<|fim_middle|>"
	vocab := fake.Code()
	f := startModel(t, Config{}, nil, fake.Config{Vocab: vocab, ChatTemplate: fake.ThinkTemplate},
		fake.Reply{After: prompt, Say: "x + 1<|endoftext|>"})
	ask := func(path, body string) answer {
		t.Helper()
		a := f.post(path, body)
		if a.status != http.StatusOK {
			t.Fatalf("%s: %d %s", body, a.status, a.body)
		}
		return a
	}
	var whole Infill
	a := ask("/infill", `{"input_prefix":"def f(x):\n  ","prompt":"return ","input_suffix":"\n# <|fim_middle|> end",`+
		`"n_predict":8,"input_extra":[]}`)
	decode(t, a.body, &whole)
	if whole.Content != "x + 1" || !whole.Stop || whole.StopType != "eos" || whole.TokensPredicted == 0 ||
		whole.TokensEvaluated == 0 {
		t.Errorf("the gap gets %s", a.body)
	}
	gaps := 0
	last := f.models.Last().PromptTokens
	for _, token := range last {
		if mark, _ := vocab.FillIn(); token == mark.Gap {
			gaps++
		}
	}
	if gaps != 1 {
		t.Errorf("%d tokens ask for the gap in %q", gaps, fake.Decode(vocab, last))
	}
	var streamed string
	for _, line := range strings.Split(ask("/infill", `{"input_prefix":"def f(x):\n  return ",`+
		`"input_suffix":"\n# <|fim_middle|> end","stream":true}`).body, "\n") {
		if data, ok := strings.CutPrefix(line, "data: {"); ok {
			var frame Infill
			decode(t, "{"+data, &frame)
			streamed += frame.Content
		}
	}
	if streamed != whole.Content {
		t.Errorf("the stream has %q", streamed)
	}
	c := f.complete(`{"prompt":"def f(x):\n  return ","suffix":"\n# <|fim_middle|> end","echo":true}`)
	if c.Choices[0].Text != "def f(x):\n  return x + 1" {
		t.Errorf("the completion is %s", pretty(t, c))
	}
	ask("/infill", `{"input_prefix":"a","input_extra":[{"filename":"b.py","text":"c"}],"n_predict":1}`)
	if text := fake.Decode(vocab, f.models.Last().PromptTokens); text !=
		"<|file_sep|>b.py\nc\n<|fim_prefix|>a<|fim_suffix|><|fim_middle|>" {
		t.Errorf("with another file the prompt is %q", text)
	}
}

func TestRefusedInfill(t *testing.T) {
	none := start(t, Config{}, nil)
	capped := wiretest.Anyone()
	capped.Reasoning = reasoning.VisibilitySummary
	code := startModel(t, Config{}, nil, fake.Config{Vocab: fake.Code(), ChatTemplate: fake.ThinkTemplate})
	for _, c := range []struct {
		f                 *fixture
		path, body, param string
		status            int
	}{
		{none, "/infill", `{"input_prefix":"a","input_suffix":"b"}`, "input_suffix", 400},
		{code, "/infill", `{"n":2}`, "n", 400},
		{code, "/infill", `{"input_suffix":"` + strings.Repeat("abc ", 1<<14) + `"}`, "prompt", 400},
		{code, "/v1/completions", `{"prompt":[1],"suffix":"b"}`, "prompt", 400},
		{start(t, Config{}, capped), "/infill", `{"input_prefix":"a"}`, "input_prefix", 403},
	} {
		a := c.f.post(c.path, c.body)
		if e := a.failing(t); a.status != c.status || e.Param == nil || *e.Param != c.param {
			t.Errorf("%.80s: %d %s", c.body, a.status, a.body)
		}
	}
}
