package openapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
)

// probe is a request whose fields are set to all kinds of values.
type probe struct {
	path string
	// base is a valid request. within is the field whose own fields are probed; empty means the whole request.
	base, within string
	// schema describes the fields.
	schema string
	// more are fields that are needed together with others.
	more map[string]string
	// beyond are fields whose values the schema cannot judge, with the error for wrong ones.
	beyond map[string]string
}

const (
	aboutModels  = "which models there are"
	aboutFormats = "what a form means"
	aboutOthers  = "what other fields say"
)

// forms are fields for the form of an answer, whose texts a schema cannot judge, and a tool choice without tools.
var forms = map[string]string{
	"model": aboutModels, "grammar": aboutFormats, "guided_grammar": aboutFormats, "regex": aboutFormats,
	"guided_regex": aboutFormats, "json_schema": aboutFormats,
	"guided_json": aboutFormats, "choice": aboutFormats, "guided_choice": aboutFormats, "tool_choice": aboutOthers,
	"function_call": aboutOthers, "stream_options": aboutOthers,
	"logit_bias": "which tokens there are", "best_of": aboutOthers, "structured_outputs": aboutFormats,
	"text": aboutFormats, "echo": aboutOthers, "add_generation_prompt": aboutOthers, "continue_final_message": aboutOthers,
	"suffix": "which tokens the model has",
}

const aguiTurn = `{"threadId":"t","runId":"r","messages":[{"id":"m","role":"user","content":"What is 17 + 25?"}]}`

var probes = []probe{
	{path: "/v1/chat/completions", base: `{"messages":[{"role":"user","content":"What is 17 + 25?"}]}`,
		schema: "ChatCompletionRequest", beyond: forms,
		more: map[string]string{"top_logprobs": `"logprobs":true`, "stream_options": `"stream":true`,
			"function_call": `"functions":[{"name":"look"}]`}},
	{path: "/v1/chat/completions", base: `{"messages":[{"role":"user","content":"What is 17 + 25?"}]}`,
		within: "reasoning", schema: "ReasoningObject"},
	{path: "/v1/completions", base: `{"prompt":"Once upon a time"}`, schema: "CompletionRequest", beyond: forms,
		more: map[string]string{"stream_options": `"stream":true`}},
	{path: "/infill", base: `{"model":"code","input_prefix":"a"}`, schema: "InfillRequest",
		beyond: with(with(forms, "n", aboutOthers), "ignore_eos", aboutOthers),
		more:   map[string]string{"stream_options": `"stream":true`}},
	{path: "/v1/embeddings", base: `{"input":"a"}`, schema: "EmbeddingRequest",
		beyond: map[string]string{"model": aboutModels, "dimensions": aboutModels, "input": "which tokens there are"}},
	{path: "/v1/responses", base: `{"input":"What is 17 + 25?","store":true}`, schema: "ResponsesRequest",
		beyond: with(with(forms, "previous_response_id", "what is stored"), "input", aboutOthers)},
	{path: "/v1/messages", base: `{"max_tokens":100,"messages":[{"role":"user","content":"What is 17 + 25?"}]}`,
		schema: "MessagesRequest", beyond: forms},
	{path: "/v1/messages", base: `{"max_tokens":100,"messages":[{"role":"user","content":"What is 17 + 25?"}]}`,
		within: "thinking", schema: "Thinking",
		more:   map[string]string{"budget_tokens": `"type":"enabled"`, "display": `"type":"adaptive"`},
		beyond: map[string]string{"type": aboutOthers}},
	{path: "/v1/messages", base: `{"max_tokens":100,"messages":[{"role":"user","content":"What is 17 + 25?"}]}`,
		within: "output_config", schema: "OutputConfig"},
	{path: "/api/chat", base: `{"model":"demo","messages":[{"role":"user","content":"What is 17 + 25?"}]}`,
		schema: "OllamaChatRequest", beyond: with(forms, "keep_alive", "what a duration is")},
	{path: "/api/generate", base: `{"model":"demo","prompt":"What is 17 + 25?"}`, schema: "OllamaGenerateRequest",
		beyond: with(forms, "keep_alive", "what a duration is")},
	{path: "/api/chat", base: `{"model":"demo","messages":[{"role":"user","content":"What is 17 + 25?"}]}`,
		within: "options", schema: "OllamaOptions"},
	{path: "/api/embed", base: `{"model":"demo","input":"a"}`, schema: "OllamaEmbedRequest",
		beyond: map[string]string{"model": aboutModels}},
	{path: "/api/embeddings", base: `{"model":"demo","prompt":"a"}`, schema: "OllamaEmbeddingsRequest",
		beyond: map[string]string{"model": aboutModels}},
	{path: "/agui", base: aguiTurn, schema: "RunAgentInput"},
	{path: "/agui", base: aguiTurn, within: "forwardedProps", schema: "AguiProps",
		beyond: map[string]string{"model": aboutModels, "tool_choice": aboutOthers}},
	{path: "/web/chat", base: `{"conversation":"c","messages":[{"role":"user","content":"What is 17 + 25?"}]}`,
		schema: "WebRequest", beyond: with(forms, "tool_choice", aboutOthers)},
	{path: "/web/render", base: `{"texts":[{"text":"a"}]}`, schema: "WebRenderRequest"},
	{path: "/tokenize", base: `{"content":"a"}`, schema: "TokenizeRequest", beyond: map[string]string{"model": aboutModels,
		"prompt": aboutOthers}},
	{path: "/detokenize", base: `{"tokens":[49]}`, schema: "DetokenizeRequest",
		beyond: map[string]string{"model": aboutModels, "tokens": "which tokens there are"}},
	{path: "/apply-template", base: `{"messages":[{"role":"user","content":"a"}]}`, schema: "ChatCompletionRequest",
		beyond: forms,
		more: map[string]string{"top_logprobs": `"logprobs":true`, "stream_options": `"stream":true`,
			"function_call": `"functions":[{"name":"look"}]`}},
}

func with(m map[string]string, name, why string) map[string]string {
	m = maps.Clone(m)
	m[name] = why
	return m
}

// The schema of a field and the server agree on valid values. The server refuses what the schema forbids and names the
// field. It answers what the schema allows.
func TestServerAgreesWithSchemas(t *testing.T) {
	s := start(t, options{})
	asked, refused := 0, 0
	for _, p := range probes {
		fields := s.doc.fields(s.doc.at("#/components/schemas/" + p.schema))
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			values := map[string]bool{}
			s.values(fields[name], values)
			for value := range values {
				body := p.body(name, value)
				valid := s.valid(t, p.path, body)
				a := s.ask(t, "POST", p.path, body)
				s.check(t, a)
				asked++
				switch {
				case !valid && a.status != 400:
					t.Errorf("%s answers %s with %d, although the schema forbids it: %.300s", p.path, body, a.status, a.body)
				case valid && a.status >= 400 && p.beyond[name] == "":
					t.Errorf("%s answers %s with %d, although the schema allows it: %s", p.path, body, a.status, a.body)
				case a.status == 400:
					if refused++; !strings.Contains(string(a.body), name) {
						t.Errorf("%s: the error about %s does not name the field: %s", p.path, body, a.body)
					}
				}
			}
		}
	}
	if t.Logf("%d requests, %d refused", asked, refused); refused < 500 {
		t.Errorf("only %d of %d requests were refused", refused, asked)
	}
}

// body returns the request with the given value of a field.
func (p *probe) body(name, value string) string {
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(p.base), &all); err != nil {
		panic(err)
	}
	fields := fmt.Sprintf("{%q:%s}", name, value)
	if more := p.more[name]; more != "" {
		fields = fmt.Sprintf("{%s,%q:%s}", more, name, value)
	}
	if p.within != "" {
		all[p.within] = json.RawMessage(fields)
	} else if err := json.Unmarshal([]byte(fields), &all); err != nil {
		panic(err)
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// valid reports whether a body matches its operation's schema.
func (s *site) valid(t *testing.T, path, body string) bool {
	t.Helper()
	var v any
	d := json.NewDecoder(strings.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return s.open.at(t, "#/paths/"+strings.ReplaceAll(path, "/", "~1")+
		"/post/requestBody/content/application~1json/schema").Validate(v) == nil
}

// values collects right and wrong values that follow from a schema's limits and types.
func (s *site) values(v any, values map[string]bool) {
	schema := s.doc.resolve(v)
	for _, value := range []string{`"x"`, `true`, `false`, `7`, `1.5`, `[]`, `{}`, `["x"]`, `[7]`, `{"x":{}}`} {
		values[value] = true
	}
	add := func(v any) {
		text, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		values[string(text)] = true
	}
	for _, value := range asList(schema["enum"]) {
		add(value)
	}
	if schema["const"] != nil {
		add(schema["const"])
	}
	step := 1.0
	if schema["type"] == "number" {
		step = 1.0 / 128
	}
	for _, limit := range []string{"minimum", "maximum"} {
		if n, ok := schema[limit].(float64); ok {
			for _, n := range []float64{n, math.Nextafter(n, math.Inf(-1)), n - step, n + step} {
				if math.Abs(n) < 1<<53 {
					add(n)
				}
			}
		}
	}
	if n, ok := schema["maxLength"].(float64); ok {
		add(strings.Repeat("x", int(n)))
		add(strings.Repeat("x", int(n)+1))
		add("")
	}
	if n, ok := schema["maxItems"].(float64); ok && n < 2000 {
		add(slices.Repeat([]string{"x"}, int(n)+1))
	}
	if n, ok := schema["maxProperties"].(float64); ok {
		many := map[string]any{}
		for i := range int(n) + 1 {
			many[fmt.Sprint(i)] = 1
		}
		add(many)
	}
	for _, part := range asList(schema["oneOf"]) {
		s.values(part, values)
	}
}
