package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"runner/grammar"
	"runner/reasoning"
	"runner/server/openai"
	"runner/server/wire"
)

// request is a question as a chat completion at temperature 0 with all of the reasoning visible.
func (q *question) request() fields {
	messages := []any{}
	if q.Developer != "" {
		messages = append(messages, message{"developer", q.Developer})
	}
	for _, m := range q.Messages {
		messages = append(messages, m)
	}
	f := fields{"messages": messages, "temperature": 0, "max_tokens": maxTokens, "include_reasoning": true}
	if q.Effort != "" {
		f["reasoning_effort"] = q.Effort
	}
	if len(q.Tools) > 0 {
		f["tools"] = q.functions()
	}
	if q.Strategy != "" {
		f["reasoning_strategy"] = q.Strategy
	}
	if q.Rationale {
		f["rationale"] = true
	}
	return f
}

// functions are the question's tools in the form of chat completions.
func (q *question) functions() []any {
	var list []any
	for _, t := range q.Tools {
		list = append(list, fields{"type": "function", "function": t})
	}
	return list
}

// first returns the first choice of an answer and its text.
func first(c *openai.ChatCompletion) (*openai.AnswerMessage, string) {
	m := &c.Choices[0].Message
	if m.Content == nil {
		return m, ""
	}
	return m, *m.Content
}

// said formats an answer for people who look for mistakes.
func said(m *openai.AnswerMessage, content string) string {
	text := fmt.Sprintf("%q", content)
	for _, c := range m.ToolCalls {
		text += fmt.Sprintf(" %s(%s)", c.Function.Name, c.Function.Arguments)
	}
	return text + fmt.Sprintf("\n    after %q", m.Reasoning)
}

// equation matches an equation whose operands may be swapped.
var equation = regexp.MustCompile(`(\d+) ([+*]) (\d+) =`)

// ordered sorts the operands of sums and products by their text.
func ordered(answer string) string {
	return equation.ReplaceAllStringFunc(answer, func(text string) string {
		if m := equation.FindStringSubmatch(text); m[3] < m[1] {
			return m[3] + " " + m[2] + " " + m[1] + " ="
		}
		return text
	})
}

// answered reports whether an answer is exact, except for the order of the operands of a sum or product.
func (q *question) answered(content string) bool {
	return ordered(content) == ordered(q.Expect.Answer)
}

// warm checks answers at the program's default temperature.
func warm(ctx context.Context, e *evaluation, i int, q *question) (verdict, error) {
	f := q.request()
	f["temperature"], f["seed"] = 0.8, i
	return e.exact(ctx, q, f)
}

// answers checks that answers are exact.
func answers(ctx context.Context, e *evaluation, _ int, q *question) (verdict, error) {
	return e.exact(ctx, q, q.request())
}

// exact makes a request and compares the answer with the question's.
func (e *evaluation) exact(ctx context.Context, q *question, f fields) (verdict, error) {
	c, err := e.server.chat(ctx, f)
	if err != nil {
		return verdict{}, err
	}
	m, content := first(c)
	return verdict{right: q.answered(content), said: said(m, content)}, nil
}

// format is the form of a question's answer in a chat completion request.
func (q *question) format() fields {
	return fields{"type": "json_schema", "json_schema": fields{"name": q.SchemaName, "schema": q.Schema}}
}

// freeJSON tells the model about a schema without enforcing it: the model continues from the prompt of a request
// with that schema.
func freeJSON(ctx context.Context, e *evaluation, _ int, q *question) (verdict, error) {
	f := q.request()
	f["response_format"] = q.format()
	p, err := e.server.prompt(ctx, f)
	if err != nil {
		return verdict{}, err
	}
	thoughts, answer, err := e.server.proceed(ctx, p.Prompt)
	if err != nil {
		return verdict{}, err
	}
	valid, err := q.obeys(answer)
	return verdict{right: valid && equalJSON(answer, string(q.Expect.JSON)), said: fmt.Sprintf("%q\n    after %q", answer,
		thoughts)}, err
}

// heldJSON enforces a schema. The answer must be valid; the kinds report whether it is also right.
func heldJSON(ctx context.Context, e *evaluation, _ int, q *question) (verdict, error) {
	f := q.request()
	f["response_format"] = q.format()
	c, err := e.server.chat(ctx, f)
	if err != nil {
		return verdict{}, err
	}
	m, content := first(c)
	valid, err := q.obeys(content)
	kind := "valid where the value is wrong"
	if equalJSON(content, string(q.Expect.JSON)) {
		kind = "valid where the value is right"
	}
	return verdict{right: valid, kind: kind, said: said(m, content)}, err
}

// obeys reports whether an answer is valid against the question's schema.
func (q *question) obeys(answer string) (bool, error) {
	v, err := grammar.NewValidator(q.Schema)
	if err != nil {
		return false, err
	}
	return v.Validate([]byte(answer)) == nil, nil
}

// equalJSON reports whether two texts are the same JSON value.
func equalJSON(a, b string) bool {
	x, errX := value(a)
	y, errY := value(b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}

// value reads JSON with its numbers as they are written, however large.
func value(text string) (v any, err error) {
	if !json.Valid([]byte(text)) {
		return nil, errors.New("no JSON value")
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	return v, d.Decode(&v)
}

// matches reports whether a message makes exactly the right call.
func (q *question) matches(m *openai.AnswerMessage) bool {
	want := q.Expect.Call
	return want != nil && len(m.ToolCalls) == 1 && m.ToolCalls[0].Function.Name == want.Name &&
		equalJSON(m.ToolCalls[0].Function.Arguments, string(want.Arguments))
}

// after returns the messages that follow the question when a message has called its function: the message and the
// result.
func (q *question) after(m *openai.AnswerMessage) []any {
	return []any{
		fields{"role": "assistant", "content": m.Content, "reasoning": m.Reasoning, "tool_calls": m.ToolCalls},
		fields{"role": "tool", "tool_call_id": m.ToolCalls[0].ID, "content": q.ToolResult},
	}
}

// calls checks that the model calls a function and then answers with its result.
func calls(ctx context.Context, e *evaluation, _ int, q *question) (verdict, error) {
	f := q.request()
	c, err := e.server.chat(ctx, f)
	if err != nil {
		return verdict{}, err
	}
	m, content := first(c)
	if q.Expect.Call == nil || !q.matches(m) {
		return verdict{right: q.Expect.Call == nil && len(m.ToolCalls) == 0 && q.answered(content), said: said(m, content)},
			nil
	}
	f["messages"] = append(f["messages"].([]any), q.after(m)...)
	if c, err = e.server.chat(ctx, f); err != nil {
		return verdict{}, err
	}
	m, content = first(c)
	return verdict{right: len(m.ToolCalls) == 0 && holds(content, q.Expect.Result), said: said(m, content)}, nil
}

// rationales checks that the right call comes with exactly one reason.
func rationales(ctx context.Context, e *evaluation, _ int, q *question) (verdict, error) {
	c, err := e.server.chat(ctx, q.request())
	if err != nil {
		return verdict{}, err
	}
	m, content := first(c)
	reasons, stated := 0, 0
	for _, d := range m.Rationale {
		if d.Decision != reasoning.DecisionToolSelection {
			continue
		}
		reasons++
		if q.Expect.Call != nil && d.ToolName == q.Expect.Call.Name && strings.TrimSpace(d.Rationale.Why) != "" {
			stated++
		}
	}
	odd := slices.ContainsFunc(c.Warnings, func(w wire.Warning) bool { return strings.HasSuffix(w.Code, "_rationale") })
	alone := reasons == 1 && !odd
	return verdict{right: q.matches(m) && stated == 1 && alone, formed: len(m.ToolCalls) == 1 && alone,
		said: fmt.Sprintf("%s with %+v, %+v", said(m, content), m.Rationale, c.Warnings)}, nil
}

// reported checks that the reasoning comes as the strategy requires, separate from an exact answer, and with a
// score where the strategy has one.
func reported(ctx context.Context, e *evaluation, _ int, q *question) (verdict, error) {
	c, err := e.server.chat(ctx, q.request())
	if err != nil {
		return verdict{}, err
	}
	m, content := first(c)
	apart := c.ReasoningInfo != nil && c.ReasoningInfo.Strategy == q.Strategy && strings.TrimSpace(m.Reasoning) != ""
	if q.Strategy == string(reasoning.StrategyJSON) {
		apart = apart && m.Score != nil
	}
	return verdict{right: apart && q.answered(content), formed: apart, said: said(m, content)}, nil
}

// delegations checks that one specialist worked and returned, and that the answer is exact.
func delegations(ctx context.Context, e *evaluation, _ int, q *question) (verdict, error) {
	f, by := q.request(), "user"
	if q.Allow {
		by = "model"
		f["delegation"] = fields{"allow": true}
	} else {
		f["delegation"] = fields{"agent_prompt": q.Delegate}
	}
	c, err := e.server.chat(ctx, f)
	if err != nil {
		return verdict{}, err
	}
	m, content := first(c)
	d := m.Delegations
	returned := len(d) == 1 && d[0].By == by && d[0].Outcome == reasoning.DelegationReturned
	return verdict{right: returned && q.answered(content), formed: returned,
		said: fmt.Sprintf("%s by %+v", said(m, content), d)}, nil
}

// holds reports whether a text contains a result as a separate word or number.
func holds(text, result string) bool {
	if result == "" {
		return false
	}
	text, result = " "+strings.ToLower(text)+" ", strings.ToLower(result)
	for at := 0; ; at++ {
		next := strings.Index(text[at:], result)
		if next < 0 {
			return false
		}
		at += next
		negative := at > 1 && text[at-1] == '-' && isDigit(result[0]) && !isDigit(text[at-2])
		if !negative && !joined(text[at-1], result[0]) && !joined(result[len(result)-1], text[at+len(result)]) {
			return true
		}
	}
}

// joined reports whether two characters belong to one word or number.
func joined(a, b byte) bool { return isDigit(a) && isDigit(b) || isLetter(a) && isLetter(b) }

func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isLetter(c byte) bool { return 'a' <= c && c <= 'z' }
