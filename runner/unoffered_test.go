package runner

import (
	"slices"
	"strings"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/fake"
	"runner/chattemplate"
	"runner/chattemplate/reader"
	"runner/generation"
	"runner/reasoning"
)

// A model that is sure of a function that is not offered is not led into another one, where it is free not to call.
func TestUnofferedNamesArePassedOn(t *testing.T) {
	offered := []chattemplate.Tool{
		{Name: "delete_file", Parameters: []byte(`{"type":"object","properties":{"path":{"type":"string"}}}`)},
		{Name: "list"},
	}
	const header, arguments = "<|channel|>commentary to=functions.", ` <|constrain|>json<|message|>{"path":"."}<|call|>`
	long := strings.Repeat("very_", 20)
	for name, c := range map[string]struct {
		writes, calls string
		set           func(*generation.Request)
		model         fake.Config
		offered       bool
	}{
		"another name":       {writes: header + "remove" + arguments, calls: "remove"},
		"a name that begins": {writes: header + "list_files" + arguments, calls: "list_files"},
		"channel at the end": {writes: " to=functions.remove<|channel|>commentary" + arguments, calls: "remove"},
		"without namespace":  {writes: "<|channel|>commentary to=remove" + arguments, calls: "remove"},
		"a long name":        {writes: header + long + arguments, calls: long[:64]},
		"an offered name":    {writes: header + "list" + arguments, calls: "list", offered: true},
		"no name":            {writes: header + "<|message|>{}<|call|>", offered: true},
		"odd characters":     {writes: header + "öffne" + arguments, offered: true},
		"required": {writes: header + "remove" + arguments, offered: true,
			set: func(q *generation.Request) { q.ToolChoice = generation.ToolChoiceRequired }},
		"a named function": {writes: header + "remove" + arguments, calls: "list", offered: true,
			set: func(q *generation.Request) { q.ToolChoice, q.ToolName = generation.ToolChoiceFunction, "list" }},
		"strict": {writes: header + "remove" + arguments, offered: true,
			set: func(q *generation.Request) { q.Tools[0].Strict = true }},
		"an engine that may follow the constraint": {writes: header + "remove" + arguments, offered: true,
			model: fake.Config{Pace: func(int, int) time.Duration { return 0 }}},
	} {
		t.Run(name, func(t *testing.T) {
			c.model.Vocab = fake.Harmony()
			c.model.Script = fake.Replies(c.model.Vocab, fake.Reply{After: ask("q"), Say: c.writes})
			f := start(t, c.model, Config{})
			req := user("q")
			req.Tools, req.MaxTokens, req.Visibility = slices.Clone(offered), 120, reasoning.VisibilityFull
			if c.set != nil {
				c.set(&req)
			}
			g := f.must(t, req)
			if len(g.calls) == 0 {
				t.Fatalf("no call in %v", g.text)
			}
			called := g.calls[0].Name
			if is := called == "delete_file" || called == "list"; is != c.offered || c.calls != "" && called != c.calls {
				t.Errorf("called %q", called)
			}
			if warned := slices.Contains(g.codes, reader.CodeUnknownFunction); warned == c.offered {
				t.Errorf("warnings %v", g.codes)
			}
			if !c.offered && c.calls != long[:64] && g.text[reasoning.ToolCall] != `{"path":"."}` {
				t.Errorf("arguments %q", g.text[reasoning.ToolCall])
			}
		})
	}
}

// A model that leaves its choice some room is held to it, and a warning says so.
func TestHeldFunctionsAreWarnedOf(t *testing.T) {
	v := fake.Harmony()
	for name, c := range map[string]struct {
		weight float32 // of the other name
		code   string
	}{"hardly any": {14, reader.CodeFunctionHeld}, "none": {0, reader.CodeUnknownFunction}} {
		f := start(t, fake.Config{Vocab: v, Script: fake.Replies(v, fake.Reply{After: ask("q"),
			Say: "<|channel|>commentary to=functions.remove<|message|>{}<|call|>"}), Vote: c.weight}, Config{})
		req := user("q")
		req.Tools, req.MaxTokens = addTool, 60
		g := f.must(t, req)
		if !slices.Contains(g.codes, c.code) || len(g.calls) != 1 || (g.calls[0].Name == "add") != (name == "hardly any") {
			t.Errorf("%s: warnings %v, calls %v", name, g.codes, g.calls)
		}
	}
}

// A model that is not sure of its name is held to what is offered.
func TestUnsureModelsAreHeldToWhatIsOffered(t *testing.T) {
	v := fake.Harmony()
	said := fake.Encode(v, "<|channel|>commentary to=functions")
	for seed := range uint64(20) {
		f := start(t, fake.Config{Vocab: v, Script: func(tokens []backend.Token) backend.Token {
			begin := fake.Encode(v, "<|start|>assistant")
			for n := range said {
				if k := len(tokens) - n - len(begin); k >= 0 && slices.Equal(tokens[k:], append(begin, said[:n]...)) {
					return said[n]
				}
			}
			return backend.NoToken
		}}, Config{})
		req := user("q")
		req.Tools, req.MaxTokens, req.Seed = addTool, 60, &seed
		req.Sampling.Temperature = 1
		g := f.must(t, req)
		if len(g.calls) > 0 && g.calls[0].Name != "add" {
			t.Errorf("called %q", g.calls[0].Name)
		}
	}
}
