package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"runner/chattemplate"
	"runner/cmd/runner/render"
	"runner/generation"
	"runner/grammar"
	"runner/hint"
	"runner/reasoning/decision"
	"runner/reasoning/prompts"
)

// validatePlan refuses flags that cannot be combined with --plan.
func (o *runOptions) validatePlan(cmd *cobra.Command) error {
	if o.tools == "" {
		return Usage("--plan needs functions to plan with").Hint("give them with --tools")
	}
	for _, name := range append([]string{"output", "tool-choice", "rationale", "verbose"}, formFlags...) {
		if cmd.Flags().Changed(name) {
			return Usage("--plan and --%s exclude each other", name).Hint("leave one of them out")
		}
	}
	return nil
}

// plan asks for a plan and writes it. If reasons are missing, it asks once more and takes the plan with fewer missing
// reasons.
func (a *App) plan(ctx context.Context, gen generator, o *runOptions, req generation.Request,
	spinner *render.Spinner) error {
	tools := make([]string, len(req.Tools))
	for i, t := range req.Tools {
		tools[i] = t.Name
	}
	schema, err := decision.PlanSchema(tools)
	if err != nil {
		return err
	}
	functions, err := describeTools(req.Tools)
	if err != nil {
		return err
	}
	req.Tools, req.Form = nil, grammar.JSONSchema(schema)
	ask := func(strict string) (decision.Plan, error) {
		req := req
		req.Messages = instructed(req.Messages, prompts.PlanV1+"\n"+functions+strict)
		s := a.streams(o, spinner)
		s.Out, s.OutTerminal = io.Discard, false // plan writes the final plan itself
		reply, err := generate(ctx, gen, req, o.observer(newRunID()), render.NewPipe(s), spinner)
		o.record.Tell(reply.Result, a.Note)
		if err != nil {
			return decision.Plan{}, err
		}
		p, err := decision.ParsePlan(reply.Answer, tools)
		if err != nil {
			return p, &hint.Error{Text: err.Error(), Err: errPlan,
				Advice: "allow more with --max-tokens, or ask another model"}
		}
		return p, nil
	}
	best, err := ask("")
	if err == nil && best.Missing > 0 {
		again, err := ask("\n" + prompts.PlanStrictV1)
		switch {
		case errors.Is(err, errPlan): // keep the first plan
		case err != nil:
			return err
		case again.Missing < best.Missing:
			best = again
		}
	}
	if err != nil {
		return err
	}
	if best.Missing > 0 {
		a.Complain(fmt.Sprintf("warning: plan_rationale_missing: %s of the plan without a reason",
			Count(best.Missing, "step", "steps")))
	}
	return render.Indented(a.Stdout()).Encode(best)
}

// errPlan is the kind of an error about an answer that is not a valid plan.
var errPlan = errors.New("no valid plan")

// describeTools describes functions to the model, one a line.
func describeTools(tools []chattemplate.Tool) (string, error) {
	var text string
	for _, t := range tools {
		b, err := json.Marshal(struct {
			Name        string          `json:"name"`
			Description string          `json:"description,omitempty"`
			Parameters  json.RawMessage `json:"parameters,omitempty"`
		}{t.Name, t.Description, t.Parameters})
		if err != nil {
			return "", err
		}
		text += string(b) + "\n"
	}
	return text, nil
}

// instructed appends text to the system prompt of messages.
func instructed(messages []chattemplate.Message, text string) []chattemplate.Message {
	if first := messages[0]; first.Role == chattemplate.System {
		first.Content += "\n\n" + text
		return append([]chattemplate.Message{first}, messages[1:]...)
	}
	return append([]chattemplate.Message{{Role: chattemplate.System, Content: text}}, messages...)
}
