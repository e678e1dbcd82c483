package tags

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"runner/backend"
	"runner/chattemplate"
	"runner/chattemplate/family"
	"runner/chattemplate/markup"
	"runner/chattemplate/parameters"
	"runner/chattemplate/reader"
	"runner/grammar"
	"runner/reasoning"
)

// Family is the family of text with tags, for one model.
type Family struct {
	cfg      chattemplate.Config
	template *chattemplate.Template // nil for raw prompts
	format   markup.Format
	// marks are the tags of format with the white space that the template puts around them.
	marks marks

	// off are the variables that switch reasoning off. byDefault says that it is on without them.
	off       []chattemplate.Variable
	byDefault bool

	openAnswer    [chattemplate.StartAnswer + 1][]backend.Token
	openReasoning []backend.Token
}

// Open returns the family of a model with a chat template. Every such model can be read as text. Its errors are those
// of chattemplate.NewTemplate.
func Open(c chattemplate.Config) (family.Family, error) {
	f := &Family{cfg: c}
	var lead string
	var err error
	f.template, err = chattemplate.NewTemplate(c, func(t *chattemplate.Template) {
		d := detect(t)
		f.format, f.marks, f.off, f.byDefault = d.format, d.marks, d.switchOff, d.base == d.on
		f.format.Calls, lead = detectCalls(t), d.lead()
		t.Guard(f.format.Texts()...)
	})
	if err != nil {
		return nil, err
	}
	for _, opening := range []struct {
		to   *[]backend.Token
		text string
	}{
		{&f.openAnswer[chattemplate.StartTurn], f.marks.open + f.marks.close},
		{&f.openAnswer[chattemplate.StartReasoning], f.marks.close},
		{&f.openReasoning, lead + f.marks.open},
	} {
		b := c.NewBuilder()
		f.write(b, opening.text)
		p, err := b.Prompt(chattemplate.StartAnswer)
		if err != nil {
			return nil, err
		}
		*opening.to = p.Tokens
	}
	return f, nil
}

// write adds text with tags to a prompt. A tag that is a token of the vocabulary becomes it, even if the template does
// not have the tag.
func (f *Family) write(b *chattemplate.Builder, text string) {
	for text != "" {
		at, tag := len(text), ""
		for _, t := range []string{f.format.Open, f.format.Close} {
			if i := strings.Index(text, t); t != "" && i >= 0 && i < at {
				at, tag = i, t
			}
		}
		f.template.Write(b, text[:at])
		if token, ok := f.cfg.Vocab.Special(tag); ok {
			b.Control(token)
		} else {
			f.template.Write(b, tag)
		}
		text = text[at+len(tag):]
	}
}

// Raw returns the family for raw prompts, whose output has no marks. It cannot render.
func Raw(c chattemplate.Config) *Family { return &Family{cfg: c} }

// Format returns how the model marks the parts of its turn.
func (f *Family) Format() markup.Format { return f.format }

// About implements family.Family.
func (f *Family) About() family.About {
	about := family.About{
		Reasoning:      "not marked by the model; strategies markers and posthoc",
		MarksReasoning: f.format.Open != "", Tools: f.format.Tools, Calls: f.format.Tools && f.format.Calls != nil,
		LaterPrompts: f.template != nil && f.template.TakesLaterPrompts(),
	}
	if about.MarksReasoning {
		about.Reasoning = fmt.Sprintf("between %s and %s", f.format.Open, f.format.Close)
	}
	for _, mark := range []string{f.format.Open, f.format.Close, f.format.AnswerOpen, f.format.AnswerClose} {
		if mark != "" {
			about.Marks = append(about.Marks, mark)
		}
	}
	return about
}

// Render implements family.Family. It uses the model's template.
func (f *Family) Render(conv chattemplate.Conversation) (chattemplate.Prompt, error) {
	c, err := chattemplate.Normalize(conv)
	if err != nil {
		return chattemplate.Prompt{}, err
	}
	b := f.cfg.NewBuilder()
	r, err := f.template.Render(b, c)
	if err != nil {
		return chattemplate.Prompt{}, err
	}
	if c.NoGenerationPrompt {
		return b.Prompt(chattemplate.StartTurn)
	}
	start := f.startOf(r)
	skip := c.Effort == reasoning.EffortNone && f.format.Open != "" && start != chattemplate.StartAnswer
	// A template with a switch has already opened the turn so that reasoning is skipped.
	if skip && !(start == chattemplate.StartTurn && f.format.CanSkip) {
		f.writeAnswer(b, start)
		start, b.Continues = chattemplate.StartAnswer, false
	}
	return b.Prompt(start)
}

// startOf returns the place where the model begins to write, by the mark at the end of the prompt.
func (f *Family) startOf(r chattemplate.Rendering) chattemplate.Start {
	switch {
	case f.format.Open == "":
	case r.EndsWith(f.format.Close):
		return chattemplate.StartAnswer
	case r.EndsWith(f.format.Open):
		return chattemplate.StartReasoning
	}
	return chattemplate.StartTurn
}

// thinks reports whether the template makes the model reason in a turn: it has a switch for reasoning, which is on.
func (f *Family) thinks(cfg *family.TurnConfig) bool {
	if !f.format.CanSkip || cfg.Effort == reasoning.EffortNone {
		return false
	}
	on := f.byDefault || cfg.Effort != reasoning.EffortDefault
	for _, v := range f.off {
		if arg, ok := cfg.Args[v.Name]; ok {
			on = !reflect.DeepEqual(arg, v.Is)
		}
	}
	return on
}

// writeAnswer adds the marks that lead to the text of the answer.
func (f *Family) writeAnswer(b *chattemplate.Builder, from chattemplate.Start) {
	switch from {
	case chattemplate.StartTurn:
		f.write(b, f.marks.open+f.marks.close)
	case chattemplate.StartReasoning:
		f.write(b, f.marks.close)
	}
}

// SummaryTurn implements family.Family. It asks as the user.
func (f *Family) SummaryTurn(prompt string) ([]backend.Token, error) {
	b := f.cfg.NewBuilder()
	r, err := f.template.WriteQuestion(b, prompt)
	if err != nil {
		return nil, fmt.Errorf("summary turn: %w", err)
	}
	if start := f.startOf(r); f.format.Open != "" && (start == chattemplate.StartReasoning ||
		start == chattemplate.StartTurn && !f.format.CanSkip) {
		f.writeAnswer(b, start)
	}
	p, err := b.Prompt(chattemplate.StartAnswer)
	return p.Tokens, err
}

// OpenAnswer implements family.Family.
func (f *Family) OpenAnswer(from chattemplate.Start) []backend.Token {
	if from > chattemplate.StartAnswer {
		return nil
	}
	return f.openAnswer[from]
}

// Close implements family.Family. A turn is one text, so there is nothing to close.
func (f *Family) Close(tokens []backend.Token) []backend.Token { return tokens }

// Effort implements family.Family. It returns the effort in the request, because the template does not say which effort
// is the model's default.
func (f *Family) Effort(asked reasoning.Effort, _ map[string]any) reasoning.Effort { return asked }

// Reader implements family.Family.
func (f *Family) Reader(cfg reader.Config) (reader.Reader, error) { return f.newReader(cfg) }

// newReader returns a reader of text. With markers it always starts at the beginning of a turn: a prompt that skips the
// model's own reasoning does not skip reasoning between markers.
func (f *Family) newReader(cfg reader.Config) (*Reader, error) {
	if cfg.Markers {
		cfg.Start = chattemplate.StartTurn
	}
	return NewReader(f.format, cfg)
}

// CheckTool implements family.Family. It compiles the form of a call.
func (f *Family) CheckTool(ctx context.Context, grammars *grammar.Cache, tool chattemplate.Tool) error {
	form := grammar.JSONSchema(parameters.AsObject(tool.Parameters))
	if style := f.format.Calls; style != nil {
		var err error
		tool.Strict = true
		if form, err = newCallForm(f.cfg.Vocab, style, false).call(tool); err != nil {
			return err
		}
	}
	_, err := grammars.Compile(ctx, form)
	return err
}
