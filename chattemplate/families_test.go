package chattemplate_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"runner/backend"
	"runner/chattemplate"
	"runner/chattemplate/family"
	"runner/chattemplate/markup"
	"runner/chattemplate/readertest"
	"runner/chattemplate/vocabtest"
	"runner/conformance"
	"runner/reasoning"
)

// templateNames lists the reference templates.
func templateNames(t testing.TB) (dir string, names []string) {
	t.Helper()
	dir = conformance.Dir(t, "chat_templates")
	files, err := filepath.Glob(filepath.Join(dir, "*.jinja"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), ".jinja"))
	}
	if len(names) < 36 {
		t.Errorf("only %d reference templates", len(names))
	}
	return dir, names
}

func readTemplate(t testing.TB, dir, name string) string {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(dir, name+".jinja"))
	if err != nil {
		t.Fatal(err)
	}
	return string(source)
}

var specialPattern = regexp.MustCompile(
	`<\|[^<>|{}\s]{1,30}\|>|</?[a-z_:|]{2,24}>|<[|｜][^<>{}\s]{1,30}[|｜]?>|<[a-z_]{2,20}\|>|\[/?[A-Z_]{2,24}\]|\[gMASK\]`)

// specialsOf returns the strings of a template that look like special tokens.
func specialsOf(source string) []string {
	found := []string{"<s>", "</s>", "<unk>"}
	if strings.Contains(source, "<|channel|>") {
		found = append(found, vocabtest.Harmony()...)
	}
	for _, s := range specialPattern.FindAllString(source, -1) {
		if !slices.Contains(found, s) {
			found = append(found, s)
		}
	}
	return found
}

// familyTemplate compiles a reference template for a vocabulary with all of its special strings as control tokens.
func familyTemplate(t testing.TB, source string) (family.Family, *backend.Vocab) {
	t.Helper()
	specials := specialsOf(source)
	c := backend.VocabConfig{BOS: 256, EOS: 257, EOG: []backend.Token{257}}
	vocab := vocabtest.With(t, c, specials...)
	return mustNew(t, chattemplate.Config{Vocab: vocab, Tokenize: vocabtest.Tokenize, Source: source, ForceJinja: true}),
		vocab
}

// TestFamilies lists the family of every reference template.
func TestFamilies(t *testing.T) {
	dir, names := templateNames(t)
	think := func(open, close string, skip, tools bool) markup.Format {
		return markup.Format{Open: open, Close: close, CanSkip: skip, Tools: tools}
	}
	plain := func(tools bool) markup.Format { return markup.Format{Tools: tools} }
	type place = chattemplate.Start
	const (
		turn     = chattemplate.StartTurn
		thinking = chattemplate.StartReasoning
		answer   = chattemplate.StartAnswer
	)
	for name, want := range map[string]struct {
		format markup.Format
		// Where the model begins with the default effort, high effort and none.
		usual, high, none place
	}{
		"Apertus-8B-Instruct": {think("<|inner_prefix|>", "<|inner_suffix|>", true, true), turn,
			turn, turn},
		"Apriel-1.6-15b-Thinker-fixed": {think("Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]",
			false, true), thinking, thinking, answer},
		"CohereForAI-c4ai-command-r7b-12-2024-tool_use": {markup.Format{Open: "<|START_THINKING|>", Close: "<|END_THINKING|>",
			AnswerOpen:  "<|START_RESPONSE|>",
			AnswerClose: "<|END_RESPONSE|>", CanSkip: true, Tools: true}, answer, turn, answer},
		"GLM-4.7-Flash": {think("<think>", "</think>", true, true), thinking,
			thinking, answer},
		"GigaChat3.1-10B-A1.8B":                         {plain(true), turn, turn, turn},
		"HuggingFaceTB-SmolLM3-3B":                      {think("<think>", "</think>", true, false), turn, turn, answer},
		"Kimi-K2-Instruct":                              {plain(true), turn, turn, turn},
		"LFM2.5-Instruct":                               {think("<think>", "</think>", false, true), turn, turn, answer},
		"MiMo-VL":                                       {plain(true), turn, turn, turn},
		"Mistral-Small-3.2-24B-Instruct-2506":           {plain(true), turn, turn, turn},
		"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use": {plain(true), turn, turn, turn},
		"NousResearch-Hermes-3-Llama-3.1-8B-tool_use":   {plain(true), turn, turn, turn},
		"Qwen-QwQ-32B": {think("<think>", "</think>", true, true), answer,
			thinking, answer},
		"Qwen-Qwen2.5-7B-Instruct": {plain(true), turn, turn, turn},
		"Qwen-Qwen3-0.6B":          {think("<think>", "</think>", true, true), turn, turn, answer},
		"Reka-Edge":                {think("<think>", "</think>", true, true), turn, thinking, turn},
		"StepFun3.5-Flash":         {think("<think>", "</think>", false, true), thinking, thinking, answer},
		"deepseek-ai-DeepSeek-R1-Distill-Llama-8B": {think("<think>", "</think>", false, false), thinking,
			thinking, answer},
		"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": {think("<think>", "</think>", true, false), answer, thinking, answer},
		"deepseek-ai-DeepSeek-V3.1":                {think("<think>", "</think>", true, false), answer, thinking, answer},
		"deepseek-ai-DeepSeek-V4":                  {think("<think>", "</think>", true, true), answer, thinking, answer},
		"fireworks-ai-llama-3-firefunction-v2":     {plain(true), turn, turn, turn},
		"google-gemma-2-2b-it":                     {plain(false), turn, turn, turn},
		"google-gemma-4-31B-it-interleaved": {think("<|channel>thought", "<channel|>", true, true), answer,
			turn, answer},
		"ibm-granite-granite-3.3-2B-Instruct": {markup.Format{Open: "<think>",
			Close: "</think>", AnswerOpen: "<response>", AnswerClose: "</response>", CanSkip: true, Tools: true}, turn,
			turn, turn},
		"llama-cpp-deepseek-r1":                {think("<think>", "</think>", false, false), thinking, thinking, answer},
		"llama-cpp-rwkv-world":                 {think("<think>", "</think>", true, false), turn, thinking, answer},
		"meetkai-functionary-medium-v3.1":      {plain(true), turn, turn, turn},
		"meetkai-functionary-medium-v3.2":      {plain(true), turn, turn, turn},
		"meta-llama-Llama-3.1-8B-Instruct":     {plain(true), turn, turn, turn},
		"meta-llama-Llama-3.2-3B-Instruct":     {plain(true), turn, turn, turn},
		"microsoft-Phi-3.5-mini-instruct":      {plain(false), turn, turn, turn},
		"mistralai-Mistral-Nemo-Instruct-2407": {plain(true), turn, turn, turn},
		"moonshotai-Kimi-K2":                   {plain(true), turn, turn, turn},
		"openai-gpt-oss-120b":                  {readertest.HarmonyFormat, turn, turn, answer},
		"unsloth-mistral-Devstral-Small-2507":  {plain(true), turn, turn, turn},
	} {
		t.Run(name, func(t *testing.T) {
			if !slices.Contains(names, name) {
				t.Fatal("no such template")
			}
			tmpl, _ := familyTemplate(t, readTemplate(t, dir, name))
			got := readertest.FormatOf(tmpl)
			got.Calls = nil // see TestCallStyles
			if got != want.format {
				t.Errorf("Format() = %+v\nwant       %+v", got, want.format)
			}
			for _, at := range []struct {
				effort reasoning.Effort
				want   place
			}{{reasoning.EffortDefault, want.usual}, {reasoning.EffortHigh, want.high},
				{reasoning.EffortNone, want.none}} {
				c := messages(user("Hi"))
				c.Effort, c.Now = at.effort, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
				p := mustRender(t, tmpl, c)
				if p.Start != at.want {
					t.Errorf("effort %q starts at %d, want %d: ...%q", at.effort, p.Start, at.want, p.Text[max(0, len(p.Text)-60):])
				}
			}
		})
	}
	if len(names) > 36 {
		t.Logf("%d templates, of which this table states 36", len(names))
	}
}

// referenceMessage is a message of conversations.json.
type referenceMessage struct {
	Role, Content, Thinking, Name string
	ReasoningContent              string `json:"reasoning_content"`
	ToolCallID                    string `json:"tool_call_id"`
	ToolCalls                     []struct {
		ID       string
		Function struct {
			Name      string
			Arguments json.RawMessage
		}
	} `json:"tool_calls"`
}

type referenceConversation struct {
	Messages []referenceMessage
	Tools    []struct{ Function chattemplate.Tool }
	Kwargs   map[string]any
}

// conversation converts a reference conversation.
func (r *referenceConversation) conversation(now time.Time) chattemplate.Conversation {
	c := chattemplate.Conversation{Now: now, Args: r.Kwargs}
	for _, tool := range r.Tools {
		c.Tools = append(c.Tools, tool.Function)
	}
	for _, m := range r.Messages {
		msg := chattemplate.Message{
			Role: chattemplate.Role(m.Role), Content: m.Content, Reasoning: m.ReasoningContent,
			ToolCallID: m.ToolCallID, ToolName: m.Name,
		}
		for _, call := range m.ToolCalls {
			msg.ToolCalls = append(msg.ToolCalls, chattemplate.ToolCall{ID: call.ID, Name: call.Function.Name,
				Arguments: string(call.Function.Arguments)})
		}
		c.Messages = append(c.Messages, msg)
	}
	return c
}

// TestReferenceTemplates renders the reference conversations through the package's own variables. If the reference has
// a text, the prompt must equal it. If it raises an error, the package may find a form that the template accepts.
func TestReferenceTemplates(t *testing.T) {
	dir, names := templateNames(t)
	var file struct {
		Now           string                           `json:"strftime_now"`
		Conversations map[string]referenceConversation `json:"conversations"`
	}
	raw, err := os.ReadFile(filepath.Join(dir, "conversations.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	now, err := time.Parse("2006-01-02T15:04:05", file.Now)
	if err != nil {
		t.Fatal(err)
	}
	// These renderings differ on purpose: the template would lose part of the conversation or encode it twice.
	const noPlace = "has no place for calls, so they stand in the text"
	better := map[string]string{
		"LFM2.5-Instruct tool_result":                      noPlace,
		"LFM2.5-Instruct tool_pending":                     noPlace,
		"ibm-granite-granite-3.3-2B-Instruct tool_result":  noPlace,
		"ibm-granite-granite-3.3-2B-Instruct tool_pending": noPlace,
		"moonshotai-Kimi-K2 tool_result":                   "a result has the id that its call has in the prompt",
		"moonshotai-Kimi-K2 tool_pending":                  "likewise",
	}
	same, found, refused := 0, 0, 0
	for _, name := range names {
		tmpl, _ := familyTemplate(t, readTemplate(t, dir, name))
		raw, err := os.ReadFile(filepath.Join(dir, name+".expected.json"))
		if err != nil {
			t.Fatal(err)
		}
		var expected map[string]struct{ Rendered *string }
		if err := json.Unmarshal(raw, &expected); err != nil {
			t.Fatal(err)
		}
		for conv, r := range file.Conversations {
			p, err := tmpl.Render(r.conversation(now))
			switch want := expected[conv].Rendered; {
			case err != nil && want != nil && len(r.Tools) > 0 && !readertest.FormatOf(tmpl).Tools:
				refused++
			case err != nil && want != nil:
				t.Errorf("%s, %s: %v", name, conv, err)
			case err == nil && want == nil:
				found++
			case err == nil && p.Text == *want:
				same++
			case err == nil:
				if better[name+" "+conv] == "" {
					t.Errorf("%s, %s: got\n%q\nwant\n%q", name, conv, p.Text, *want)
				}
			}
		}
	}
	t.Logf(
		"%d renderings as in the reference, %d found where the reference fails, %d refused for tools that would be lost",
		same, found, refused)
}

// TestContinues checks which reference templates let the model continue a last message: only Apriel's, for the
// assistant's messages, and none for a user's.
func TestContinues(t *testing.T) {
	dir, names := templateNames(t)
	given := chattemplate.Message{Role: chattemplate.Assistant, Content: "Let me think"}
	for _, name := range names {
		tmpl, _ := familyTemplate(t, readTemplate(t, dir, name))
		for _, last := range []bool{false, true} {
			c := messages(user("Hi"))
			if last {
				c = messages(user("Hi"), given)
			}
			c.Now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			p, err := tmpl.Render(c)
			if err != nil {
				continue // it does not accept such a conversation
			}
			if want := last && strings.HasPrefix(name, "Apriel"); p.Continues != want {
				t.Errorf("%s, ending with the assistant's message %v: %v: ...%q", name, last, p.Continues,
					p.Text[max(0, len(p.Text)-60):])
			}
		}
	}
	c := messages(user("Hi"), given)
	c.Effort = reasoning.EffortNone
	tmpl, _ := familyTemplate(t, readTemplate(t, dir, "Apriel-1.6-15b-Thinker-fixed"))
	if p := mustRender(t, tmpl, c); p.Continues {
		t.Errorf("where the reasoning is skipped the prompt ends in the template's words: ...%q",
			p.Text[max(0, len(p.Text)-60):])
	}
}

// Agents send system prompts in the middle of a conversation, two messages of the user in a row, and results in another
// order than the calls. Every template takes them, and loses nothing.
func TestTemplatesTakeWhatAgentsSend(t *testing.T) {
	dir, names := templateNames(t)
	say := func(role chattemplate.Role, text string) chattemplate.Message {
		return chattemplate.Message{Role: role, Content: text}
	}
	ask, answer := say(chattemplate.User, "Ask."), say(chattemplate.Assistant, "Answer.")
	later := say(chattemplate.System, "Remember.")
	result := func(id, text string) chattemplate.Message {
		return chattemplate.Message{Role: chattemplate.ToolRole, ToolCallID: id, Content: text}
	}
	call := chattemplate.Message{Role: chattemplate.Assistant, ToolCalls: []chattemplate.ToolCall{
		{ID: "one", Name: "add", Arguments: `{"a":1}`}, {ID: "two", Name: "add", Arguments: `{"a":2}`}}}
	for _, name := range names {
		tmpl, _ := familyTemplate(t, readTemplate(t, dir, name))
		render := func(msgs ...chattemplate.Message) string {
			p, err := tmpl.Render(chattemplate.Conversation{Messages: msgs, Now: time.Unix(0, 0)})
			if err != nil {
				return ""
			}
			return p.Text
		}
		if render(ask, answer, ask) == "" {
			t.Errorf("%s renders no conversation", name)
			continue
		}
		for what, msgs := range map[string][]chattemplate.Message{
			"a later prompt":                      {ask, answer, later, say(chattemplate.User, "Then.")},
			"a prompt at the end":                 {ask, answer, say(chattemplate.User, "Then."), later},
			"a prompt before a greeting's answer": {answer, later, say(chattemplate.User, "Then.")},
		} {
			p := render(msgs...)
			if what == "a prompt before a greeting's answer" && render(answer, ask) == "" {
				continue // the template takes no greeting
			}
			if !strings.Contains(p, "Remember.") || !strings.Contains(p, "Then.") {
				t.Errorf("%s, %s: %q", name, what, p)
			}
		}
		if p := render(ask, say(chattemplate.User, "Then.")); !strings.Contains(p, "Ask.") || !strings.Contains(p, "Then.") {
			t.Errorf("%s, two messages in a row: %q", name, p)
		}
		inOrder := render(ask, call, result("one", "first"), result("two", "second"))
		if swapped := render(ask, call, result("two", "second"), result("one", "first")); swapped != inOrder {
			t.Errorf("%s, results in another order: %q\nwant %q", name, swapped, inOrder)
		}
		if inOrder == "" {
			continue
		}
		if p := render(ask, call, result("one", "first"), result("two", "second"), later); !strings.Contains(p, "Remember.") {
			t.Errorf("%s, a prompt after results: %q", name, p)
		}
	}
}
