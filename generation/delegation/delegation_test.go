package delegation

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"runner/chattemplate"
)

func TestInstructionsReadAndWritten(t *testing.T) {
	long := strings.Repeat("ab", 150)
	for _, c := range []struct {
		json             string
		want             Instruction
		label, xml, back string
	}{
		{`{"type":"delegate_reasoning","agentPrompt":"Check.","markIntermediate":true}`, Delegate{Prompt: "Check."},
			"delegate_reasoning:6:Check.", "<delegate-reasoning>Specialist active (6 chars)</delegate-reasoning>", ""},
		{`{"type":"delegate_reasoning","agentPrompt":"Check."}`, Delegate{Prompt: "Check."},
			"delegate_reasoning:6:Check.", "<delegate-reasoning>Specialist active (6 chars)</delegate-reasoning>",
			`{"type":"delegate_reasoning","agentPrompt":"Check.","markIntermediate":true}`},
		{`{"type":"com.gromozeka.domain.model.Conversation.Message.Instruction.DelegateReasoning","agentPrompt":"` + long +
			`","markIntermediate":false,"title":"x"}`,
			Delegate{Prompt: long, Shown: true}, "delegate_reasoning:300:" + long[:200],
			"<delegate-reasoning>Specialist active (300 chars)</delegate-reasoning>",
			`{"type":"delegate_reasoning","agentPrompt":"` + long + `","markIntermediate":false}`},
		{`{"type":"return_control"}`, Return{}, "return_control", "<return-control>Returning to main agent</return-control>",
			""},
		{`{"type":"com.gromozeka.bot.domain.model.Conversation.Message.Instruction.ReturnControl"}`, Return{},
			"return_control",
			"<return-control>Returning to main agent</return-control>", `{"type":"return_control"}`},
		{`{"type":"ReturnControl"}`, Return{}, "return_control",
			"<return-control>Returning to main agent</return-control>", `{"type":"return_control"}`},
		{`{"type":"DelegateReasoning","agentPrompt":"Check."}`, Delegate{Prompt: "Check."},
			"delegate_reasoning:6:Check.", "<delegate-reasoning>Specialist active (6 chars)</delegate-reasoning>",
			`{"type":"delegate_reasoning","agentPrompt":"Check.","markIntermediate":true}`},
		{`{"type":"IntermediateReasoning"}`, Intermediate{}, "intermediate",
			"<intermediate>Internal reasoning</intermediate>", `{"type":"intermediate_reasoning"}`},
		{`{"type":"intermediate_reasoning"}`, Intermediate{}, "intermediate",
			"<intermediate>Internal reasoning</intermediate>", ""},
		{`{"type":"com.gromozeka.domain.model.Conversation.Message.Instruction.IntermediateReasoning"}`, Intermediate{},
			"intermediate",
			"<intermediate>Internal reasoning</intermediate>", `{"type":"intermediate_reasoning"}`},
	} {
		got, err := Parse([]byte(c.json))
		if err != nil || got != c.want {
			t.Errorf("%s is %v, %v", c.json, got, err)
			continue
		}
		if c.back == "" {
			c.back = c.json
		}
		if back, err := json.Marshal(got); err != nil || string(back) != c.back {
			t.Errorf("%s comes back as %s, %v", c.json, back, err)
		}
		if got.Label() != c.label || got.XML() != c.xml {
			t.Errorf("%s: %q, %q", c.json, got.Label(), got.XML())
		}
	}
}

func TestInstructionsRefused(t *testing.T) {
	for text, code := range map[string]string{
		`[]`: CodeMalformed, `{"type":3}`: CodeMalformed, `{"type":"delegate_reasoning","agentPrompt":3}`: CodeMalformed,
		`{`:  CodeMalformed,
		`{}`: CodeUnknown, `{"type":"Delegate"}`: CodeUnknown,
		`{"type":"com.gromozeka.domain.model.Conversation.Message.Instruction.Nothing"}`: CodeUnknown,
		`{"type":"delegate_reasoning"}`:                                                     CodeBlank,
		`{"type":"delegate_reasoning","agentPrompt":" \u00a0\u2003\u001c\n"}`:               CodeBlank,
		`{"type":"delegate_reasoning","agentPrompt":"` + strings.Repeat("x", 50_001) + `"}`: CodeTooLong,
		// Outside the basic multilingual plane a character has two units.
		`{"type":"delegate_reasoning","agentPrompt":"` + strings.Repeat("😀", 25_000) + `x"}`: CodeTooLong,
	} {
		var refused *Error
		if in, err := Parse([]byte(text)); !errors.As(err, &refused) || refused.Code != code {
			t.Errorf("%.80s is %v, %v, not %s", text, in, err, code)
		}
	}
	for _, prompt := range []string{strings.Repeat("x", 50_000), strings.Repeat("😀", 25_000),
		strings.Repeat("é", 50_000)} {
		if err := (Delegate{Prompt: prompt}).Check(); err != nil {
			t.Errorf("%.10s...: %v", prompt, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"type":"delegate_reasoning","agentPrompt":"x😀","markIntermediate":null}`)
	f.Add(`{"type":"return_control"}`)
	f.Add(`{"type":"delegate_reasoning","agentPrompt":"\ud800"}`)
	f.Fuzz(func(t *testing.T, text string) {
		in, err := Parse([]byte(text))
		if err != nil {
			var refused *Error
			if !errors.As(err, &refused) || refused.Code == "" {
				t.Fatalf("%v", err)
			}
			return
		}
		if strings.Contains(in.XML(), "\n") {
			t.Errorf("%q is more than a line", in.XML())
		}
		if d, ok := in.(Delegate); ok && len(utf16.Encode([]rune(d.Prompt))) != units(d.Prompt) {
			t.Errorf("%d units", units(d.Prompt))
		}
		back, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Parse(back); err != nil || again != in {
			t.Errorf("%s is %v, %v", back, again, err)
		}
	})
}

func FuzzLabel(f *testing.F) {
	f.Add(strings.Repeat("x", 199) + "😀")
	f.Add("\xff😀")
	f.Fuzz(func(t *testing.T, prompt string) {
		first := firstUnits(prompt, labelled)
		whole := utf16.Encode([]rune(prompt))
		n := len(utf16.Encode([]rune(first)))
		if !strings.HasPrefix(prompt, first) || n > labelled || n < min(labelled, len(whole))-1 {
			t.Errorf("%d of %d units: %q", n, len(whole), first)
		}
	})
}

// TestStateOverRandomScripts: at most one specialist is active, an instruction that cannot be followed changes
// nothing, and after 50 steps the original prompt is back.
func TestStateOverRandomScripts(t *testing.T) {
	for seed := range uint64(500) {
		draw := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // a test that can be repeated
		var s State
		active, steps := "", 0
		for range 120 {
			switch draw.IntN(5) {
			case 0:
				d := Delegate{Prompt: string(rune('a' + draw.IntN(26))), Shown: draw.IntN(2) == 0}
				err := s.Apply(d)
				if (err == nil) != (active == "") {
					t.Fatalf("seed %d: %v while %q is active", seed, err, active)
				}
				if err == nil {
					active = d.Prompt
				}
			case 1:
				if err := s.Apply(Return{}); (err == nil) != (active != "") {
					t.Fatalf("seed %d: %v", seed, err)
				}
				active = ""
			case 2:
				if err := s.Apply(Delegate{Prompt: " "}); err == nil {
					t.Fatal("a blank prompt")
				}
			case 3:
				if err := s.Apply(Intermediate{}); err != nil {
					t.Fatal(err)
				}
			case 4:
				steps++
				last := s.Step()
				if last != (steps >= 50) {
					t.Fatalf("step %d is the last: %v", steps, last)
				}
				if last {
					active = ""
				}
			}
			d, on := s.Active()
			if on != (active != "") || d.Prompt != active {
				t.Fatalf("seed %d: %v, %v, want %q", seed, d, on, active)
			}
		}
		s.Restore()
		if _, on := s.Active(); on {
			t.Fatal("still active")
		}
	}
}

func TestReplay(t *testing.T) {
	u, a := chattemplate.Message{Role: chattemplate.User}, chattemplate.Message{Role: chattemplate.Assistant, Content: "x"}
	call := chattemplate.Message{Role: chattemplate.Assistant, ToolCalls: []chattemplate.ToolCall{{ID: "1", Name: "f"}}}
	result := chattemplate.Message{Role: chattemplate.ToolRole, ToolCallID: "1"}
	of := func(list ...Instruction) []Instruction { return list }
	d := Delegate{Prompt: "p"}
	for name, c := range map[string]struct {
		messages     []chattemplate.Message
		instructions map[int][]Instruction
		active       bool
		code         string
	}{
		"nothing":   {[]chattemplate.Message{u, a, u}, nil, false, ""},
		"asked for": {[]chattemplate.Message{u}, map[int][]Instruction{0: of(d)}, true, ""},
		"answered":  {[]chattemplate.Message{u, a, u}, map[int][]Instruction{0: of(d)}, false, ""},
		"at work": {[]chattemplate.Message{u, a, u}, map[int][]Instruction{0: of(d), 1: of(Intermediate{})}, true,
			""},
		"in a call": {[]chattemplate.Message{u, call, result}, map[int][]Instruction{0: of(d)}, true, ""},
		"returned": {[]chattemplate.Message{u, a, u},
			map[int][]Instruction{0: of(d), 1: of(Intermediate{}, Return{})}, false, ""},
		"called back": {[]chattemplate.Message{u, call, result}, map[int][]Instruction{0: of(d), 2: of(Return{})},
			false, ""},
		"carried by a call": {[]chattemplate.Message{u, call, result}, map[int][]Instruction{1: of(d)}, true, ""},
		"nobody to return":  {[]chattemplate.Message{u}, map[int][]Instruction{0: of(Return{})}, false, ""},
		"nested":            {[]chattemplate.Message{u, u}, map[int][]Instruction{0: of(d), 1: of(d)}, true, CodeNested},
		"nested in a message": {[]chattemplate.Message{u, u}, map[int][]Instruction{1: of(d, Intermediate{}, d)}, true,
			CodeNested},
		"one after another":   {[]chattemplate.Message{u, a, u}, map[int][]Instruction{0: of(d), 2: of(d)}, true, ""},
		"a prompt that isn't": {[]chattemplate.Message{u}, map[int][]Instruction{0: of(Delegate{})}, false, CodeBlank},
	} {
		s, at, n, err := Replay(c.messages, c.instructions)
		_, on := s.Active()
		var refused *Error
		if on != c.active || (err != nil) != (c.code != "") || errors.As(err, &refused) && refused.Code != c.code {
			t.Errorf("%s: active %v, %v", name, on, err)
		}
		if want := map[string][2]int{"nested": {1, 0}, "nested in a message": {1, 2}}[name]; [2]int{at, n} != want {
			t.Errorf("%s: wrong is instruction %d of message %d, want %v", name, n, at, want)
		}
	}
}

func TestCompose(t *testing.T) {
	msg := func(r chattemplate.Role, text string) chattemplate.Message {
		return chattemplate.Message{Role: r, Content: text}
	}
	d := Delegate{Prompt: "SPECIAL <fixed>mine</fixed>"}
	q := msg(chattemplate.User, "q")
	for name, c := range map[string]struct {
		prompts []chattemplate.Message
		want    []string // in this order, above the specialist's
		not     string
	}{
		"none": {nil, nil, "adds to what is said above"},
		"operator": {[]chattemplate.Message{msg(chattemplate.System, "OPERATOR")},
			[]string{"OPERATOR", "changes none of it"}, "\x00"},
		"developer": {[]chattemplate.Message{msg(chattemplate.Developer, "AGENT")}, nil, "AGENT"},
		"fixed": {[]chattemplate.Message{msg(chattemplate.System, "OPERATOR"),
			msg(chattemplate.Developer, "AGENT <fixed>SAFE</fixed> AGENT <fixed>TO THE END")},
			[]string{"OPERATOR", "<fixed>SAFE</fixed>", "<fixed>TO THE END</fixed>"}, "AGENT"},
	} {
		messages := append(slices.Clone(c.prompts), q)
		before := slices.Clone(messages)
		got := Compose(messages, d)
		if !slices.EqualFunc(messages, before, func(a, b chattemplate.Message) bool {
			return a.Content == b.Content && a.Role == b.Role
		}) {
			t.Errorf("%s: the conversation was changed", name)
		}
		if len(got) != 2 || got[1].Content != "q" || got[0].Role != chattemplate.System &&
			got[0].Role != chattemplate.Developer {
			t.Fatalf("%s: %v", name, got)
		}
		text, from := got[0].Content, 0
		for _, w := range append(c.want, d.Prompt, d.XML()) {
			at := strings.Index(text[from:], w)
			if at < 0 {
				t.Errorf("%s: %q is not there, or not in its place:\n%s", name, w, text)
				break
			}
			from += at + len(w)
		}
		if strings.Contains(text, c.not) {
			t.Errorf("%s: %q is there:\n%s", name, c.not, text)
		}
	}
}

func TestCalls(t *testing.T) {
	for arguments, code := range map[string]string{
		`{"agent_prompt":"x"}`: "", `{"agent_prompt":" "}`: CodeBlank, `{"agent_prompt":3}`: CodeMalformed,
		`{}`: CodeMalformed, ``: CodeMalformed,
		`{"agent_prompt":"x"`: CodeMalformed, `{"agent_prompt":"` + strings.Repeat("x", 50_001) + `"}`: CodeTooLong,
	} {
		_, err := Call(DelegateName, arguments)
		var refused *Error
		if (err == nil) != (code == "") || err != nil && (!errors.As(err, &refused) || refused.Code != code ||
			!strings.HasPrefix(refused.Text(), "Error: ")) {
			t.Errorf("%.40s: %v, want %q", arguments, err, code)
		}
	}
	if in, err := Call(ReturnName, "whatever"); err != nil || in != (Return{}) {
		t.Errorf("%v, %v", in, err)
	}
	for _, tool := range Tools(100) {
		if !IsTool(tool.Name) || len(tool.Parameters) > 0 && !json.Valid(tool.Parameters) {
			t.Errorf("%+v", tool)
		}
	}
}

func TestMarkAndDrop(t *testing.T) {
	messages := []chattemplate.Message{
		{Role: chattemplate.User, Content: "q"}, {Role: chattemplate.Assistant, Content: "work"},
		{Role: chattemplate.Assistant, Content: "answer"},
	}
	of := map[int][]Instruction{0: {Delegate{Prompt: "secret"}}, 1: {Intermediate{}, Return{}}}
	marked := Mark(messages, of)
	if marked[0].Content != "q" ||
		marked[1].Content != "<intermediate>Internal reasoning</intermediate>\n<return-control>Returning to main "+
			"agent</return-control>\nwork" ||
		marked[2].Content != "answer" || messages[0].Content != "q" {
		t.Errorf("%q", marked)
	}
	kept, left := Drop(messages, of)
	if len(kept) != 2 || kept[1].Content != "answer" || len(left) != 1 || len(left[0]) != 1 {
		t.Errorf("%v, %v", kept, left)
	}
	// Calls stay with their results. A mark on a message of another role drops nothing.
	messages[1].ToolCalls = []chattemplate.ToolCall{{ID: "1", Name: "f"}}
	of[0] = []Instruction{Intermediate{}}
	if kept, left = Drop(messages, of); len(kept) != 3 || len(left) != 2 || len(left[1]) != 2 {
		t.Errorf("%v, %v", kept, left)
	}
}
