package channels

import (
	"context"
	"slices"
	"strings"
	"sync"

	"runner/backend"
	"runner/chattemplate"
	"runner/chattemplate/channels/harmony"
	"runner/chattemplate/family"
	"runner/chattemplate/parameters"
	"runner/chattemplate/reader"
	"runner/grammar"
	"runner/reasoning"
)

// The headers of reasoning and of an answer, and the opening of a turn. A template may end a prompt with them.
const (
	opensAnalysis = harmony.ChannelName + harmony.Analysis + harmony.MessageName
	opensFinal    = harmony.ChannelName + harmony.Final + harmony.MessageName
	opensTurn     = harmony.StartName + string(harmony.RoleAssistant)
)

// Family is harmony for one model. It renders in Go, or through a template if the user forces one.
type Family struct {
	cfg    chattemplate.Config
	native native
	// template renders instead of native; nil unless the user forces one.
	template *chattemplate.Template

	// end closes a message. turn opens the next one, up to the place where the model writes its header. final is the
	// rest of the header of an answer.
	end, turn, final []backend.Token

	names     backend.Mask // see nameTokens
	namesOnce sync.Once
}

// Open returns the family of a model with harmony's special tokens. It returns nil for other models, and for a forced
// template that does not open turns as harmony does.
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

// opensTurns reports whether a template ends prompts with the opening of a harmony turn.
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

// About implements family.Family.
func (f *Family) About() family.About {
	return family.About{
		Reasoning: "harmony channels", MarksReasoning: true, Tools: f.template == nil || f.template.ShowsTools(), Calls: true,
		WholeArguments: true, ForbidsCalls: true, LooseReasoning: true,
		LaterPrompts: f.template == nil || f.template.TakesLaterPrompts(),
	}
}

// Render implements family.Family.
func (f *Family) Render(conv chattemplate.Conversation) (chattemplate.Prompt, error) {
	c, err := chattemplate.Normalize(conv)
	if err != nil {
		return chattemplate.Prompt{}, err
	}
	b := f.newBuilder()
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
	// With tools, the model must still be able to make a call.
	if c.Effort == reasoning.EffortNone && start != chattemplate.StartAnswer && !offers(c) {
		f.native.openAnswer(b, start)
		start, b.Continues = chattemplate.StartAnswer, false
	}
	return start, nil
}

// SummaryTurn implements family.Family. It asks with a developer message.
func (f *Family) SummaryTurn(prompt string) ([]backend.Token, error) {
	b := f.newBuilder()
	f.native.summaryTurn(b, prompt)
	p, err := b.Prompt(chattemplate.StartAnswer)
	return p.Tokens, err
}

// OpenAnswer implements family.Family. The answer is a message on the final channel.
func (f *Family) OpenAnswer(from chattemplate.Start) []backend.Token {
	switch from {
	case chattemplate.StartTurn:
		return f.final
	case chattemplate.StartReasoning:
		return slices.Concat(f.end, f.turn, f.final)
	}
	return nil
}

// Close implements family.Family. It removes a last token that begins a header.
func (f *Family) Close(tokens []backend.Token) []backend.Token {
	if n := len(tokens) - 1; n >= 0 && slices.Contains(f.headerTokens(), tokens[n]) {
		tokens = tokens[:n]
	}
	if n := len(tokens); n == 0 || tokens[n-1] != f.end[0] {
		tokens = append(tokens[:n:n], f.end...)
	}
	return tokens
}

// newBuilder returns a builder for text of others.
func (f *Family) newBuilder() *chattemplate.Builder {
	t := &f.native.tokens
	return f.cfg.NewBuilder(append(f.headerTokens(), t.End, t.Return, t.Call)...)
}

// headerTokens returns the tokens that may only come in headers.
func (f *Family) headerTokens() []backend.Token {
	t := &f.native.tokens
	return []backend.Token{t.Start, t.Channel, t.Message, t.Constrain}
}

// Effort implements family.Family. Harmony has no effort minimal, so that is low. The default is medium. The caller can
// also turn reasoning off with the variable reasoning_effort.
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

// Reader implements family.Family.
func (f *Family) Reader(cfg reader.Config) (reader.Reader, error) { return NewReader(cfg) }

// CheckTool implements family.Family. It compiles the tool's parameters.
func (f *Family) CheckTool(ctx context.Context, grammars *grammar.Cache, tool chattemplate.Tool) error {
	_, err := grammars.Compile(ctx, grammar.JSONSchema(parameters.AsObject(tool.Parameters)))
	return err
}
