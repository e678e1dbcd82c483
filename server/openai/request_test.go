package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"runner/chattemplate"
	"runner/generation"
	"runner/reasoning"
	"runner/server/wire"
	"runner/server/wiretest"
)

// readBody reads a chat completion's body as the handler does.
func readBody(t testing.TB, body string) (*chatOrder, error) {
	t.Helper()
	var b ChatRequest
	if err := wire.Unmarshal([]byte(body), &b); err != nil {
		return nil, err
	}
	return New(nil, Config{Seal: keys(), Random: zeros{}}).readChat(wiretest.Anyone(), &b)
}

// The error names the path of the field that is wrong.
func TestRefusedFields(t *testing.T) {
	msg := func(m string) string { return `{"messages":[` + m + `]}` }
	user := `{"role":"user","content":"q"}`
	with := func(fields string) string { return body("q", fields) }
	tool := func(f string) string { return with(`"tools":[` + f + `]`) }
	deep := strings.Repeat("[", 200) + strings.Repeat("]", 200)
	for _, c := range []struct{ body, param, says string }{
		{`{}`, "messages", "at least one"},
		{`{"messages":[]}`, "messages", "at least one"},
		{`{"messages":null}`, "messages", "at least one"},
		{`{"messages":{}}`, "messages", "a list"},
		{`{"messages":[3]}`, "messages[0]", "object"},
		{`{"messages":[null]}`, "messages[0]", "object"},
		{msg(`{"content":"q"}`), "messages[0].role", "missing"},
		{msg(`{"role":"robot","content":"q"}`), "messages[0].role", "robot"},
		{msg(`{"role":"user"}`), "messages[0].content", "missing"},
		{msg(`{"role":"user","content":null}`), "messages[0].content", "missing"},
		{msg(`{"role":"system","content":7}`), "messages[0].content", "string"},
		{msg(`{"role":"user","content":[]}`), "messages[0].content", "parts"},
		{msg(`{"role":"user","content":["q"]}`), "messages[0].content[0]", "object"},
		{msg(user + `,{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"x"}}]}`),
			"messages[1].content[1].image_url", "text only"},
		{msg(`{"role":"user","content":[{"type":"input_audio","input_audio":{}}]}`), "messages[0].content[0].input_audio",
			"text only"},
		{msg(`{"role":"user","content":[{"type":"file","file":{}}]}`), "messages[0].content[0].file", "text only"},
		{msg(`{"role":"user","content":[{"type":"hologram"}]}`), "messages[0].content[0].type", "hologram"},
		{msg(`{"role":"user","content":[{"text":"a"}]}`), "messages[0].content[0].type", "missing"},
		{msg(`{"role":"user","content":[{"type":"text"}]}`), "messages[0].content[0].text", "missing"},
		{msg(`{"role":"user","content":[{"type":"text","text":3}]}`), "messages[0].content[0].text", "number"},
		{msg(`{"role":"user","content":[{"type":"refusal","refusal":"no"}]}`), "messages[0].content[0].type", "assistant"},
		{msg(`{"role":"user","name":"a b","content":"q"}`), "messages[0].name", "white space"},
		{msg(`{"role":"user","name":"<|start|>","content":"q"}`), "messages[0].name", "brackets"},
		{msg(`{"role":"user","name":7,"content":"q"}`), "messages[0].name", "number"},
		{msg(`{"role":"tool","content":"4"}`), "messages[0].tool_call_id", "missing"},
		{msg(`{"role":"tool","content":"4","tool_call_id":""}`), "messages[0].tool_call_id", "missing"},
		{msg(`{"role":"function","content":"4"}`), "messages[0].name", "missing"},
		{msg(`{"role":"assistant","tool_calls":[{"type":"function","function":{"name":"f","arguments":"{}"}}]}`),
			"messages[0].tool_calls[0].id", "missing"},
		{msg(`{"role":"assistant","tool_calls":[{"id":"1"}]}`), "messages[0].tool_calls[0].function", "missing"},
		{msg(`{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"","arguments":"{}"}}]}`),
			"messages[0].tool_calls[0].function.name", "names"},
		{msg(`{"role":"assistant","tool_calls":[{"id":"1","type":"magic","function":{"name":"f"}}]}`),
			"messages[0].tool_calls[0].type", "magic"},
		{msg(`{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":{}}}]}`),
			"messages[0].tool_calls[0].function.arguments", "object"},
		{msg(`{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f"}},{"id":"1","function":{"name":"g"}}]}`),
			"messages[0].tool_calls[1].id", "same id"},
		{msg(`{"role":"assistant","reasoning":{}}`), "messages[0].reasoning", "object"},

		{with(`"n":0`), "n", "from 1 to 16"},
		{with(`"n":17`), "n", "from 1 to 16"},
		{with(`"n":1.5`), "n", "whole number"},
		{with(`"n":"2"`), "n", "whole number"},
		{with(`"n":99999999999999999999`), "n", "whole number"},
		{with(`"temperature":-0.1`), "temperature", "a number from"},
		{with(`"n_predict":0`), "n_predict", "less than 1"},
		{with(`"n_predict":5,"max_tokens":6`), "max_tokens", "n_predict"},
		{with(`"n_predict":5,"max_completion_tokens":6`), "max_completion_tokens", "n_predict"},
		{with(`"mirostat":"on"`), "mirostat", "a number"},
		{with(`"temperature":2.1`), "temperature", "a number from"},
		{with(`"temperature":1e999`), "temperature", "number"},
		{with(`"temperature":"hot"`), "temperature", "a number"},
		{with(`"temperature":true`), "temperature", "a number"},
		{with(`"top_p":1.1`), "top_p", "a number from"},
		{with(`"top_p":-1`), "top_p", "a number from"},
		{with(`"min_p":2`), "min_p", "a number from"},
		{with(`"typical_p":2`), "typical_p", "a number from"},
		{with(`"top_k":-2`), "top_k", "from -1"},
		{with(`"top_k":1e3`), "top_k", "whole number"},
		{with(`"presence_penalty":2.1`), "presence_penalty", "a number from"},
		{with(`"frequency_penalty":-2.1`), "frequency_penalty", "a number from"},
		{with(`"repetition_penalty":0`), "repetition_penalty", "a number from"},
		{with(`"repeat_penalty":11`), "repeat_penalty", "a number from"},
		{with(`"repeat_penalty":1.1,"repetition_penalty":1.2`), "repetition_penalty", "repeat_penalty"},
		{with(`"seed":"x"`), "seed", "whole number"},
		{with(`"seed":1.5`), "seed", "whole number"},
		{with(`"seed":1e3`), "seed", "whole number"},
		{with(`"seed":18446744073709551616`), "seed", "2^64-1"},
		{with(`"seed":-9223372036854775809`), "seed", "-2^63"},
		{with(`"stop":3`), "stop", "string"},
		{with(`"stop":""`), "stop[0]", "0 bytes"},
		{with(`"stop":["a",""]`), "stop[1]", "0 bytes"},
		{with(`"stop":["a",3]`), "stop[1]", "string"},
		{with(`"stop":["` + strings.Repeat(`a","`, 16) + `a"]`), "stop", "at most 16"},
		{with(`"logit_bias":[]`), "logit_bias", "object"},
		{with(`"logit_bias":{"x":1}`), "logit_bias.x", "token"},
		{with(`"logit_bias":{"-1":1}`), "logit_bias.-1", "token"},
		{with(`"logit_bias":{"01":1}`), "logit_bias.01", "token"},
		{with(`"logit_bias":{"1":null}`), "logit_bias.1", "number"},
		{with(`"logit_bias":{"1":101}`), "logit_bias.1", "a number from"},
		{with(`"logit_bias":{"99999999999":1}`), "logit_bias.99999999999", "token"},
		{with(`"logit_bias":{"1":"a"}`), "logit_bias", ""},
		{with(`"max_tokens":0`), "max_tokens", "less than 1"},
		{with(`"max_tokens":-2`), "max_tokens", "at least -1"},
		{with(`"max_completion_tokens":0`), "max_completion_tokens", "less than 1"},
		{with(`"max_tokens":5,"max_completion_tokens":6`), "max_completion_tokens", "max_tokens"},
		{with(`"logprobs":3`), "logprobs", "true or false"},
		{with(`"top_logprobs":3`), "top_logprobs", "logprobs"},
		{with(`"logprobs":true,"top_logprobs":21`), "top_logprobs", "from 0 to 20"},
		{with(`"logprobs":true,"top_logprobs":-1`), "top_logprobs", "from 0 to 20"},
		{with(`"stream":"yes"`), "stream", "true or false"},
		{with(`"stream_options":{"include_usage":true}`), "stream_options", "stream"},
		{with(`"stream":true,"stream_options":{"include_usage":1}`), "stream_options.include_usage", "true or false"},

		{with(`"response_format":"json"`), "response_format", "object"},
		{with(`"response_format":{}`), "response_format.type", "missing"},
		{with(`"response_format":{"type":"yaml"}`), "response_format.type", "yaml"},
		{with(`"response_format":{"type":"json_schema"}`), "response_format.json_schema", "object"},
		{with(`"response_format":{"type":"json_schema","json_schema":{"name":"a"}}`), "response_format.json_schema.schema",
			"Schema"},
		{with(`"response_format":{"type":"json_schema","json_schema":{"name":"a[b]","schema":{}}}`),
			"response_format.json_schema.name", "white space"},
		{with(`"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{}}},` +
			`"response_schema":{"type":"json","schema":{"type":"object"}}`), "response_format", "response_schema"},
		{with(`"structured_outputs":{"grammar":"start: nothing"}`), "structured_outputs.grammar", "nothing"},
		{with(`"response_schema":{"type":"xml","schema":{}}`), "response_schema.type", "xml"},
		{with(`"response_schema":{"type":"json"}`), "response_schema.schema", "Schema"},
		{with(`"response_format":{"type":"json_object"},"regex":"a"`), "response_format", "regex"},
		{with(`"grammar":"root ::= \"a\"","choice":["a"]`), "grammar", "choice"},
		{with(`"grammar":7`), "grammar", "string"},
		{with(`"regex":""`), "regex", "empty"},
		{with(`"guided_choice":"a"`), "guided_choice", "list"},
		{with(`"guided_json":"{"`), "guided_json", "not JSON"},
		{with(`"structured_outputs":{"structural_tag":"x"}`), "structured_outputs.structural_tag", "not known"},
		{with(`"structured_outputs":{"regex":"a","choice":["a"]}`), "structured_outputs.regex", "structured_outputs.choice"},

		{with(`"tools":{}`), "tools", "list"},
		{tool(`3`), "tools[0]", "object"},
		{tool(`{}`), "tools[0].type", "missing"},
		{tool(`{"type":"function"}`), "tools[0].function", "object"},
		{tool(`{"type":"function","function":{}}`), "tools[0].function.name", "names"},
		{tool(`{"type":"function","function":{"name":"a b"}}`), "tools[0].function.name", "names"},
		{tool(`{"type":"function","function":{"name":"a"}},{"type":"function","function":{"name":"a"}}`),
			"tools[1].function.name", "same name"},
		{tool(`{"type":"function","function":{"name":"a","parameters":[]}}`), "tools[0].function.parameters", "Schema"},
		{tool(`{"type":"function","function":{"name":"a","strict":"yes"}}`), "tools[0].function.strict", "true or false"},
		{with(`"tools":[` + strings.TrimSuffix(strings.Repeat(`{"type":"function","function":{"name":"a"}},`, 1025),
			",") + `]`),
			"tools", "at most 1024"},
		{with(`"tool_choice":"maybe"`), "tool_choice", "maybe"},
		{with(`"tool_choice":7`), "tool_choice", "object"},
		{with(`"tool_choice":{"type":"custom"}`), "tool_choice.custom.name", "no function named"},
		{with(`"tool_choice":{"type":"mcp"}`), "tool_choice.type", "custom"},
		{with(`"tools":[{"type":"custom"}]`), "tools[0].custom.name", "bytes"},
		{with(`"tools":[{"type":"custom","custom":{"name":7}}]`), "tools[0].custom.name", "a string"},
		{with(`"tools":[{"type":"custom","custom":{"name":"x","format":{"type":"grammar",` +
			`"grammar":{"syntax":"lark","definition":"start: start"}}}}]`),
			"tools[0].custom.format.grammar.definition", "recursion"},
		{with(`"tool_choice":{"type":"function","function":{"name":"f"}}`), "tool_choice.function.name", "no function named"},
		{with(addTool + `,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"never","tools":[]}}`),
			"tool_choice.allowed_tools.mode", "never"},
		{with(addTool +
			`,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function",` +
			`"function":{"name":"f"}}]}}`), "tool_choice.allowed_tools.tools[0].function.name", "no function named"},
		{with(addTool + `,"functions":[{"name":"f"}]`), "tools", "functions"},
		{with(`"functions":[{"name":"f"}],"function_call":{"name":"g"}`), "function_call.name", "no function named"},
		{with(`"functions":[{"name":"f"}],"function_call":"required"`), "function_call", "required"},
		{with(`"functions":[{"name":""}]`), "functions[0].name", "names"},
		{with(`"parallel_tool_calls":1`), "parallel_tool_calls", "true or false"},

		{with(`"reasoning":"some"`), "reasoning", "some"},
		{with(`"reasoning":"full","include_reasoning":"none"`), "include_reasoning", "reasoning"},
		{with(`"reasoning":{"summary":"auto"},"include_reasoning":true`), "include_reasoning", "reasoning.summary"},
		{with(`"reasoning":{"exclude":true},"include_reasoning":true`), "include_reasoning", "reasoning.exclude"},
		{with(`"reasoning_effort":"low","reasoning":{"effort":"high"}`), "reasoning_effort", "reasoning.effort"},
		{with(`"reasoning_effort":"extreme"`), "reasoning_effort", "minimal"},
		{with(`"reasoning_budget":-5`), "reasoning_budget", "from -1"},
		{with(`"reasoning_strategy":"guess"`), "reasoning_strategy", "guess"},
		{with(`"reasoning_encrypt":true`), "reasoning_encrypt", "trace"},
		{with(`"include":["message.input_image.image_url"]`), "include[0]", "not known"},
		{with(`"chat_template_kwargs":[]`), "chat_template_kwargs", ""},
		{with(`"chat_template_kwargs":{"a":` + deep + `}`), "chat_template_kwargs", "deep"},

		{with(`"modalities":["text","audio"]`), "modalities[1]", "text only"},
		{with(`"audio":{"voice":"x"}`), "audio", "text only"},
		{with(`"web_search_options":{}`), "web_search_options", "web"},
		{with(`"add_generation_prompt":false`), "add_generation_prompt", "continue_final_message"},
		{with(`"continue_final_message":true,"add_generation_prompt":true`), "add_generation_prompt", "false"},
		{with(`"model":7`), "model", "string"},
		{`[]`, "", "object"},
		{`"x"`, "", "object"},
		{`{"messages":[`, "", "byte"},
		{``, "", "not valid JSON"},
		{`{"temperature":NaN}`, "", "byte"},
	} {
		_, err := readBody(t, c.body)
		var e *wire.Error
		if !errors.As(err, &e) {
			t.Errorf("%.150s: %v", c.body, err)
			continue
		}
		if e.Status != http.StatusBadRequest || e.Param != c.param || !strings.Contains(e.Error(), c.says) || e.Code == "" {
			t.Errorf("%.150s: %d %q, param %q; want 400, %q about %q", c.body, e.Status, e.Error(), e.Param, c.says, c.param)
		}
	}
}

// order reads a valid body.
func ordered(t testing.TB, body string) *chatOrder {
	t.Helper()
	c, err := readBody(t, body)
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return c
}

func TestSamplingFields(t *testing.T) {
	c := ordered(t, body("q", `"temperature":0.5,"top_p":0.9,"top_k":40,"min_p":0.05,"typical_p":0.7,
			"presence_penalty":-1,"frequency_penalty":2,
		"repeat_penalty":1.5,"logit_bias":{"7":-100,"3":2.5},"n":3,"stop":["a","b"],"max_tokens":9,"logprobs":true,
			"top_logprobs":4,"seed":-1`))
	s := &c.req.Sampling
	if s.Temperature != 0.5 || s.TopP != 0.9 || s.TopK != 40 || s.MinP != 0.05 || s.TypicalP != 0.7 ||
		s.PresencePenalty != -1 ||
		s.FrequencyPenalty != 2 || s.RepetitionPenalty != 1.5 || s.TopLogprobs != 4 {
		t.Errorf("sampling is %+v", *s)
	}
	if len(s.Bias) != 2 || s.Bias[0].Token != 3 || s.Bias[0].Bias != 2.5 || s.Bias[1].Token != 7 ||
		s.Bias[1].Bias != -100 {
		t.Errorf("bias is %+v", s.Bias)
	}
	if c.choices != 3 || !slices.Equal(c.req.Stop, []string{"a", "b"}) || c.req.MaxTokens != 9 || !c.req.Logprobs ||
		*c.req.Seed != math.MaxUint64 {
		t.Errorf("the order is %+v", c.order)
	}
	runs := c.order.runs()
	if *runs[0].Request.Seed != math.MaxUint64 || *runs[1].Request.Seed != 0 || *runs[2].Request.Seed != 1 {
		t.Error("choices do not have the seeds that follow the first one's")
	}
	bounds := ordered(t, body("q", `"seed":18446744073709551615,"top_p":0,"top_k":-1,"max_completion_tokens":-1`))
	if s := bounds.req; *s.Seed != math.MaxUint64 ||
		s.Sampling.TopP <= 0 || s.Sampling.TopP > 1e-30 || s.Sampling.TopK != 0 || s.MaxTokens != 0 {
		t.Errorf("the order is %+v", bounds.order)
	}
}

// The answer goes on from the last message if the request says so.
func TestContinueFinalMessage(t *testing.T) {
	for fields, want := range map[string]bool{``: false, `"add_generation_prompt":true`: false,
		`"continue_final_message":true`: true, `"continue_final_message":true,"add_generation_prompt":false`: true} {
		if c := ordered(t, body("q", fields)); c.req.Continues != want {
			t.Errorf("%s: goes on %v", fields, c.req.Continues)
		}
	}
}

// Null fields, and harmless fields of other servers, are treated as absent.
func TestIgnoredFields(t *testing.T) {
	plain := ordered(t, body("q", ""))
	for _, fields := range []string{
		`"temperature":null,"n":null,"stop":null,"seed":null,"tools":null,"tool_choice":null,"response_format":null,
				"logit_bias":null,
		 "reasoning":null,"stream":null,"stream_options":null,"max_tokens":null,"logprobs":null,"metadata":null,
				"functions":null`,
		`"user":"u","metadata":{"a":"b"},"store":null,"service_tier":"flex","prompt_cache_key":"k","safety_identifier":"s",
		 "prediction":{"type":"content","content":"x"},"prompt_cache_retention":"24h","cache_prompt":true,
				"unheard_of":null,
		 "response_format":{"type":"text"},"modalities":["text"],"verbosity":"medium","stop":[],"grammar":"",
				"parallel_tool_calls":true,"include":[]`,
	} {
		c := ordered(t, body("q", fields))
		if len(c.warnings) > 0 || told(c.req) != told(plain.req) || c.choices != 1 || c.stream || c.req.Seal {
			t.Errorf("%s changes the order", fields)
		}
	}
}

// Fields that have no effect although the client may expect one cause a warning.
func TestFieldsWithoutEffect(t *testing.T) {
	c := ordered(t, body("q", `"n_predict":7,"mirostat":2,"ignore_eos":true,"store":true,"echo":true`))
	var warned []string
	for _, w := range c.warnings {
		field, _, _ := strings.Cut(w.Message, ":")
		warned = append(warned, w.Code+" "+field)
	}
	if got := strings.Join(warned, ", "); c.req.MaxTokens != 7 ||
		got != "unsupported_parameter mirostat, field_ignored store, unsupported_parameter ignore_eos, "+
			"unsupported_parameter echo" {
		t.Errorf("%d tokens, warnings %s", c.req.MaxTokens, got)
	}
	c = ordered(t, body("q", `"n_predict":7,"max_tokens":7,"mirostat":0,"ignore_eos":false,"echo":false`))
	if c.req.MaxTokens != 7 || len(c.warnings) > 0 {
		t.Errorf("%d tokens, warnings %v", c.req.MaxTokens, c.warnings)
	}
}

// told returns a request as text, to compare it. The content of forms is tested elsewhere.
func told(r generation.Request) string {
	seed := *r.Seed
	r.Seed = nil
	if len(r.Stop) == 0 {
		r.Stop = nil
	}
	return fmt.Sprintf("%d %+v", seed, r)
}

func TestForms(t *testing.T) {
	schema := `{"type":"object","properties":{"b":{},"a":{}}}`
	for fields, want := range map[string]struct{ kind, field string }{
		`"response_format":{"type":"json_object"}`: {"json object",
			"response_format"},
		`"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":` + schema + `}}`: {"json schema",
			"response_format"},
		`"response_format":{"type":"json_object","schema":` + schema + `}`: {"json schema", "response_format"},
		`"response_format":{"type":"json_schema","schema":` + schema + `}`: {"json schema", "response_format"},
		`"response_format":{"type":"text"},"regex":"a+"`:                   {"regular expression", "regex"},
		`"response_schema":{"type":"json","schema":` + schema + `}`:        {"json schema", "response_schema"},
		`"json_schema":` + schema:                                          {"json schema", "json_schema"},
		`"grammar":"root ::= \"a\""`:                                       {"gbnf", "grammar"},
		`"choice":["a","b"]`:                                               {"choices", "choice"},
		`"guided_json":` + schema:                                          {"json schema", "guided_json"},
		`"guided_json":"{}"`:                                               {"json schema", "guided_json"},
		`"guided_regex":"a"`:                                               {"regular expression", "guided_regex"},
		`"guided_choice":["a"]`:                                            {"choices", "guided_choice"},
		`"guided_grammar":"root ::= \"a\"","guided_decoding_backend":"x"`:  {"gbnf", "guided_grammar"},
		`"guided_grammar":"start: \"a\""`:                                  {"regular expression", "guided_grammar"},
		`"response_format":{"type":"json_schema","json_schema":{"name":"a b","schema":` + schema + `}},` +
			`"response_schema":{"type":"json","schema":` + schema + `}`: {"json schema", "response_format"},
		`"structured_outputs":{"json":` + schema + `}`:    {"json schema", "structured_outputs.json"},
		`"structured_outputs":{"grammar":"start: \"a\""}`: {"regular expression", "structured_outputs.grammar"},
		`"structured_outputs":{"json_object":true}`:       {"json object", "structured_outputs.json_object"},
		`"structured_outputs":{"choice":["a"]}`:           {"choices", "structured_outputs.choice"},
	} {
		c := ordered(t, body("q", fields))
		if c.req.Form.String() != want.kind || c.form != want.field {
			t.Errorf("%s: a %s by %s", fields, c.req.Form, c.form)
		}
		if want.kind == "json schema" && !strings.Contains(fields, `"{}"`) && string(c.req.Form.Schema()) != schema {
			t.Errorf("%s: the schema became %s", fields, c.req.Form.Schema())
		}
	}
	c := ordered(t,
		body("q", `"response_format":{"type":"json_schema","json_schema":{"name":"n","description":"d","schema":`+schema+
			`,"strict":false}}`))
	if f := c.req.ResponseFormat; f == nil || f.Name != "n" || f.Description != "d" || string(f.Schema) != schema {
		t.Errorf("the model is told %+v", f)
	}
}

func TestMessages(t *testing.T) {
	c := ordered(t, `{"messages":[
		{"role":"developer","content":"d"},
		{"role":"system","content":[{"type":"text","text":"s1"},{"type":"text","text":"s2"}]},
		{"role":"user","content":"","name":"bob"},
		{"role":"assistant","content":null,"reasoning":"old thoughts","tool_calls":[
			{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},
			{"id":"c2","type":"custom","custom":{"name":"g","input":"free"}}]},
		{"role":"tool","tool_call_id":"c2","content":"r2"},
		{"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"r1"}]},
		{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"refusal","refusal":"no"}],
			"reasoning":"finished thoughts","refusal":null},
		{"role":"user","content":"more"},
		{"role":"assistant","content":"let me see","reasoning_content":"pending thoughts","reasoning_summary":"a summary",
			"tool_calls":[{"id":"c1","function":{"name":"f","arguments":""}}]},
		{"role":"tool","tool_call_id":"c1","content":"r3"},
		{"role":"assistant","function_call":{"name":"h","arguments":"{}"},"content":null,"reasoning":null},
		{"role":"function","name":"h","content":"r4"}]}`)
	want := []chattemplate.Message{
		{Role: "developer", Content: "d"}, {Role: "system", Content: "s1\ns2"}, {Role: "user", Name: "bob"},
		{Role: "assistant", Reasoning: "old thoughts", ToolCalls: []chattemplate.ToolCall{
			{ID: "c1", Name: "f", Arguments: `{"a":1}`}, {ID: "c2", Name: "g", Arguments: `{"input":"free"}`},
		}},
		{Role: "tool", ToolCallID: "c2", Content: "r2"}, {Role: "tool", ToolCallID: "c1", Content: "r1"},
		{Role: "assistant", Content: "a\nno", Reasoning: "finished thoughts"}, {Role: "user", Content: "more"},
		{Role: "assistant", Content: "let me see", Reasoning: "pending thoughts",
			ToolCalls: []chattemplate.ToolCall{{ID: "c1", Name: "f"}}},
		{Role: "tool", ToolCallID: "c1", Content: "r3"},
		{Role: "assistant", ToolCalls: []chattemplate.ToolCall{{Name: "h", Arguments: "{}"}}},
		{Role: "tool", ToolName: "h", Content: "r4"},
	}
	if got := c.talk.messages; pretty(t, got) != pretty(t, want) {
		t.Errorf("got %s\nwant %s", pretty(t, got), pretty(t, want))
	}
}

// An empty reply can be sent back.
func TestEmptyRepliesAreAccepted(t *testing.T) {
	for _, m := range []string{
		`{"role":"assistant"}`, `{"role":"assistant","content":null}`,
		`{"role":"assistant","content":"","reasoning":"","reasoning_encrypted_content":""}`,
		`{"role":"assistant","content":[],"tool_calls":[]}`,
		`{"role":"assistant","content":null,"reasoning":null,"reasoning_encrypted_content":null,"tool_calls":null}`,
	} {
		c := ordered(t, `{"messages":[{"role":"user","content":"q"},`+m+`,{"role":"user","content":"q"}]}`)
		if m := c.talk.messages[1]; m.Content != "" || m.Reasoning != "" || len(c.talk.sealed) != 0 {
			t.Errorf("%+v", m)
		}
	}
}

func TestTools(t *testing.T) {
	two := `"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"},
			"strict":true}},
		{"type":"web_search"},{"type":"function","function":{"name":"g","parameters":null}},
		{"type":"mcp","custom":{"name":"x"}}]`
	c := ordered(t, body("q", two+`,"parallel_tool_calls":false`))
	if len(c.req.Tools) != 2 || c.req.Tools[0].Name != "f" || !c.req.Tools[0].Strict ||
		string(c.req.Tools[0].Parameters) != `{"type":"object"}` ||
		c.req.Tools[1].Name != "g" || c.req.Tools[1].Parameters != nil || !c.req.SingleCall {
		t.Errorf("tools are %+v", c.req.Tools)
	}
	if len(c.warnings) != 2 || c.warnings[0].Code != "tool_skipped" || !strings.HasPrefix(c.warnings[0].Message,
		"tools[1]:") || !strings.HasPrefix(c.warnings[1].Message, "tools[3]:") {
		t.Errorf("warnings are %+v", c.warnings)
	}
	for choice, want := range map[string]struct {
		choice generation.ToolChoice
		name   string
		tools  int
	}{
		`"auto"`: {generation.ToolChoiceAuto, "", 2}, `"none"`: {generation.ToolChoiceNone, "", 2},
		`"required"`: {generation.ToolChoiceRequired, "", 2}, `null`: {"", "", 2},
		`{"type":"function","function":{"name":"g"}}`: {generation.ToolChoiceFunction, "g", 2},
		`{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function",` +
			`"function":{"name":"g"}}]}}`: {generation.ToolChoiceRequired, "", 1},
		`{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"g"}},` +
			`{"type":"mcp"}]}}`: {generation.ToolChoiceAuto, "", 1},
	} {
		c := ordered(t, body("q", two+`,"tool_choice":`+choice))
		if c.req.ToolChoice != want.choice || c.req.ToolName != want.name || len(c.req.Tools) != want.tools ||
			c.req.SingleCall {
			t.Errorf("%s: %s %s of %d tools", choice, c.req.ToolChoice, c.req.ToolName, len(c.req.Tools))
		}
	}
	c = ordered(t, body("q", `"functions":[{"name":"f"}],"function_call":{"name":"f"}`))
	if !c.legacy || c.req.ToolChoice != generation.ToolChoiceFunction || c.req.ToolName != "f" || !c.req.SingleCall {
		t.Errorf("the order is %+v", c)
	}
}

func TestReasoningFields(t *testing.T) {
	defaults := generation.Request{Effort: reasoning.EffortLow, Budget: 5, Strategy: reasoning.StrategyMarkers}
	api := New(nil, Config{Seal: keys(), Defaults: defaults})
	for fields, check := range map[string]func(c *chatOrder) bool{
		``: func(c *chatOrder) bool {
			return c.req.Visibility == reasoning.VisibilityNone && c.req.Effort == "low" && c.req.Budget == 5 &&
				c.req.Strategy == reasoning.StrategyMarkers
		},
		`"reasoning":"summary"`: func(c *chatOrder) bool {
			return c.req.Visibility == reasoning.VisibilitySummary && !c.req.DetailedSummary
		},
		`"reasoning":{"summary":"detailed","effort":"high","max_tokens":9}`: func(c *chatOrder) bool {
			return c.req.Visibility == reasoning.VisibilitySummary && c.req.DetailedSummary && c.req.Effort == "high" &&
				c.req.Budget == 9
		},
		`"include_reasoning":true,"reasoning_effort":"none"`: func(c *chatOrder) bool {
			return c.req.Visibility == reasoning.VisibilityFull && c.req.Effort == reasoning.EffortNone
		},
		`"reasoning_seal":true`: func(c *chatOrder) bool {
			return c.req.Seal && c.req.Visibility == reasoning.VisibilityNone
		},
		`"include":["reasoning.encrypted_content"]`: func(c *chatOrder) bool { return c.req.Seal },
		`"reasoning_strategy":"json"`: func(c *chatOrder) bool {
			return c.req.Strategy == reasoning.StrategyJSON && c.req.Score
		},
		`"keep_reasoning":true`: func(c *chatOrder) bool { return c.req.KeepReasoning },
		`"chat_template_kwargs":{"enable_thinking":false,"x":[1]}`: func(c *chatOrder) bool {
			return c.req.Effort == reasoning.EffortNone && len(c.req.TemplateArgs) == 2
		},
	} {
		var b ChatRequest
		decode(t, body("q", fields), &b)
		c, err := api.readChat(wiretest.Anyone(), &b)
		if err != nil || !check(c) {
			t.Errorf("%s: %v, %+v", fields, err, c)
		}
	}
}

// Any posted body is an order or a 400 with a message.
func FuzzChatRequest(f *testing.F) {
	f.Add(body("q",
		`"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"allowed_tools",`+
			`"allowed_tools":{"mode":"auto","tools":[]}}`))
	f.Add(body("q",
		`"stop":["a"],"seed":-1,"logit_bias":{"1":2},"n":2,"response_format":{"type":"json_schema",`+
			`"json_schema":{"name":"a","schema":{}}}`))
	f.Add(body("q",
		`"reasoning":{"summary":"auto"},"include":["reasoning.encrypted_content"],"chat_template_kwargs":{"thinking":false}`))
	f.Add(body("q", `"functions":[{"name":"f"}],"function_call":"auto","structured_outputs":{"regex":"a"}`))
	f.Add(
		`{"messages":[{"role":"assistant","content":[{"type":"refusal","refusal":"x"}],"tool_calls":[{"id":"1",` +
			`"function":{"name":"f","arguments":""}}]},{"role":"tool","tool_call_id":"1","content":"r"}]}`)
	f.Add(`{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		c, err := readBody(t, text)
		checkRefusal(t, text, err)
		if err == nil && (len(c.talk.messages) == 0 || c.choices < 1 || c.choices > 16 || c.req.Seed == nil ||
			len(c.order.runs()) != c.choices) {
			t.Fatalf("%q became %+v", text, c)
		}
	})
}

func FuzzCompletionRequest(f *testing.F) {
	f.Add(`{"prompt":"a","n":2,"best_of":2,"logprobs":3,"echo":false}`)
	f.Add(`{"prompt":[[1,2],"b"],"max_tokens":5,"suffix":"","stop":"x"}`)
	f.Add(`{"prompt":[1,null]}`)
	f.Fuzz(func(t *testing.T, text string) {
		var b CompletionRequest
		err := wire.Unmarshal([]byte(text), &b)
		var c *completionOrder
		if err == nil {
			c, err = New(nil, Config{Random: zeros{}}).readCompletion(wiretest.Anyone(), &b)
		}
		checkRefusal(t, text, err)
		if err == nil && (len(c.runs()) != len(c.prompts)*c.choices || len(c.runs()) > maxPrompts) {
			t.Fatalf("%q became %+v", text, c)
		}
	})
}

func FuzzEmbeddingInput(f *testing.F) {
	f.Add(`"a"`)
	f.Add(`["a",[1,2]]`)
	f.Add(`[1,2]`)
	f.Fuzz(func(t *testing.T, text string) {
		if !json.Valid([]byte(text)) {
			return
		}
		inputs, err := readInputs(json.RawMessage(strings.TrimSpace(text)), "input", maxInputs)
		checkRefusal(t, text, err)
		if err == nil && (len(inputs) == 0 || len(inputs) > maxInputs) {
			t.Fatalf("%q became %d inputs", text, len(inputs))
		}
	})
}

// checkRefusal fails unless an error is a 400 of this API.
func checkRefusal(t *testing.T, text string, err error) {
	t.Helper()
	var e *wire.Error
	if err != nil && (!errors.As(err, &e) || e.Status != http.StatusBadRequest || e.Message == "" || e.Code == "") {
		t.Fatalf("%q: %v", text, err)
	}
}

// An image in a history does not end a conversation: a note takes its place.
func TestImagesInAHistoryAreNoted(t *testing.T) {
	image := `[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"x"}},{"type":"hologram"}]`
	for name, messages := range map[string]string{
		"of the user": `{"role":"user","content":` + image + `},{"role":"user","content":"go on"}`,
		"of a tool": `{"role":"assistant","tool_calls":[{"id":"a","type":"function",` +
			`"function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":` + image + `}`,
	} {
		c := ordered(t, `{"messages":[`+messages+`]}`)
		said := fmt.Sprint(c.talk.messages)
		if len(c.warnings) != 1 || c.warnings[0].Code != "media_skipped" || !strings.Contains(said, "see\n[image_url: ") ||
			!strings.Contains(said, "[hologram: ") {
			t.Errorf("%s: warnings %v, messages %s", name, c.warnings, said)
		}
	}
}
