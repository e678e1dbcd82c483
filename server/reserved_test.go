package server_test

import (
	"net/http"
	"strings"
	"testing"

	"runner/backend/fake"
	"runner/reasoning"
	"runner/server/agui"
	"runner/server/anthropic"
	"runner/server/ollama"
	"runner/server/openai"
	"runner/server/openai/responses"
	"runner/server/web"
	"runner/server/wire"
	"runner/server/wiretest"
)

// TestTheNameOfTheReportIsReserved offers a function called report_reasoning in every format that has functions, with
// each strategy that the format can choose. It is refused before anything is generated, even if no tool may be called.
// A similar name is allowed.
func TestTheNameOfTheReportIsReserved(t *testing.T) {
	m := wiretest.New(t, fake.Config{}, fake.Reply{After: wiretest.Ask("q"), Say: wiretest.Think("hm", "Four.")})
	const said = `"messages":[{"role":"user","content":"q"}],`
	const named = `"model":"` + wiretest.Name + `",`
	for _, f := range []struct {
		name   string
		format wire.Format
		path   string
		body   string
		// none chooses no tool. strategy is a field with $S.
		none, strategy string
	}{
		{"chat", openai.New(m, openai.Config{}), "/v1/chat/completions",
			`{` + said + `$M"tools":[{"type":"function","function":{"name":"$N"}}]}`,
			`"tool_choice":"none",`, `"reasoning_strategy":"$S",`},
		{"responses", responses.New(m, responses.Config{}), "/v1/responses",
			`{"input":"q",$M"tools":[{"type":"function","name":"$N"}]}`,
			`"tool_choice":"none",`, `"reasoning_strategy":"$S",`},
		{"anthropic", anthropic.New(m, anthropic.Config{}), "/v1/messages",
			`{` + named + `"max_tokens":200,` + said + `$M"tools":[{"name":"$N","input_schema":{"type":"object"}}]}`,
			`"tool_choice":{"type":"none"},`, ""},
		{"anthropic, counted", anthropic.New(m, anthropic.Config{}), "/v1/messages/count_tokens",
			`{` + named + said + `$M"tools":[{"name":"$N","input_schema":{"type":"object"}}]}`, "", ""},
		{"ollama", ollama.New(m, ollama.Config{}), "/api/chat",
			`{` + named + said + `$M"stream":false,"tools":[{"type":"function","function":{"name":"$N"}}]}`, "", ""},
		{"web", web.New(m, web.Config{}), "/web/chat",
			`{"conversation":"c",` + said + `$M"tools":[{"name":"$N","parameters":{"type":"object"}}]}`,
			`"tool_choice":"none",`, `"reasoning_strategy":"$S",`},
		{"agui", agui.New(m, agui.Config{}), "/agui",
			`{"threadId":"t","runId":"r","protocolVersion":"1.0","forwardedProps":{$M"x":1},` +
				`"messages":[{"id":"m","role":"user","content":"q"}],` +
				`"tools":[{"name":"$N","description":"","parameters":{"type":"object"}}]}`,
			`"tool_choice":"none",`, `"reasoning_strategy":"$S",`},
	} {
		url := wiretest.Serve(t, f.format, wiretest.Anyone()).URL
		fields := []string{"", f.none}
		if f.strategy != "" {
			for _, s := range []reasoning.Strategy{reasoning.StrategyNative, reasoning.StrategyTool, reasoning.StrategyMarkers} {
				fields = append(fields, strings.ReplaceAll(f.strategy, "$S", string(s)))
			}
		}
		for _, field := range fields {
			send := func(name string) (int, string) {
				body := strings.NewReplacer("$M", field, "$N", name).Replace(f.body)
				status, _, got := wiretest.Send(t, http.MethodPost, url+f.path, body, nil)
				return status, got
			}
			status, got := send(reasoning.ReportReasoningName)
			if status != http.StatusBadRequest || !strings.Contains(got, reasoning.ReportReasoningName) ||
				!strings.Contains(got, "tools") || !strings.Contains(got, "rename the function") {
				t.Errorf("%s %s: %d, %s", f.name, field, status, got)
			}
			if status, got = send("report_reasonings"); status != http.StatusOK {
				t.Errorf("%s %s, another name: %d, %s", f.name, field, status, got)
			}
		}
	}
}
