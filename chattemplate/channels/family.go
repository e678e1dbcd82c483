package channels

import (
	"context"
	"slices"
	"strings"

	"runner/backend"
	"runner/chattemplate"
	"runner/chattemplate/channels/harmony"
	"runner/chattemplate/family"
	"runner/chattemplate/parameters"
	"runner/chattemplate/reader"
	"runner/grammar"
	"runner/reasoning"
)

// The headers of reasoning and of an answer, which a template may write in the model's place.
const (
	opensAnalysis = "<|channel|>" + harmony.Analysis + "<|message|>"
	opensFinal    = "<|channel|>" + harmony.Final + "<|message|>"
	opensTurn     = "<|start|>assistant"
)

// Family is harmony for one model. Conversations are rendered natively, or through a template that the user forces.
type Family struct {
	cfg    chattemplate.Config
	native native
	// template renders in the place of native; nil where nothing forces it.
	template *chattemplate.Template

	// end closes a message, and turn opens the next up to where the model writes its header. final is the rest of the
	// header of an answer.
	end, turn, final []backend.Token
}

// Open returns the family of a model with harmony's special tokens, or nil where the model has others.
func Open(c chattemplate.Config) (family.Family, error) {
	tokens, ok := harmony.Lookup(c.Vocab)
	if !ok {
		return nil, nil
	}
	f := &Family{cfg: c, native: native{tokens}}
	if c.ForceJinja && c.Source != "" {
		opens := false
		t, err := chattemplate.NewTemplate(c, func(t *chattemplate.Template) { opens = opensTurns(t) })
		if err != nil || !opens {
			return nil, err
		}
		t.SetSwitch([]chattemplate.Variable{{Name: "reasoning_effort", Is: string(reasoning.EffortLow)}}, nil)
		f.template = t
	}
	for _, s := range []struct {
		to     *[]backend.Token
		render func(*chattemplate.Builder)
	}{
		{&f.end, func(b *chattemplate.Builder) { b.Control(tokens.End) }},
		{&f.turn, func(b *chattemplate.Builder) { tokens.OpenTurn(b) }},
		{&f.final, func(b *chattemplate.Builder) { tokens.OpenFinal(b) }},
	} {
		b := c.NewBuilder()
		s.render(b)
		p, err := b.Prompt(chattemplate.StartTurn)
		if err != nil {
			return nil, err
		}
		*s.to = p.Tokens
	}
	return f, nil
}

// opensTurns reports whether a template opens the assistant's turn as harmony does.
func opensTurns(t *chattemplate.Template) bool {
	base, _ := t.Probe(&chattemplate.Conversation{Messages: []chattemplate.Message{{Role: chattemplate.User,
		Content: chattemplate.ProbeUser}}})
	turn := base
	for _, header := range []string{opensAnalysis, opensFinal} {
		if before, ok := strings.CutSuffix(strings.TrimRight(base, " \t\r\n"), header); ok {
			turn = before
		}
	}
	return strings.HasSuffix(turn, opensTurn)
}

// About describes the family.
func (f *Family) About() family.About {
	return family.About{
		Reasoning: "harmony channels", MarksReasoning: true, Tools: f.template == nil || f.template.ShowsTools(), Calls: true,
		WholeArguments: true, ForbidsCalls: true, LooseReasoning: true,
	}
}

// Render renders a conversation.
func (f *Family) Render(conv chattemplate.Conversation) (chattemplate.Prompt, error) {
	c, err := chattemplate.Normalize(conv)
	if err != nil {
		return chattemplate.Prompt{}, err
	}
	b := f.cfg.NewBuilder()
	var start chattemplate.Start
	if f.template == nil {
		start, err = f.native.render(b, c)
	} else {
		start, err = f.renderTemplate(b, c)
	}
	if err != nil {
		return chattemplate.Prompt{}, err
	}
	return b.Prompt(start)
}

func (f *Family) renderTemplate(b *chattemplate.Builder, c *chattemplate.Conversation) (chattemplate.Start, error) {
	r, err := f.template.Render(b, c)
	if err != nil || c.NoGenerationPrompt {
		return chattemplate.StartTurn, err
	}
	start := chattemplate.StartTurn
	switch {
	case r.EndsWith(opensFinal):
		start = chattemplate.StartAnswer
	case r.EndsWith(opensAnalysis):
		start = chattemplate.StartReasoning
	}
	// With tools the model must be able to call.
	if c.Effort == reasoning.EffortNone && start != chattemplate.StartAnswer && !offers(c) {
		f.native.openAnswer(b, start)
		start, b.Continues = chattemplate.StartAnswer, false
	}
	return start, nil
}

// SummaryTurn asks with a developer message.
func (f *Family) SummaryTurn(prompt string) ([]backend.Token, error) {
	b := f.cfg.NewBuilder()
	f.native.summaryTurn(b, prompt)
	p, err := b.Prompt(chattemplate.StartAnswer)
	return p.Tokens, err
}

// OpenAnswer leads to the text of the final message.
func (f *Family) OpenAnswer(from chattemplate.Start) []backend.Token {
	switch from {
	case chattemplate.StartTurn:
		return f.final
	case chattemplate.StartReasoning:
		return slices.Concat(f.end, f.turn, f.final)
	}
	return nil
}

// Close ends the last message. A token that begins a header after it is left out.
func (f *Family) Close(tokens []backend.Token) []backend.Token {
	if n := len(tokens) - 1; n >= 0 && slices.Contains(f.headerTokens(), tokens[n]) {
		tokens = tokens[:n]
	}
	if n := len(tokens); n == 0 || tokens[n-1] != f.end[0] {
		tokens = append(tokens[:n:n], f.end...)
	}
	return tokens
}

// headerTokens are the tokens that stand in headers alone.
func (f *Family) headerTokens() []backend.Token {
	t := &f.native.tokens
	return []backend.Token{t.Start, t.Channel, t.Message, t.Constrain}
}

// Effort returns low for minimal, which harmony does not know, and medium for the default. The caller's variable
// reasoning_effort turns reasoning off, too.
func (f *Family) Effort(asked reasoning.Effort, args map[string]any) reasoning.Effort {
	if args["reasoning_effort"] == string(reasoning.EffortNone) {
		return reasoning.EffortNone
	}
	switch asked {
	case reasoning.EffortDefault:
		return reasoning.EffortMedium
	case reasoning.EffortMinimal:
		return reasoning.EffortLow
	}
	return asked
}

// Reader returns a reader of messages.
func (f *Family) Reader(cfg reader.Config) (reader.Reader, error) { return NewReader(cfg) }

// CheckTool reports why calls cannot be held to the parameters of a function, or nil.
func (f *Family) CheckTool(ctx context.Context, grammars *grammar.Cache, tool chattemplate.Tool) error {
	_, err := grammars.Compile(ctx, grammar.JSONSchema(parameters.AsObject(tool.Parameters)))
	return err
}
