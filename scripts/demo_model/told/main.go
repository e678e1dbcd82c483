// Command told writes down the texts that the runner adds to prompts. The training data of the bundled model is
// made from them: system messages, the prompts of strategies, decision tracing and delegation, and the lists of
// functions and formats.
//
//	go run ./scripts/demo_model/told      writes scripts/demo_model/prompts.json
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"runner/backend"
	"runner/backend/llamacpp"
	"runner/chattemplate"
	"runner/generation"
	"runner/generation/delegation"
	"runner/grammar"
	"runner/models/demo"
	"runner/reasoning"
	"runner/reasoning/decision"
	"runner/reasoning/prompts"
	"runner/runner"
	"runner/runner/delegate"
)

// asked is the conversation of all prompts, and given is the specialist's prompt.
var (
	asked = []chattemplate.Message{{Role: chattemplate.User, Content: "What is 12+3?"}}
	given = delegation.Delegate{Prompt: "You are a careful calculator."}
)

// planTool is a function in the form that `runner run --plan` shows to the model.
const planTool = `{"name":"multiply","description":"Multiplies two numbers.",` +
	`"parameters":{"type":"object","properties":{"a":{"type":"number"}}}}` + "\n"

// promptRequests are requests that together use every text that the runner adds to prompts.
func promptRequests() map[string]generation.Request {
	tool := chattemplate.Tool{Name: "multiply", Description: "Multiplies two numbers.", Parameters: json.RawMessage(
		`{"type":"object","properties":{"a":{"type":"number","description":"a factor"},"b":{"type":"integer"},` +
			`"op":{"type":"string","enum":["x","y"]}},"required":["a","b"]}`)}
	called := []chattemplate.Message{
		asked[0],
		{Role: chattemplate.Assistant, Reasoning: "I call it.",
			ToolCalls: []chattemplate.ToolCall{{ID: "1", Name: tool.Name, Arguments: `{"a": 1, "b": 2}`}}},
		{Role: chattemplate.ToolRole, ToolCallID: "1", ToolName: tool.Name, Content: `{"result": 5}`},
	}
	tools := []chattemplate.Tool{tool}
	told := append([]chattemplate.Message{{Role: chattemplate.Developer, Content: "Be brief."}}, asked...)
	later := []chattemplate.Message{asked[0], {Role: chattemplate.Assistant, Content: "12 + 3 = 15."},
		{Role: chattemplate.User, Content: "Add 8."}}
	plan, err := decision.PlanSchema([]string{tool.Name})
	if err != nil {
		panic(err) // the schema is made of constants
	}
	planned := append([]chattemplate.Message{{Role: chattemplate.System, Content: "Be brief.\n\n" + prompts.PlanV1 +
		"\n" + planTool}}, asked...)
	schema := grammar.JSONSchema(
		[]byte(`{"type":"object","properties":{"total":{"type":"integer"}},"required":["total"]}`))
	return map[string]generation.Request{
		"plain":      {Messages: asked},
		"none":       {Messages: asked, Effort: reasoning.EffortNone},
		"developer":  {Messages: told, Effort: reasoning.EffortHigh},
		"later":      {Messages: later},
		"tools":      {Messages: called, Tools: tools, MaySee: reasoning.VisibilityFull},
		"rationale":  {Messages: told, Tools: tools, Rationale: true},
		"form":       {Messages: told, Form: schema},
		"markers":    {Messages: told, Strategy: reasoning.StrategyMarkers},
		"json":       {Messages: asked, Strategy: reasoning.StrategyJSON},
		"formed":     {Messages: asked, Strategy: reasoning.StrategyJSON, Form: schema},
		"report":     {Messages: told, Strategy: reasoning.StrategyTool},
		"delegate":   {Messages: told, Delegation: generation.Delegation{Model: true}},
		"plan":       {Messages: planned, Form: grammar.JSONSchema(plan)},
		"specialist": {Messages: told, Delegation: generation.Delegation{Specialist: &given}},
	}
}

func main() {
	if err := write(context.Background(), filepath.Join("scripts", "demo_model", "prompts.json")); err != nil {
		fmt.Fprintln(os.Stderr, "told:", err)
		os.Exit(1)
	}
}

// rendered renders the requests with the bundled model's vocabulary. Only its special tokens matter here.
func rendered(ctx context.Context) (map[string]string, error) {
	path, err := demo.Path(ctx)
	if err != nil {
		return nil, err
	}
	m, err := llamacpp.Open(ctx, path, backend.Config{ContextSize: 4096, Sequences: 1, Threads: 1})
	if err != nil {
		return nil, err
	}
	r, err := runner.New(m, runner.Config{
		Clock: func() time.Time { return time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC) },
		Loops: []generation.Loop{delegate.Loop{}},
	})
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	defer r.Close()
	out := map[string]string{"report_text": delegation.Report([]string{"12 + 3 = 15."})}
	for name, req := range promptRequests() {
		p, err := r.Prompt(ctx, "", req)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		var b strings.Builder
		for _, t := range p.Tokens {
			b.WriteString(r.Piece(t))
		}
		out[name] = b.String()
	}
	return out, nil
}

func write(ctx context.Context, path string) error {
	all, err := rendered(ctx)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(all); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}
