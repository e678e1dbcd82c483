package server_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"runner/backend/fake"
	"runner/generation"
	"runner/reasoning"
	"runner/reasoning/prompts"
	"runner/server/agui"
	"runner/server/anthropic"
	"runner/server/ollama"
	"runner/server/openai"
	"runner/server/openai/responses"
	"runner/server/web"
	"runner/server/wire"
	"runner/server/wiretest"
)

// TestHiddenSpecialistsStayHidden checks that no format shows anything of a specialist's prompt or work unless
// reasoning was requested, and that all formats have the answer.
func TestHiddenSpecialistsStayHidden(t *testing.T) {
	const canary, answer = "zebra", "It is four."
	m := wiretest.New(t, fake.Config{},
		fake.Reply{After: "</delegate-reasoning><|end|><|start|>assistant", Say: wiretest.Think(canary, canary)},
		fake.Reply{After: "agent</return-control><|end|><|start|>assistant", Say: wiretest.Think(canary, answer)},
		fake.Reply{After: wiretest.Ask("q"), Say: wiretest.Call(canary, "", "delegate_internal_reasoning",
			`{"agent_prompt":"`+canary+`"}`)},
		fake.Reply{After: prompts.SummaryConciseV1 + "<|end|><|start|>assistant<|channel|>final<|message|>",
			Say: "Counted.<|return|>"})
	common := wire.Config{Defaults: generation.Request{Delegation: generation.Delegation{Model: true}}}
	said := `"messages":[{"role":"user","content":"q"}]`
	for _, f := range []struct {
		name   string
		format wire.Format
		path   string
		body   string
		full   string
	}{
		{"chat", openai.New(m, common), "/v1/chat/completions", said, `"reasoning":"full"`},
		{"responses", responses.New(m, responses.Config{Config: common}), "/v1/responses", `"input":"q"`,
			`"reasoning":"full"`},
		{"anthropic", anthropic.New(m, common), "/v1/messages", `"model":"` + wiretest.Name +
			`","max_tokens":2000,` + said,
			`"thinking":{"type":"enabled","budget_tokens":1900}`},
		{"ollama", ollama.New(m, ollama.Config{Config: common}), "/api/chat", `"model":"` + wiretest.Name + `",` + said,
			`"think":true`},
		{"agui", agui.New(m, common), "/agui",
			`"threadId":"t","runId":"r","protocolVersion":"1.0","messages":[{"id":"m","role":"user","content":"q"}]`,
			`"forwardedProps":{"reasoning":"full"}`},
		{"web", web.New(m, web.Config{Config: common}), "/web/chat", `"conversation":"c",` + said, `"reasoning":"full"`},
	} {
		url := wiretest.Serve(t, f.format, wiretest.Anyone()).URL
		for _, stream := range []string{"true", "false"} {
			for _, more := range []string{"", "," + f.full} {
				status, header, got := wiretest.Send(t, http.MethodPost, url+f.path, fmt.Sprintf(`{%s,"stream":%s%s}`, f.body,
					stream, more), nil)
				all := fmt.Sprint(header) + texts(got)
				if status != http.StatusOK || !strings.Contains(all, answer) {
					t.Errorf("%s%s: %d, %s", f.name, more, status, got)
				}
				if shows := strings.Contains(all, canary); shows != (more != "") {
					t.Errorf("%s%s, stream %s: the canary shows is %v: %s", f.name, more, stream, shows, got)
				}
			}
		}
	}
}

var (
	// pieces are the texts in a stream's events or in an answer. kinds are the kinds of the events.
	pieces = regexp.MustCompile(`"(content|delta|text|thinking|reasoning|reasoning_summary)":"((?:[^"\\]|\\.)*)"`)
	kinds  = regexp.MustCompile(`"type":"[^"]*"`)
)

// texts returns a body, followed by its texts with their pieces joined, so that words that were split can be found.
func texts(body string) string {
	all := map[string]string{}
	for line := range strings.Lines(body) {
		kind := kinds.FindString(line)
		for _, m := range pieces.FindAllStringSubmatch(line, -1) {
			all[kind+m[1]] += m[2]
		}
	}
	for _, text := range all {
		body += "\n" + text
	}
	return body
}

// TestSummariesBeforeCalls has runs end in a call of the client's function. Every format has the summary that was asked
// for, or says that there was no reasoning.
func TestSummariesBeforeCalls(t *testing.T) {
	const canary, sum = "zebra", "Counted."
	begin := "</delegate-reasoning><|end|><|start|>assistant"
	delegate := wiretest.Call(canary, "", "delegate_internal_reasoning", `{"agent_prompt":"`+canary+`"}`)
	m := wiretest.New(t, fake.Config{},
		fake.Reply{Prompt: "specialist", After: begin, Say: wiretest.Call(canary, "", "look", "{}")},
		fake.Reply{Prompt: "afterwards", After: begin, Say: wiretest.Think(canary, canary)},
		fake.Reply{Prompt: "afterwards", After: "agent</return-control><|end|><|start|>assistant", Say: onlyCall},
		fake.Reply{After: wiretest.Ask("specialist"), Say: delegate},
		fake.Reply{After: wiretest.Ask("afterwards"), Say: delegate},
		fake.Reply{After: wiretest.Ask("think"), Say: wiretest.Call(canary, "", "look", "{}")},
		fake.Reply{After: wiretest.Ask("call"), Say: onlyCall},
		fake.Reply{After: prompts.SummaryConciseV1 + "<|end|><|start|>assistant<|channel|>final<|message|>",
			Say: sum + "<|return|>"})
	common := wire.Config{Defaults: generation.Request{Visibility: reasoning.VisibilitySummary,
		Delegation: generation.Delegation{Model: true}}}
	const said = `"messages":[{"role":"user","content":"$Q"}]`
	const function = `"tools":[{"type":"function","function":{"name":"look","parameters":{"type":"object"}}}]`
	for _, f := range []struct {
		name   string
		format wire.Format
		path   string
		body   string
	}{
		{"chat", openai.New(m, common), "/v1/chat/completions", said + "," + function},
		{"responses", responses.New(m, responses.Config{Config: common}), "/v1/responses",
			`"input":"$Q","reasoning":{"summary":"auto"},` +
				`"tools":[{"type":"function","name":"look","parameters":{"type":"object"}}]`},
		{"anthropic", anthropic.New(m, common), "/v1/messages", `"model":"` + wiretest.Name +
			`","max_tokens":2000,"thinking":{"type":"adaptive","display":"summarized"},` + said +
			`,"tools":[{"name":"look","input_schema":{"type":"object"}}]`},
		{"ollama", ollama.New(m, ollama.Config{Config: common}), "/api/chat", `"model":"` + wiretest.Name + `",` +
			said + "," + function},
		{"agui", agui.New(m, common), "/agui",
			`"threadId":"t","runId":"r","protocolVersion":"1.0","messages":[{"id":"m","role":"user","content":"$Q"}],` +
				`"tools":[{"name":"look","description":"Looks.","parameters":{"type":"object"}}]`},
		{"agui, chunks", agui.New(m, common), "/agui",
			`"threadId":"t","runId":"r","messages":[{"id":"m","role":"user","content":"$Q"}],"forwardedProps":{"chunks":true},` +
				`"tools":[{"name":"look","description":"Looks.","parameters":{"type":"object"}}]`},
		{"web", web.New(m, web.Config{Config: common}), "/web/chat", `"conversation":"c",` + said +
			`,"tools":[{"name":"look","parameters":{"type":"object"}}]`},
	} {
		url := wiretest.Serve(t, f.format, wiretest.Anyone()).URL
		for _, stream := range []string{"true", "false"} {
			for _, question := range []string{"think", "call", "specialist", "afterwards"} {
				body := strings.ReplaceAll(f.body, "$Q", question)
				status, _, got := wiretest.Send(t, http.MethodPost, url+f.path, fmt.Sprintf(`{%s,"stream":%s}`, body, stream), nil)
				all := texts(got)
				if status != http.StatusOK || !strings.Contains(all, "look") || strings.Contains(all, canary) {
					t.Errorf("%s, %s: %d, %s", f.name, question, status, got)
				}
				if sums := strings.Contains(all, sum); sums != (question != "call") {
					t.Errorf("%s, %s, stream %s: the summary shows is %v: %s", f.name, question, stream, sums, got)
				}
				if misses := strings.Contains(all, generation.CodeReasoningUnavailable); misses != (question == "call") {
					t.Errorf("%s, %s, stream %s: it says that reasoning is missing is %v: %s", f.name, question, stream, misses, got)
				}
			}
		}
	}
}

const onlyCall = "<|channel|>commentary to=functions.look <|constrain|>json<|message|>{}<|call|>"
