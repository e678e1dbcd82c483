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

// chatML is the template of models that have its tokens and bring no template of their own.
const chatML = `{% for message in messages %}` +
	`{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}` +
	`{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`

// Template is a chat template in the Jinja language, for one vocabulary. It is safe for concurrent use once its family
// has set its switch.
//
// The template sees what Hugging Face transformers shows to it: messages (role, content, name, reasoning_content,
// thinking, tool_calls, tool_call_id), tools and documents (None when there are none), add_generation_prompt,
// bos_token, eos_token, strftime_now, and the caller's variables. What templates disagree on is found out by
// rendering probes, see traits. The effort sets the template's own switch, and reasoning_effort where it asks for
// some.
type Template struct {
	program *jinja.Template
	// reads are the variables that the template reads.
	reads   []string
	scanner *scanner
	vocab   *backend.Vocab
	source  string
	traits  traits
	// off and on are the template's own switch for reasoning; nil when it has none.
	off, on []Variable
}

// NewTemplate compiles a template and finds out what it takes. Without a source it returns ErrNoTemplate, except that a
// vocabulary with the tokens <|im_start|> and <|im_end|> is rendered as ChatML. A template that does not compile is a
// *TemplateError. detect, when not nil, is called while probes are cheap.
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
	}
	j.traits = j.probeTraits()
	if detect != nil {
		detect(j)
	}
	j.program = program
	return j, nil
}

// Vocab is the vocabulary that the template renders for.
func (j *Template) Vocab() *backend.Vocab { return j.vocab }

// Source is the template's text.
func (j *Template) Source() string { return j.source }

// Reads reports whether the template reads a variable.
func (j *Template) Reads(name string) bool { return slices.Contains(j.reads, name) }

// ShowsTools reports whether the template shows tools to the model, and ShowsCalls whether it shows earlier calls.
func (j *Template) ShowsTools() bool { return j.traits.tools }

// ShowsCalls reports whether the template shows the calls of earlier turns.
func (j *Template) ShowsCalls() bool { return j.traits.calls }

// SetSwitch sets the variables that turn reasoning off and on. Nil means that the template has none.
func (j *Template) SetSwitch(off, on []Variable) { j.off, j.on = off, on }

// outputLimit is the longest text that a template may make for prompts of at most maxText bytes. On the way to a
// short prompt it may make longer ones.
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

// Rendering is a conversation as the template has rendered it.
type Rendering struct{ text jinja.Text }

// Text is the whole text.
func (r Rendering) Text() string { return r.text.String() }

// EndsWith reports whether the template itself ends the text with a mark, white space aside.
func (r Rendering) EndsWith(mark string) bool {
	s := strings.TrimRight(r.text.String(), " \t\r\n")
	return strings.HasSuffix(s, mark) && r.text.Trusted(len(s)-len(mark), len(s))
}

// continues reports whether the text ends in the caller's own words.
func (r Rendering) continues() bool {
	s := strings.TrimRight(r.text.String(), " \t\r\n")
	return s != "" && !r.text.Trusted(len(s)-1, len(s))
}

// Render renders a normalized conversation into a builder.
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
		b.Control(bos) // once, whoever writes it
	}
	j.scanner.write(b, text, 0)
	r := Rendering{text}
	b.Continues = !c.NoGenerationPrompt && r.continues()
	return r, nil
}

// Write adds a text of the template's own, in which names of special tokens become these tokens.
func (j *Template) Write(b *Builder, text string) {
	j.scanner.write(b, jinja.NewText(text, jinja.Trusted), 0)
}

// WriteQuestion adds what follows an answer when a user then asks something with a prompt: the end of the answer's
// turn, the question, and the opening of the next turn.
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

// textLength returns how many bytes a conversation's messages have.
func textLength(c *Conversation) (n int) {
	for i := range c.Messages {
		n += len(c.Messages[i].Content) + len(c.Messages[i].Reasoning)
	}
	return n
}

func startsWith(text jinja.Text, prefix string) bool {
	return prefix != "" && strings.HasPrefix(text.String(), prefix) && text.Trusted(0, len(prefix))
}
