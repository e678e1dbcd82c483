package runner

import (
	"context"
	"errors"
	"slices"
	"strings"

	"runner/chattemplate"
	"runner/chattemplate/family"
	"runner/generation"
	"runner/grammar"
	"runner/reasoning"
	"runner/reasoning/prompts"
)

// plan is the part of a turn that does not depend on its messages: the strategy, the instructions and the compiled
// forms. A turn may get a plan that was made for another one ([generation.Turn.Alike]). A plan serves one turn only,
// because model and check follow the output.
type plan struct {
	strategy reasoning.Strategy
	// conv is the conversation to render. render sets its messages. instructions go to the end of the system prompt.
	conv         chattemplate.Conversation
	instructions []string
	sight        sight
	// model reads what the model writes and says what may come next. check verifies the finished answer; nil if it cannot
	// be checked.
	model family.Turn
	check *check
}

// newPlan makes the plan of the turn. It fails if the model cannot do what the request asks. It may be slow.
func (t *turn) newPlan() (err error) {
	req := t.req
	t.plan = &plan{conv: chattemplate.Conversation{
		Tools: listed(req.Tools), ResponseFormat: req.ResponseFormat, Effort: req.Effort, KeepReasoning: req.KeepReasoning,
		Args: req.TemplateArgs,
	}}
	if t.strategy, err = t.r.strategy(req); err != nil {
		return err
	}
	if t.strategy == reasoning.StrategyJSON && t.effortNone() && req.Form.IsZero() {
		t.strategy = reasoning.StrategyPosthoc // in an object without reasoning, models reason in the answer
	}
	t.look()
	if !req.IsRaw() {
		t.instruct()
	}
	return t.holdToForms()
}

// listed returns the tools that a prompt lists: those that no message describes. If there is none, it lists all,
// because models call functions only after a list.
func listed(tools []chattemplate.Tool) []chattemplate.Tool {
	list := slices.DeleteFunc(slices.Clone(tools), func(t chattemplate.Tool) bool { return t.Told })
	if len(list) == 0 {
		return tools
	}
	return list
}

// instruct sets the instructions of the strategy and the form.
func (t *turn) instruct() {
	add := func(text string) { t.instructions = append(t.instructions, text) }
	switch t.strategy {
	case reasoning.StrategyMarkers:
		if !t.effortNone() {
			add(prompts.MarkersV1)
		}
		t.conv.Effort = reasoning.EffortNone
	case reasoning.StrategyPosthoc:
		t.conv.Effort = reasoning.EffortNone
	case reasoning.StrategyJSON:
		t.conv.Effort = reasoning.EffortNone
		text := prompts.JSONV1
		if t.req.Form.IsJSON() {
			text = prompts.JSONSchemaV1
		}
		if t.req.Score {
			text += " " + prompts.JSONScoreV1
		}
		if !t.effortNone() || t.req.Score { // a model that is asked to reason and may not would do so in its answer
			add(text)
		}
	case reasoning.StrategyTool:
		if !t.effortNone() {
			t.conv.Tools = append(t.conv.Tools[:len(t.conv.Tools):len(t.conv.Tools)], reportTool())
			add(prompts.ReportV1)
		}
		t.conv.Effort = reasoning.EffortNone
	}
	if t.req.Rationale && len(t.req.Tools) > 0 && t.req.ToolChoice != generation.ToolChoiceNone {
		add(prompts.RationaleV1)
	}
	switch s := t.req.Form.Schema(); {
	case t.conv.ResponseFormat != nil:
	case s != nil:
		t.conv.ResponseFormat = &chattemplate.ResponseFormat{Name: "answer", Schema: s}
	case t.req.Form.IsObject() && t.strategy != reasoning.StrategyJSON: // whose instruction asks for an object
		add(prompts.ObjectV1)
	}
}

// withInstructions returns messages with texts at the end of the system prompt. There must be a message.
func withInstructions(messages []chattemplate.Message, texts []string) []chattemplate.Message {
	if len(texts) == 0 {
		return messages
	}
	text := strings.Join(texts, "\n\n")
	if first := messages[0]; first.Role == chattemplate.System || first.Role == chattemplate.Developer {
		first.Content += "\n\n" + text
		return append([]chattemplate.Message{first}, messages[1:]...)
	}
	return append([]chattemplate.Message{{Role: chattemplate.System, Content: text}}, messages...)
}

// holdToForms compiles the constraints that make the output match the requested forms.
func (t *turn) holdToForms() error {
	form, err := t.form()
	if err != nil {
		return err
	}
	if t.model, err = t.family().Turn(t.job.ctx, t.turnConfig(form)); err != nil {
		if t.job.ctx.Err() != nil {
			return context.Cause(t.job.ctx) // the form is not to blame
		}
		return refused(err)
	}
	if t.req.ToolChoice == generation.ToolChoiceNone && !t.family().About().ForbidsCalls {
		t.conv.Tools = nil // the model does not call tools that it does not see
	}
	if t.check, err = t.r.newCheck(t.req.Form); t.check != nil {
		t.check.decoded = t.job.decodes
	}
	return err
}

// turnConfig returns what the family needs to constrain the turn.
func (t *turn) turnConfig(form grammar.Source) family.TurnConfig {
	cfg := family.TurnConfig{
		Grammars: t.r.grammars(), Form: form, FormAt: t.sight.formAt, Tools: t.req.Tools, Admits: t.admits,
		NoCalls: t.req.ToolChoice == generation.ToolChoiceNone, MustCall: t.req.MustCall(), SingleCall: t.req.SingleCall,
		Args: t.req.TemplateArgs, Markers: t.strategy == reasoning.StrategyMarkers && !t.effortNone(),
		Native: t.strategy == reasoning.StrategyNative, Effort: t.conv.Effort, Loose: t.r.model.Capabilities().Paced,
	}
	if t.strategy == reasoning.StrategyTool && !t.effortNone() {
		tool := reportTool()
		cfg.Report = &tool
	}
	return cfg
}

// refused turns a family's *RefusedError into a *RequestError. It returns other errors unchanged.
func refused(err error) error {
	if e := (*family.RefusedError)(nil); errors.As(err, &e) {
		return &generation.RequestError{Field: e.Field, Err: e.Err, Advice: string(e.Advice)}
	}
	return err
}
