package chattemplate

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"runner/backend"
	"runner/chattemplate/jinja"
	"runner/reasoning"
)

// chatML is the template of models that have ChatML's tokens and no template of their own.
const chatML = `{% for message in messages %}` +
	`{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}` +
	`{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`

// Template is a chat template in the Jinja language, for one vocabulary. It is safe for concurrent use after SetSwitch.
//
// A template gets the variables that Hugging Face transformers sets: messages (role, content, name, reasoning_content,
// thinking, tool_calls, tool_call_id), tools and documents (None when there are none), add_generation_prompt,
// bos_token, eos_token, strftime_now, and the caller's variables. Templates expect these in different types, so
// NewTemplate finds the right types by rendering probes. The request's effort sets the template's switch for reasoning.
// Every effort but none and the default also sets reasoning_effort.
type Template struct {
	program *jinja.Template
	reads   []string // the variables that the template reads
	scanner *scanner
	vocab   *backend.Vocab
	source  string
	traits  traits
	// off and on are the template's switch for reasoning; nil if it has none.
	off, on []Variable
	// probing reports that NewTemplate has not returned yet.
	probing bool
}

// NewTemplate compiles a template and finds out which input it accepts. Without a source, a vocabulary with the tokens
// <|im_start|> and <|im_end|> gets the template of ChatML, and any other is ErrNoTemplate. A template that does not
// compile is a *TemplateError.
//
// detect, if not nil, is called before NewTemplate returns. Probes belong there: later they run without the low limits
// that keep a slow template from delaying the start.
func NewTemplate(c Config, detect func(*Template)) (*Template, error) {
	source := c.Source
	if source == "" {
		if _, ok := c.Vocab.Special("<|im_start|>"); !ok {
			return nil, ErrNoTemplate
		}
		if _, ok := c.Vocab.Special("<|im_end|>"); !ok {
			return nil, ErrNoTemplate
		}
		source = chatML
	}
	probing, err := parse(source, probeLimits)
	if err != nil {
		return nil, err
	}
	program, err := parse(source, jinja.Limits{Output: outputLimit(c.MaxText)})
	if err != nil {
		return nil, err
	}
	j := &Template{
		program: probing, reads: program.Variables(), scanner: newScanner(c.Vocab, source), vocab: c.Vocab, source: source,
		probing: true,
	}
	j.traits = j.probeTraits()
	if detect != nil {
		detect(j)
	}
	j.program, j.probing = program, false
	return j, nil
}

// Vocab returns the vocabulary that the template renders for.
func (j *Template) Vocab() *backend.Vocab { return j.vocab }

// Source returns the template's text.
func (j *Template) Source() string { return j.source }

// Reads reports whether the template reads a variable.
func (j *Template) Reads(name string) bool { return slices.Contains(j.reads, name) }

// ShowsTools reports whether the template shows tools to the model.
func (j *Template) ShowsTools() bool { return j.traits.tools }

// ShowsCalls reports whether the template shows the calls of earlier turns.
func (j *Template) ShowsCalls() bool { return j.traits.calls }

// SetSwitch sets the variables that turn reasoning off and on. Nil means that the template has none. It must not be
// called after the first Render.
func (j *Template) SetSwitch(off, on []Variable) { j.off, j.on = off, on }

// Guard says that texts hold marks of the format. It must not be called after the first Render.
func (j *Template) Guard(texts ...string) {
	for _, text := range texts {
		j.scanner.guard(text)
	}
}

// outputLimit returns the longest text that a template may make for prompts of at most maxText bytes; 0 is the engine's
// own limit. A template may build longer texts on the way to a short prompt.
func outputLimit(maxText int) int {
	const least = 4 << 20
	if maxText <= 0 || maxText > 64<<20 {
		return 0
	}
	return max(least, maxText)
}

// parse compiles a template.
func parse(source string, limits jinja.Limits) (*jinja.Template, error) {
	program, err := jinja.Parse(source, jinja.Options{Limits: limits})
	if err != nil {
		return nil, templateError(err, false)
	}
	return program, nil
}

// execute runs the template. Its time and memory are bounded by the engine's limits.
func (j *Template) execute(vars map[string]jinja.Value, now time.Time) (jinja.Text, error) {
	text, err := j.program.Render(context.Background(), vars, jinja.RenderOptions{Now: now})
	if err != nil {
		return jinja.Text{}, templateError(err, true)
	}
	return text, nil
}

// Rendering is the text that a template made of a conversation.
type Rendering struct{ text jinja.Text }

// EndsWith reports whether the text ends with a mark that the template itself wrote. White space after it is ignored.
func (r Rendering) EndsWith(mark string) bool {
	s := strings.TrimRight(r.text.String(), " \t\r\n")
	return strings.HasSuffix(s, mark) && r.text.Trusted(len(s)-len(mark), len(s))
}

// continues reports whether the text ends in the caller's own words.
func (r Rendering) continues() bool {
	s := strings.TrimRight(r.text.String(), " \t\r\n")
	return s != "" && !r.text.Trusted(len(s)-1, len(s))
}

// Render renders a normalized conversation into a builder. Its errors are a *ConversationError, a *TemplateError or
// ErrTooLong.
func (j *Template) Render(b *Builder, c *Conversation) (Rendering, error) {
	if len(c.Tools) > 0 && !j.traits.tools {
		return Rendering{}, &ConversationError{
			Message: -1, Tool: 0, Err: errNoTools,
			Advice: "leave the tools out, or give a template that renders them with --chat-template",
		}
	}
	vars, err := j.variables(c)
	if err != nil {
		return Rendering{}, err
	}
	text, err := j.execute(vars, c.Now)
	if limit := (*jinja.Error)(nil); errors.As(err, &limit) && limit.Kind == jinja.KindLimit && b.most > 0 &&
		textLength(c) > b.most {
		return Rendering{}, ErrTooLong
	}
	if err != nil {
		return Rendering{}, err
	}
	if bos := j.vocab.BOS(); bos != backend.NoToken && j.vocab.AddBOS() && !startsWith(text, j.vocab.Piece(bos)) {
		b.Control(bos) // unless the template has written it
	}
	j.scanner.write(b, text, 0)
	r := Rendering{text}
	b.Continues = !c.NoGenerationPrompt && r.continues()
	return r, nil
}

// Write adds text as if the template had written it: names of special tokens in it become these tokens.
func (j *Template) Write(b *Builder, text string) {
	j.scanner.write(b, jinja.NewText(text, jinja.Trusted), 0)
}

// WriteQuestion adds what follows an answer when the user then asks prompt: the end of the answer's turn, the question,
// and the opening of the next turn.
func (j *Template) WriteQuestion(b *Builder, prompt string) (Rendering, error) {
	c := &Conversation{
		Messages: []Message{
			{Role: User, Content: ProbeUser}, {Role: Assistant, Content: ProbeAnswer}, {Role: User, Content: prompt},
		},
		Effort: reasoning.EffortNone,
		Now:    time.Unix(0, 0).UTC(),
	}
	vars, err := j.variables(c)
	if err != nil {
		return Rendering{}, err
	}
	text, err := j.execute(vars, c.Now)
	if err != nil {
		return Rendering{}, err
	}
	i := strings.LastIndex(text.String(), ProbeAnswer)
	if i < 0 {
		return Rendering{}, &TemplateError{Rendering: true, Err: errNoHistory}
	}
	j.scanner.write(b, text, i+len(ProbeAnswer))
	return Rendering{text}, nil
}

// textLength returns the number of bytes in a conversation's messages.
func textLength(c *Conversation) (n int) {
	for i := range c.Messages {
		n += len(c.Messages[i].Content) + len(c.Messages[i].Reasoning)
	}
	return n
}

func startsWith(text jinja.Text, prefix string) bool {
	return prefix != "" && strings.HasPrefix(text.String(), prefix) && text.Trusted(0, len(prefix))
}
