package contract_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/fake"
	"runner/chattemplate"
	"runner/generation"
	"runner/reasoning"
	"runner/reasoning/prompts"
	"runner/reasoning/seal"
	"runner/server/agui"
	"runner/server/anthropic"
	"runner/server/mew/encoder"
	"runner/server/mew/envelope"
	"runner/server/ollama"
	"runner/server/openai"
	"runner/server/openai/responses"
	"runner/server/web"
	"runner/server/wire"
	"runner/server/wiretest"
)

// The leak table tests every field of every format, on every segment, under every visibility. The model's reasoning
// has words that are nowhere else. It reasons in its answer if that is the first place where it may write.

const (
	// spelled is a hidden word of many tokens. boosted is one of a single token. It is so frequent in the reasoning that
	// a penalty that counted it would change the answer.
	spelled = "zqxjk"
	boosted = " minus"
)

// pondered is the model's reasoning.
var pondered = "so " + spelled + strings.Repeat(boosted, 32) + " END plan"

// Words of the answers. They are not hidden.
const (
	answered = "so it is 12"
	told     = "what is 12"
	called   = `{"q":12}`
)

// scenes are questions, by what the model does when it is asked.
var scenes = []string{"answer", "call", "think only"}

// thinker is the script of a harmony model that must reason.
func thinker() []fake.Reply {
	const final, commentary, next = "<|channel|>final<|message|>", "<|channel|>commentary<|message|>",
		"<|end|><|start|>assistant"
	think := "<|channel|>analysis<|message|>" + pondered + next
	answer := final + answered + "<|return|>"
	replies := []fake.Reply{
		{After: prompts.SummaryConciseV1 + next + final, Say: "It is a plan.<|return|>"},
		{After: prompts.PosthocV1 + next + final, Say: "It is a plan.<|return|>"},
		// The strategies: markers, an object, a call.
		{Prompt: prompts.MarkersV1[:40], After: final,
			Say: "<<REASONING>>" + pondered + "<</REASONING>>" + answered + "<|return|>"},
		{Prompt: prompts.JSONV1[:40], After: final,
			Say: `{"reasoning": "` + pondered + `", "answer": "` + answered + `"}<|return|>`},
		{Prompt: "report_reasoning", After: "{}" + next, Say: answer},
		{After: "Let me see" + next, Say: think + answer},
		{After: pondered + next, Say: answer}, {After: prompts.BudgetV1 + next, Say: answer},
	}
	for _, scene := range scenes {
		ask := wiretest.Ask(scene)
		say := think + answer
		switch scene {
		case "call":
			say = wiretest.Call(pondered, told, function, called)
		case "think only":
			say = "<|channel|>analysis<|message|>" + pondered + "<|return|>"
		}
		replies = append(replies,
			fake.Reply{Prompt: prompts.MarkersV1[:40], After: ask,
				Say: final + "<<REASONING>>" + pondered + "<</REASONING>>" + answered + "<|return|>"},
			fake.Reply{Prompt: prompts.ReportV1[:40], After: ask,
				Say: "<|channel|>commentary to=functions.report_reasoning <|constrain|>json<|message|>" +
					`{"reasoning": "` + pondered + `"}<|call|>`},
			fake.Reply{After: ask, Say: say},
			// It was kept from its channel, so it reasons where it is.
			fake.Reply{After: ask + final, Say: pondered + "<|return|>"},
			fake.Reply{After: ask + commentary, Say: pondered + "<|return|>"})
	}
	return replies
}

// tagged is a model that marks its reasoning with tags and must reason.
func tagged() fake.Config {
	const turn, skipped = "<|im_start|>assistant\n", "<think>\n\n</think>\n\n"
	v := fake.Think()
	cfg := fake.Config{Vocab: v, ChatTemplate: fake.ThinkTemplate, ContextSize: 4096}
	replies := []fake.Reply{
		{After: prompts.SummaryConciseV1 + "<|im_end|>\n" + turn + skipped, Say: "It is a plan.<|im_end|>"},
		{Prompt: prompts.MarkersV1[:40], After: turn + skipped,
			Say: "<<REASONING>>" + pondered + "<</REASONING>>" + answered + "<|im_end|>"},
		{Prompt: prompts.JSONV1[:40], After: turn + skipped,
			Say: `{"reasoning": "` + pondered + `", "answer": "` + answered + `"}<|im_end|>`},
		{After: turn + "<think>\n", Say: pondered + "</think>" + answered + "<|im_end|>"},
		{After: pondered + "</think>\n\n", Say: answered + "<|im_end|>"},
		{After: prompts.BudgetV1 + "\n</think>\n\n", Say: answered + "<|im_end|>"},
	}
	usual, kept := script(v, replies), fake.Encode(v, boosted)[0]
	cfg.Script = func(before []backend.Token) backend.Token {
		text := fake.Decode(v, before)
		if said := text[strings.LastIndex(text, turn)+len(turn):]; said != "" && !strings.HasPrefix(said, "<think>") {
			return kept // it was kept from its tag, so it reasons where it is
		}
		return usual(before)
	}
	return cfg
}

// script is [fake.Replies] for many runs. It looks only for the last marker of each reply, and tokenizes each reply
// once.
func script(v *backend.Vocab, replies []fake.Reply) fake.Script {
	tokens := make([]map[int]backend.Token, len(replies)) // of each reply, by the byte where they begin
	for i, r := range replies {
		tokens[i] = map[int]backend.Token{}
		at := 0
		for _, t := range fake.Encode(v, r.Say) {
			tokens[i][at] = t
			at += len(v.Piece(t))
		}
	}
	return func(before []backend.Token) backend.Token {
		text := fake.Decode(v, before)
		next, most, last := v.EOS(), -1, -1
		for i, r := range replies {
			at := strings.LastIndex(text, r.After)
			if at < 0 || !strings.Contains(text[:at], r.Prompt) {
				continue
			}
			at += len(r.After)
			if done := len(text) - at; strings.HasPrefix(r.Say, text[at:]) &&
				(done > most || done == most && at > last) {
				if next, most, last = v.EOS(), done, at; done == len(r.Say) {
					continue
				}
				t, ok := tokens[i][done]
				if !ok { // a form has cut it differently
					t = fake.Encode(v, r.Say[done:])[0]
				}
				next = t
			}
		}
		return next
	}
}

// table is what to request in one format.
type table struct {
	path  string
	model func() fake.Config
	// visibility returns fields that ask for a visibility, by its name.
	visibility map[string]object
	// fields are the format's fields, with values that could move or name hidden text.
	fields map[string]object
	// body is a request without them.
	body func(question string, stream bool) object
}

// hostile are the fields of OpenAI's formats, of ours, and of other engines whose users switch to this one.
func hostile(v *backend.Vocab) map[string]object {
	id := func(name string) string { return fmt.Sprint(fake.Encode(v, name)[0]) }
	bias := func(value int, names ...string) object {
		of := object{}
		for _, name := range names {
			of[id(name)] = value
		}
		return object{"logit_bias": of}
	}
	return map[string]object{
		"bias against channels": bias(-100, "analysis", "final"), "bias against reasoning": bias(-100, "analysis"),
		"bias against calls": bias(-100, "analysis", "final", " to", "to"), "bias for the answer": bias(100, "final"),
		"bias against headers": bias(-100, "<|channel|>", "<|start|>"),
		"bias against the end": bias(-100, "<|end|>", "<|return|>"),
		"bias for the end":     bias(100, "<|end|>", "<|message|>"), "bias for markers": bias(60, "<"),
		"frequency": {"frequency_penalty": -2}, "presence": {"presence_penalty": -2, "frequency_penalty": -1.5},
		"repetition": {"repetition_penalty": 0.01},
		"repeat":     {"repeat_penalty": 0.01}, "penalty and heat": {"frequency_penalty": -2, "temperature": 2},
		"temperature": {"temperature": 2}, "cold": {"temperature": 0}, "top_p": {"top_p": 0}, "top_k": {"top_k": 1},
		"min_p": {"min_p": 1}, "typical": {"typical_p": 0.05},
		"stop": {"stop": []any{"END", spelled, "analysis"}}, "regex": {"regex": "[a-z ]{1,40}"},
		"grammar":    {"grammar": `root ::= [a-z ]+`},
		"object":     {"response_format": object{"type": "json_object"}, "max_tokens": 200},
		"choice":     {"choice": []any{"so it", "no"}},
		"ignore_eos": {"ignore_eos": true, "max_tokens": 200}, "n": {"n": 2}, "short": {"max_tokens": 12},
		"seal":   {"reasoning_seal": true},
		"budget": {"reasoning_budget": 3}, "effort": {"reasoning_effort": "high"},
		"call no tool": {"tool_choice": "none"},
		"template": {"chat_template_kwargs": object{"model_identity": "analysis",
			"builtin_tools": []any{"python"}}},
		"markers": {"reasoning_strategy": "markers"}, "tool": {"reasoning_strategy": "tool"},
		"json":      {"reasoning_strategy": "json", "reasoning_effort": "low", "tools": []any{}},
		"rationale": {"rationale": true}, "rationale and bias": {"rationale": true,
			"logit_bias": object{id("<"): -100}},
		"specialist": {"delegation": object{"agent_prompt": "You are careful."}},
		"delegation": {"delegation": object{"allow": true}},
	}
}

// only returns the fields with the given names that a format has.
func only(all map[string]object, drop ...string) map[string]object {
	out := map[string]object{"nothing": {}}
	for name, fields := range all {
		if !slices.ContainsFunc(drop, func(d string) bool { _, has := fields[d]; return has }) {
			out[name] = fields
		}
	}
	return out
}

func leakTables(v *backend.Vocab) map[string]table {
	all := hostile(v)
	tool := object{"name": function, "description": "Looks.", "parameters": parameters}
	user := func(question string) []any { return []any{object{"role": "user", "content": question}} }
	logprobs := map[string]object{"logprobs": {"logprobs": true, "top_logprobs": 20}}
	chat := only(all)
	maps.Copy(chat, logprobs)
	begun := append(user("answer"), object{"role": "assistant", "content": "Let me see"})
	chat["prefilled"] = object{"messages": begun}
	chat["goes on"] = object{"messages": begun, "continue_final_message": true}
	inBody := map[string]object{"none": {"reasoning": "none"}, "summary": {"reasoning": "summary"},
		"full": {"reasoning": "full"}, "unsaid": {}}
	response := only(all, "logit_bias", "frequency_penalty", "presence_penalty", "repetition_penalty",
		"repeat_penalty", "top_k", "min_p", "typical_p", "stop",
		"regex", "grammar", "response_format", "choice", "ignore_eos", "n", "max_tokens")
	response["logprobs"] = object{"include": []any{"message.output_text.logprobs"}, "top_logprobs": 20}
	response["short"] = object{"max_output_tokens": 16}
	response["sealed"] = object{"include": []any{"reasoning.encrypted_content"}, "store": false}
	messages := map[string]object{
		"nothing": {}, "temperature": {"temperature": 1}, "top_p": {"top_p": 0}, "top_k": {"top_k": 1},
		"short":  {"max_tokens": 12},
		"stop":   {"stop_sequences": []any{"END", spelled, "analysis"}},
		"effort": {"output_config": object{"effort": "high"}},
		"object": {"output_config": object{"format": object{"type": "json_schema",
			"schema": object{"type": "object"}}}},
	}
	messages["goes on"] = object{"messages": begun}
	options := map[string]object{"nothing": {}, "form": {"format": "json"}}
	for name, o := range only(all, "logit_bias", "response_format", "regex", "grammar", "choice", "ignore_eos", "n",
		"reasoning_seal", "reasoning_budget",
		"reasoning_effort", "tool_choice", "chat_template_kwargs", "reasoning_strategy", "rationale", "delegation",
		"repetition_penalty") {
		o = maps.Clone(o)
		if n, ok := o["max_tokens"]; ok {
			delete(o, "max_tokens")
			o["num_predict"] = n
		}
		o["repeat_last_n"] = -1
		options[name] = object{"options": o}
	}
	options["logprobs"] = object{"logprobs": true, "top_logprobs": 20}
	agent := map[string]object{"nothing": {}}
	for name, o := range only(all, "logit_bias", "frequency_penalty", "presence_penalty", "repetition_penalty",
		"repeat_penalty", "top_k", "min_p", "typical_p",
		"regex", "grammar", "response_format", "choice", "ignore_eos", "n") {
		agent[name] = object{"forwardedProps": o}
	}
	agent["json"] = object{"forwardedProps": object{"reasoning_strategy": "json", "reasoning_effort": "low"},
		"tools": []any{}}
	props := map[string]object{}
	for name, o := range inBody {
		props[name] = object{"forwardedProps": o}
	}
	page := only(all, "logit_bias", "frequency_penalty", "presence_penalty", "repetition_penalty", "repeat_penalty",
		"top_k",
		"typical_p", "regex", "grammar", "response_format", "choice", "ignore_eos", "n")
	page["schema"] = object{"schema": object{"type": "object"}, "max_tokens": 200}
	tags := only(hostile(fake.Think()), "tool_choice", "delegation", "chat_template_kwargs")
	delete(tags, "tool") // it has no way to write calls
	maps.Copy(tags, logprobs)
	for name, value := range map[string]int{"<think>": -100, "</think>": 100} {
		tags["bias on "+name] = object{"logit_bias": object{fmt.Sprint(fake.Encode(fake.Think(), name)[0]): value}}
	}
	harmony := func() fake.Config {
		v := fake.Harmony()
		return fake.Config{Vocab: v, ContextSize: 4096, Script: script(v, thinker())}
	}
	return map[string]table{
		"chat completions, tags": {"/v1/chat/completions", tagged, inBody, tags,
			func(question string, stream bool) object {
				return object{"messages": user(question), "stream": stream, "max_tokens": 300, "seed": 7}
			}},
		"chat completions": {"/v1/chat/completions", harmony, inBody, chat, func(question string, stream bool) object {
			return object{"messages": user(question), "tools": []any{object{"type": "function", "function": tool}},
				"stream": stream, "max_tokens": 300, "seed": 7}
		}},
		"responses": {"/v1/responses", harmony, inBody, response, func(question string, stream bool) object {
			return object{"input": question, "tools": []any{object{"type": "function", "name": function,
				"parameters": parameters}}, "stream": stream, "max_output_tokens": 300, "seed": 7}
		}},
		"messages": {"/v1/messages", harmony, map[string]object{
			"none": {}, "unsaid": {"thinking": object{"type": "enabled", "budget_tokens": 1024, "display": "omitted"}},
			"summary": {"thinking": object{"type": "adaptive", "display": "summarized"}},
			"full":    {"thinking": object{"type": "adaptive"}},
		}, messages, func(question string, stream bool) object {
			return object{"messages": user(question),
				"tools": []any{object{"name": function, "input_schema": parameters}}, "stream": stream,
				"max_tokens": 300}
		}},
		"ollama": {"/api/chat", harmony, map[string]object{"none": {}, "full": {"think": true}}, options,
			func(question string, stream bool) object {
				return object{"model": wiretest.Name, "messages": user(question),
					"tools": []any{object{"type": "function", "function": tool}}, "stream": stream,
					"options": object{"num_predict": 300}}
			}},
		"ollama generate": {"/api/generate", harmony, map[string]object{"none": {}, "full": {"think": true}},
			options, func(question string, stream bool) object {
				return object{"model": wiretest.Name, "prompt": question, "stream": stream,
					"options": object{"num_predict": 300}}
			}},
		"page": {"/web/chat", harmony, inBody, page, func(question string, _ bool) object {
			return object{"conversation": "c", "messages": user(question), "tools": []any{tool}, "max_tokens": 300, "seed": 7}
		}},
		"AG-UI": {"/agui", harmony, props, agent, func(question string, stream bool) object {
			return object{"threadId": "t", "runId": "r",
				"messages": []any{object{"id": "m", "role": "user", "content": question}}, "tools": []any{tool},
				"forwardedProps": object{"max_tokens": 300, "seed": 7, "chunks": stream}}
		}},
	}
}

// merged returns a body with fields added. Objects that are in both are merged too.
func merged(body object, fields ...object) object {
	body = maps.Clone(body)
	for _, f := range fields {
		for name, value := range f {
			a, one := body[name].(object)
			b, two := value.(object)
			if one && two {
				value = merged(a, b)
			}
			body[name] = value
		}
	}
	return body
}

// No field of a request may make hidden reasoning visible.
func TestNoFieldShowsHiddenReasoning(t *testing.T) {
	for name, of := range leakTables(fake.Harmony()) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			models := wiretest.New(t, of.model())
			keys := seal.NewKeyring()
			api := map[string]wire.Format{
				"/v1/chat/completions": openai.New(models, openai.Config{Seal: keys}),
				"/v1/messages":         anthropic.New(models, anthropic.Config{Seal: keys}),
				"/v1/responses":        responses.New(models, responses.Config{Config: wire.Config{Seal: keys}}),
				"/agui":                agui.New(models, agui.Config{Seal: keys}),
				"/web/chat":            web.New(models, web.Config{Config: wire.Config{Seal: keys}}),
				"/api/chat":            ollama.New(models, ollama.Config{}),
				"/api/generate":        ollama.New(models, ollama.Config{}),
			}[of.path]
			capped := wiretest.Anyone()
			capped.ID, capped.Reasoning = "capped", reasoning.VisibilityNone
			urls := map[string]string{"full": wiretest.Serve(t, api, wiretest.Anyone()).URL,
				"none": wiretest.Serve(t, api, capped).URL}
			shown, hidden, refused := 0, 0, map[string]int{}
			for field, extra := range of.fields {
				answers := 0
				for _, scene := range scenes {
					if (name == "ollama generate" || name == "chat completions, tags") && scene != "answer" {
						continue // there are no tools, and all answers are equal
					}
					for asked, visibility := range of.visibility {
						for most, url := range urls {
							if most == "none" && asked != "unsaid" &&
								(asked != "none" || of.visibility["unsaid"] != nil) {
								continue // it is refused, or the same as the others
							}
							for _, stream := range []bool{false, true} {
								b, err := json.Marshal(merged(of.body(scene, stream), visibility, extra))
								if err != nil {
									t.Fatal(err)
								}
								status, header, answer := wiretest.Send(t, http.MethodPost, url+of.path, string(b),
									http.Header{"Anthropic-Version": {"2023-06-01"}})
								if status != http.StatusOK {
									refused[fmt.Sprintf("%s: %d %.120s", field, status, answer)]++
								} else {
									answers++
								}
								found := tells(answer) || tells(fmt.Sprint(header))
								switch {
								case asked == "full" && most == "full":
									if found {
										shown++
									}
								case found:
									t.Errorf("%s, %s, visibility %s, cap %s, stream %v: %.700s", field, scene, asked,
										most, stream, answer)
								default:
									hidden++
								}
							}
						}
					}
				}
				if answers == 0 {
					t.Errorf("%s is always refused: %v", field, slices.Collect(maps.Keys(refused)))
				}
			}
			if shown < 20 || hidden < 50 {
				t.Errorf("the reasoning showed %d times where it may and was hidden %d times", shown, hidden)
			}
		})
	}
}

// tells reports whether an answer contains a hidden word, in one string or in all strings of a kind joined. A word of
// one token can occur by chance, so it counts only if it is repeated.
func tells(answer string) bool {
	all := append(wiretest.Joined(answer), answer)
	return slices.ContainsFunc(all, func(text string) bool {
		return strings.Contains(text, spelled) || strings.Contains(text, strings.Repeat(boosted, 3))
	})
}

// MEW's callers have no such fields, but its operator has.
func TestMEWShowsNoHiddenReasoning(t *testing.T) {
	vocab := fake.Harmony()
	models := wiretest.New(t, fake.Config{Vocab: vocab, ContextSize: 4096, Script: script(vocab, thinker())})
	against := func(names ...string) (list []backend.TokenBias) {
		for _, name := range names {
			list = append(list, backend.TokenBias{Token: fake.Encode(vocab, name)[0], Bias: -100})
		}
		return list
	}
	shown := 0
	for field, change := range map[string]func(*generation.Request){
		"nothing": func(*generation.Request) {}, "bias": func(q *generation.Request) {
			q.Sampling.Bias = against("analysis",
				"final")
		},
		"penalty": func(q *generation.Request) { q.Sampling.FrequencyPenalty = -2 },
		"heat":    func(q *generation.Request) { q.Sampling.Temperature = 2 },
		"stop":    func(q *generation.Request) { q.Stop = []string{"END", spelled} },
	} {
		for _, scene := range scenes {
			for _, v := range []reasoning.Visibility{reasoning.VisibilityNone, reasoning.VisibilitySummary,
				reasoning.VisibilityFull} {
				req := generation.Request{
					Messages:   []chattemplate.Message{{Role: chattemplate.User, Content: scene}},
					Tools:      []chattemplate.Tool{{Name: function, Parameters: json.RawMessage(`{"type":"object"}`)}},
					Visibility: v, MaxTokens: 300,
				}
				change(&req)
				var frames strings.Builder
				n := 0
				id := func() string { n++; return fmt.Sprint("m", n) }
				e := encoder.New(encoder.Config{From: "model", Clock: func() time.Time { return wiretest.Today },
					NewID: id}, func(e *envelope.Envelope) error {
					line, err := e.Append(nil)
					frames.Write(append(line, '\n'))
					return err
				})
				for ev, err := range models.Engine.Generate(t.Context(), req, generation.Unobserved{}) {
					if err != nil {
						t.Fatal(err)
					}
					if err := e.Push(&ev); err != nil {
						t.Fatal(err)
					}
				}
				if err := e.End(); err != nil {
					t.Fatal(err)
				}
				if found := tells(frames.String()); found && v != reasoning.VisibilityFull {
					t.Errorf("%s, %s, visibility %v: %.700s", field, scene, v, frames.String())
				} else if found {
					shown++
				}
			}
		}
	}
	if shown < 5 {
		t.Errorf("the reasoning showed %d times where it may", shown)
	}
}
