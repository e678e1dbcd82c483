package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

const askedSum = `"messages":[{"role":"user","content":"` + asksSum + `"}]`

// formats has the formats whose reasoning_info says what was in effect. $M is the model and $F the fields of a test.
var formats = []struct{ name, path, body, streamed string }{
	{"chat", "/v1/chat/completions", `{"model":"$M",` + askedSum + `$F}`, `,"stream":true`},
	{"responses", "/v1/responses", `{"model":"$M","input":"` + asksSum + `"$F}`, `,"stream":true`},
	{"agui", "/agui", `{"threadId":"t","runId":"r","messages":[{"id":"m","role":"user","content":"` + asksSum + `"}],` +
		`"forwardedProps":{"model":"$M"$F}}`, ``},
	{"anthropic", "/v1/messages", `{"model":"$M","max_tokens":2000,` + askedSum + `$F}`, `,"stream":true`},
	{"ollama", "/api/chat", `{"model":"$M",` + askedSum + `$F}`, `,"stream":true`},
	{"generate", "/api/generate", `{"model":"$M","prompt":"` + asksSum + `"$F}`, `,"stream":true`},
}

// inEffect is what an answer says about its run.
type inEffect struct {
	Visibility string `json:"visibility"`
	Effort     string `json:"effort"`
	Budget     int    `json:"budget"`
}

var (
	infoInAnswer    = regexp.MustCompile(`"reasoning_info":(\{[^}]*\})`)
	warningInAnswer = regexp.MustCompile(`"code":"(field_ignored|unsupported_parameter)","message":"([^"]*)"`)
)

// ask sends a request with fields in a format. It returns what was in effect and the warnings. how is "" or the field
// with which the format asks for a stream.
func ask(t *testing.T, url, key, format, how, fields string) (status int, info inEffect, warned []string, out string) {
	t.Helper()
	for _, f := range formats {
		if f.name != format {
			continue
		}
		if how == "" && strings.HasPrefix(f.path, "/api/") {
			how = `,"stream":false`
		}
		body := strings.NewReplacer("$M", "demo", "$F", how+fields).Replace(f.body)
		status, out = all(t.Context(), t, http.MethodPost, url+f.path, key, body)
		if found := infoInAnswer.FindAllStringSubmatch(out, -1); len(found) > 0 {
			if err := json.Unmarshal([]byte(found[len(found)-1][1]), &info); err != nil {
				t.Fatal(err)
			}
		}
		for _, found := range warningInAnswer.FindAllStringSubmatch(out, -1) {
			warned = append(warned, found[2])
		}
		return status, info, warned, out
	}
	t.Fatalf("there is no format %s", format)
	return 0, info, nil, ""
}

// Every format accepts every effort if it has a field for efforts, and says which one was in effect.
func TestEffortsInEveryFormat(t *testing.T) {
	url := wholeServer(t, io.Discard)
	places := map[string][]string{
		"chat": {
			`,"reasoning_effort":%q`, `,"reasoning":{"effort":%q}`, `,"chat_template_kwargs":{"reasoning_effort":%q}`,
		},
		"responses": {`,"reasoning":{"effort":%q}`, `,"reasoning_effort":%q`},
		"agui":      {`,"reasoning_effort":%q`, `,"reasoning":{"effort":%q}`},
		"anthropic": {`,"output_config":{"effort":%q}`},
		"ollama":    {`,"think":%q`},
		"generate":  {`,"think":%q`},
	}
	for effort, want := range map[string]string{
		"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "high", "max": "high",
	} {
		for _, f := range formats {
			for _, place := range places[f.name] {
				for _, how := range []string{"", f.streamed} {
					fields := fmt.Sprintf(place, effort)
					status, info, _, out := ask(t, url, "most", f.name, how, fields)
					if status != http.StatusOK || info.Effort != want {
						t.Errorf("%s%s: %d, effort %q, want %q:\n%s", f.name, fields, status, info.Effort, want, out)
					}
					if f.name == "responses" && !strings.Contains(out, fmt.Sprintf(`"reasoning":{"effort":%q`, want)) {
						t.Errorf("responses%s: the response repeats another effort:\n%s", fields, out)
					}
				}
			}
		}
	}
}

// switchCase is a switch for reasoning, the formats that it is tried in, and its effect.
type switchCase struct {
	formats, fields string
	want            inEffect
	// warned is the field that a warning is about, or empty.
	warned string
}

const (
	// openFormats have the same fields for reasoning.
	openFormats   = "chat responses agui"
	ollamaFormats = "ollama generate"
	allFormats    = openFormats + " anthropic " + ollamaFormats
)

var switchCases = []switchCase{
	{allFormats, ``, inEffect{"none", "medium", 0}, ""},
	{openFormats, `,"reasoning":true`, inEffect{"full", "medium", 0}, ""},
	{openFormats, `,"reasoning":false`, inEffect{"none", "medium", 0}, ""},
	{openFormats, `,"reasoning":"summary"`, inEffect{"summary", "medium", 0}, ""},
	{openFormats, `,"reasoning":{"enabled":false}`, inEffect{"none", "none", 0}, ""},
	{openFormats, `,"reasoning":{"enabled":true}`, inEffect{"none", "medium", 0}, ""},
	{openFormats, `,"reasoning":{"enabled":true,"effort":"low"}`, inEffect{"none", "low", 0}, ""},
	{openFormats, `,"reasoning":{"effort":"max","max_tokens":50,"exclude":true}`, inEffect{"none", "high", 50}, ""},
	{openFormats, `,"reasoning":{"effort":"low","exclude":false},"include_reasoning":true`,
		inEffect{"full", "low", 0}, ""},
	{openFormats, `,"reasoning":{"max_tokens":0}`, inEffect{"none", "none", 0}, ""},
	{openFormats, `,"reasoning":{"summary":"none"}`, inEffect{"none", "medium", 0}, ""},
	{openFormats, `,"reasoning":{"summary":"none"},"include_reasoning":true`, inEffect{"full", "medium", 0}, ""},
	{openFormats, `,"reasoning":{"colour":"red"}`, inEffect{"none", "medium", 0}, "reasoning.colour"},
	{openFormats, `,"reasoning":{"colour":null}`, inEffect{"none", "medium", 0}, ""},
	{openFormats, `,"include_reasoning":false`, inEffect{"none", "medium", 0}, ""},
	{openFormats, `,"enable_thinking":false`, inEffect{"none", "none", 0}, ""},
	{openFormats, `,"enable_thinking":true`, inEffect{"none", "medium", 0}, ""},
	{openFormats, `,"chat_template_kwargs":{"enable_thinking":false}`, inEffect{"none", "none", 0}, ""},
	{openFormats, `,"chat_template_kwargs":{"thinking":false}`, inEffect{"none", "none", 0}, ""},
	{openFormats, `,"chat_template_kwargs":{"thinking_budget":40}`, inEffect{"none", "medium", 40}, ""},
	{openFormats, `,"thinking":{"type":"disabled"}`, inEffect{"none", "none", 0}, ""},
	{openFormats, `,"thinking":{"type":"disabled","budget_tokens":40}`, inEffect{"none", "none", 0}, ""},
	{openFormats, `,"thinking":{"type":"enabled","budget_tokens":40}`, inEffect{"none", "medium", 40}, ""},
	{openFormats, `,"thinking":{"type":"adaptive","shape":1}`, inEffect{"none", "medium", 0}, "thinking.shape"},
	{openFormats, `,"thinking":false`, inEffect{"none", "none", 0}, ""},
	{openFormats, `,"think":false`, inEffect{"none", "none", 0}, ""},
	{openFormats, `,"think":true`, inEffect{"none", "medium", 0}, ""},
	{openFormats, `,"think":"low"`, inEffect{"none", "low", 0}, ""},
	{openFormats, `,"thinking_budget":40`, inEffect{"none", "medium", 40}, ""},
	{openFormats, `,"thinking_budget":0`, inEffect{"none", "none", 0}, ""},
	{openFormats, `,"reasoning_budget":0`, inEffect{"none", "none", 0}, ""},
	{openFormats, `,"reasoning_budget":-1`, inEffect{"none", "medium", 0}, ""},
	{openFormats, `,"reasoning_format":"hidden"`, inEffect{"none", "medium", 0}, ""},
	{openFormats, `,"reasoning_format":"parsed"`, inEffect{"full", "medium", 0}, ""},
	{openFormats, `,"reasoning_format":"deepseek"`, inEffect{"full", "medium", 0}, ""},
	{openFormats, `,"reasoning_format":"auto"`, inEffect{"none", "medium", 0}, ""},
	{openFormats, `,"reasoning_format":"raw"`, inEffect{"full", "medium", 0}, "reasoning_format"},
	{openFormats, `,"reasoning_format":"none"`, inEffect{"none", "medium", 0}, "reasoning_format"},
	{allFormats, `,"reasoning_colour":"red"`, inEffect{"none", "medium", 0}, "reasoning_colour"},
	{allFormats, `,"Thinking_Forced_Open":true`, inEffect{"none", "medium", 0}, "Thinking_Forced_Open"},
	{allFormats, `,"reasoning_colour":null`, inEffect{"none", "medium", 0}, ""},
	{"anthropic", `,"thinking":{"type":"disabled"}`, inEffect{"none", "none", 0}, ""},
	{"anthropic", `,"thinking":{"type":"enabled","budget_tokens":40}`, inEffect{"full", "medium", 40}, ""},
	{"anthropic", `,"thinking":{"type":"adaptive","display":"summarized"}`, inEffect{"summary", "medium", 0}, ""},
	{"anthropic", `,"thinking":{"type":"adaptive","display":"omitted"}`, inEffect{"none", "medium", 0}, ""},
	{"anthropic", `,"thinking":{"type":"adaptive","shape":1}`, inEffect{"full", "medium", 0}, "thinking.shape"},
	{"anthropic", `,"reasoning_effort":"low"`, inEffect{"none", "medium", 0}, "reasoning_effort"},
	{"anthropic", `,"think":false`, inEffect{"none", "medium", 0}, "think"},
	{"anthropic " + ollamaFormats, `,"enable_thinking":false`, inEffect{"none", "medium", 0}, "enable_thinking"},
	{"anthropic " + ollamaFormats, `,"chat_template_kwargs":{"enable_thinking":false}`,
		inEffect{"none", "medium", 0}, "chat_template_kwargs"},
	{"anthropic " + ollamaFormats, `,"include_reasoning":true`, inEffect{"none", "medium", 0}, "include_reasoning"},
	{ollamaFormats, `,"think":false`, inEffect{"none", "none", 0}, ""},
	{ollamaFormats, `,"think":true`, inEffect{"full", "medium", 0}, ""},
	{ollamaFormats, `,"think":"low"`, inEffect{"full", "low", 0}, ""},
	{ollamaFormats, `,"thinking":false`, inEffect{"none", "medium", 0}, "thinking"},
}

// Each switch that clients have for reasoning works in the formats where it is usual. Elsewhere a warning says that it
// has no effect.
func TestSwitchesInEveryFormat(t *testing.T) {
	url := wholeServer(t, io.Discard)
	for _, c := range switchCases {
		for format := range strings.FieldsSeq(c.formats) {
			status, info, warned, out := ask(t, url, "most", format, "", c.fields)
			if status != http.StatusOK || info != c.want {
				t.Errorf("%s%s: %d, %+v, want %+v:\n%s", format, c.fields, status, info, c.want, out)
			}
			switch {
			case c.warned == "" && len(warned) > 0:
				t.Errorf("%s%s: it is warned of %q", format, c.fields, warned)
			case c.warned != "" && (len(warned) != 1 ||
				!strings.HasPrefix(strings.TrimPrefix(warned[0], "forwardedProps."), c.warned+":")):
				t.Errorf("%s%s: it is warned of %q, want %s", format, c.fields, warned, c.warned)
			}
		}
	}
	// A raw prompt has no reasoning that could be switched.
	body := `{"model":"demo","prompt":"Two and two","enable_thinking":false,"thinking_budget":3}`
	status, out := all(t.Context(), t, http.MethodPost, url+"/v1/completions", "most", body)
	if found := warningInAnswer.FindAllString(out, -1); status != http.StatusOK || len(found) != 2 {
		t.Errorf("/v1/completions: %d, warnings %q", status, found)
	}
}

// Fields that a format does not know are named, with the field to use. Those that change no answer are not.
func TestUnknownFieldsInEveryFormat(t *testing.T) {
	const use, mean = "; use ", "; did you mean "
	schema := `{"type":"json_schema","json_schema":{"name":"a","schema":{"type":"object"}}}`
	url := wholeServer(t, io.Discard)
	for _, c := range []struct{ formats, fields, want string }{
		{"chat responses anthropic", `,"temprature":1`, "temprature" + mean + "temperature?"},
		{"chat responses anthropic", `,"topP":1`, "topP" + mean + "top_p?"},
		{ollamaFormats, `,"options":{"temprature":1}`, "options.temprature" + mean + "temperature?"},
		{ollamaFormats, `,"temperature":1`, "temperature" + use + "options.temperature"},
		{ollamaFormats, `,"max_tokens":9`, "max_tokens" + use + "options.num_predict"},
		{ollamaFormats, `,"options":{"max_tokens":9}`, "options.max_tokens" + use + "options.num_predict"},
		{ollamaFormats, `,"response_format":` + schema, "response_format" + use + "format"},
		{ollamaFormats, `,"reasoning_effort":"low"`, "reasoning_effort" + use + "think"},
		{ollamaFormats, `,"options":{"num_ctx":64,"num_thread":2,"num_gpu":1,"mirostat":0}`, ""},
		{"agui", `,"temprature":1`, "forwardedProps.temprature" + mean + "temperature?"},
		{"agui", `,"stop_sequences":["a"]`, "forwardedProps.stop_sequences" + use + "forwardedProps.stop"},
		{"agui", `,"config":{"configurable":{}}`, ""},
		{"chat", `,"format":{"type":"object"}`, "format" + use + "response_format"},
		{"chat", `,"text":{"format":` + schema + `}`, "text.format" + use + "response_format"},
		{"chat", `,"output_config":{"effort":"low","format":{"type":"json_schema","schema":{}}}`,
			"output_config.effort" + use + "reasoning_effort\noutput_config.format" + use + "response_format"},
		{"chat", `,"options":{"num_predict":9}`, "options.num_predict" + use + "max_completion_tokens"},
		{"responses", `,"response_format":` + schema, "response_format" + use + "text.format"},
		{"responses", `,"text":{"fromat":"x"}`, "text.fromat" + mean + "format?"},
		{"responses", `,"max_tokens":9`, "max_tokens" + use + "max_output_tokens"},
		{"anthropic", `,"response_format":` + schema, "response_format" + use + "output_config.format"},
		{"anthropic", `,"stop":["a"]`, "stop" + use + "stop_sequences"},
		{"anthropic", `,"reasoning_effort":"low"`, "reasoning_effort" + use + "output_config.effort"},
		{"chat responses anthropic " + ollamaFormats, `,"lora":[{"id":0}],"draft_model":"d","adapter":"a","best_of":2`,
			"lora\ndraft_model\nadapter\nbest_of"},
		{"chat responses anthropic", `,"dry_multiplier":0.8,"dry_base":1.75,"xtc_probability":0.5,"xtc_threshold":0.1`,
			"dry_multiplier\nxtc_probability"},
		{"chat responses anthropic " + ollamaFormats,
			`,"dry_multiplier":0.0,"xtc_probability":0,"best_of":1,"lora":[],"adapter":"","draft_model":null`, ""},
		// What clients send as a matter of course.
		{"chat responses anthropic " + ollamaFormats, `,"user":"u","service_tier":"auto","prompt_cache_key":"k",` +
			`"client_metadata":{"a":"b"},"cache_control":{"type":"ephemeral"},"betas":["b"],"cache_prompt":true`, ""},
		{"responses", `,"instructions":"Be brief.","store":false,"include":["reasoning.encrypted_content"],` +
			`"prompt_cache_key":"k","client_metadata":{"a":"b"},"text":{"verbosity":"low"},"parallel_tool_calls":true,` +
			`"tool_choice":"auto","reasoning":{"effort":"medium","summary":"auto"},"prompt_cache_retention":"24h"`, ""},
		{"anthropic", `,"metadata":{"user_id":"u"},"thinking":{"type":"adaptive","display":"updates"},"speed":"fast",` +
			`"output_config":{"effort":"high"},"tool_choice":{"type":"auto"},"temperature":1,"system":"Be brief."`, ""},
		{"chat", `,"n":1,"parallel_tool_calls":true,"tool_choice":"auto","logprobs":false,"max_tokens":99,"store":false,` +
			`"presence_penalty":0,"top_p":1,"timings_per_token":true,"id_slot":0,"mirostat":0,"dry_base":1.75`, ""},
		{ollamaFormats, `,"keep_alive":"5m","options":{"num_ctx":64,"num_keep":4,"num_batch":64,"use_mmap":true,` +
			`"tfs_z":1.0,"mirostat_eta":0.1,"mirostat_tau":5,"repeat_last_n":64},"format":"","tool_choice":"auto"`, ""},
	} {
		for format := range strings.FieldsSeq(c.formats) {
			status, _, warned, out := ask(t, url, "most", format, "", c.fields)
			got := strings.ReplaceAll(strings.Join(warned, "\n"), ": this field is not known here and has no effect", "")
			if status != http.StatusOK || got != c.want {
				t.Errorf("%s%s: %d, warnings %q, want %q:\n%s", format, c.fields, status, got, c.want, out)
			}
		}
	}
	status, out := all(t.Context(), t, http.MethodPost, url+"/v1/completions", "most",
		`{"model":"demo","prompt":"Two and two","max_completion_tokens":3,"temprature":1}`)
	for _, want := range []string{"; use max_tokens", "; did you mean temperature?"} {
		if status != http.StatusOK || !strings.Contains(out, want) {
			t.Errorf("/v1/completions: %d, without %q:\n%s", status, want, out)
		}
	}
}
