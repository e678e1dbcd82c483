package chattemplate

import (
	"context"
	"errors"
	"strings"
	"time"

	"runner/backend"
	"runner/chattemplate/harmony"
	"runner/chattemplate/jinja"
	"runner/reasoning"
)

// chatML is the template of models that have its tokens and bring no template of their own.
const chatML = `{% for message in messages %}` +
	`{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}` +
	`{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`

// jinjaTemplate renders through a template in the Jinja language.
//
// The template sees what Hugging Face transformers shows to it: messages (role, content, name, reasoning_content,
// thinking, tool_calls, tool_call_id), tools and documents (None when there are none), add_generation_prompt,
// bos_token, eos_token, strftime_now, and the caller's variables. What templates disagree on is found out by
// rendering probes, see traits. The effort sets the template's own switch, and reasoning_effort where it asks for
// some.
type jinjaTemplate struct {
	program *jinja.Template
	// reads are the variables that the template reads.
	reads   []string
	scanner *scanner
	vocab   *backend.Vocab
	source  string
	traits  traits
	tags    tags
	format  Format
	// off and on are the template's own switch for reasoning; nil when it has none.
	off, on []variable
	// native is set when the template renders harmony: the places around a turn are then harmony's own.
	native *native
}

func newJinja(c Config) (*jinjaTemplate, error) {
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
	j := &jinjaTemplate{
		program: probing, reads: program.Variables(), scanner: newScanner(c.Vocab, source), vocab: c.Vocab, source: source,
	}
	j.traits = j.probeTraits()
	j.format, j.tags = j.detect()
	if j.format.Family != Harmony {
		j.format.Calls = j.detectCalls()
	}
	j.program = program
	if j.format.Family == Harmony {
		tokens, _ := harmony.Lookup(c.Vocab)
		j.native = &native{tokens}
	}
	return j, nil
}

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
func (j *jinjaTemplate) execute(vars map[string]jinja.Value, now time.Time) (jinja.Text, error) {
	text, err := j.program.Render(context.Background(), vars, jinja.RenderOptions{Now: now})
	if err != nil {
		return jinja.Text{}, templateError(err, true)
	}
	return text, nil
}

// render renders a normalized conversation.
func (j *jinjaTemplate) render(b *builder, c *Conversation) (Start, error) {
	if len(c.Tools) > 0 && !j.traits.tools {
		return 0, &ConversationError{
			Message: -1, Tool: 0, Err: errNoTools,
			advice: "leave the tools out, or give a template that renders them with --chat-template",
		}
	}
	vars, err := j.variables(c)
	if err != nil {
		return 0, err
	}
	text, err := j.execute(vars, c.Now)
	if limit := (*jinja.Error)(nil); errors.As(err, &limit) && limit.Kind == jinja.KindLimit && b.most > 0 &&
		textLength(c) > b.most {
		return 0, ErrTooLong
	}
	if err != nil {
		return 0, err
	}
	if bos := j.vocab.BOS(); bos != backend.NoToken && j.vocab.AddBOS() && !startsWith(text, j.vocab.Piece(bos)) {
		b.Control(bos) // once, whoever writes it
	}
	j.scanner.write(b, text, 0)
	if c.NoGenerationPrompt {
		return StartTurn, nil
	}
	start := j.startOf(text)
	skip := c.Effort == reasoning.EffortNone && j.format.Family != Plain && start != StartAnswer
	s := strings.TrimRight(text.String(), " \t\r\n")
	b.continues = s != "" && !text.Trusted(len(s)-1, len(s))
	switch {
	case skip && j.native != nil && c.offers(), skip && j.native == nil && start == StartTurn && j.format.CanSkip:
		// Harmony with tools must be able to call, and a template that has a switch has said what it takes to skip.
	case skip:
		j.openAnswer(b, start)
		start, b.continues = StartAnswer, false
	}
	return start, nil
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

// startOf finds out where the model begins to write after a rendered prompt, from the mark that stands at its end.
func (j *jinjaTemplate) startOf(text jinja.Text) Start {
	var reasoning, answer string
	switch j.format.Family {
	case ThinkTags:
		reasoning, answer = j.format.Open, j.format.Close
	case Harmony:
		reasoning, answer = opensAnalysis, opensFinal
	default:
		return StartTurn
	}
	s := strings.TrimRight(text.String(), " \t\r\n")
	ends := func(mark string) bool {
		return strings.HasSuffix(s, mark) && text.Trusted(len(s)-len(mark), len(s))
	}
	switch {
	case ends(answer):
		return StartAnswer
	case ends(reasoning):
		return StartReasoning
	}
	return StartTurn
}

func (j *jinjaTemplate) endReasoning(b *builder) {
	if j.native != nil {
		j.native.endReasoning(b)
		return
	}
	j.scanner.write(b, jinja.NewText(j.tags.close, jinja.Trusted), 0)
}

func (j *jinjaTemplate) openAnswer(b *builder, from Start) {
	if j.native != nil {
		j.native.openAnswer(b, from)
		return
	}
	switch from {
	case StartTurn:
		j.scanner.write(b, jinja.NewText(j.tags.open+j.tags.close, jinja.Trusted), 0)
	case StartReasoning:
		j.scanner.write(b, jinja.NewText(j.tags.close, jinja.Trusted), 0)
	}
}

// summaryTurn renders a conversation in which a user asks with the prompt after an answer, and takes what follows the
// answer.
func (j *jinjaTemplate) summaryTurn(b *builder, prompt string) error {
	if j.native != nil {
		return j.native.summaryTurn(b, prompt)
	}
	c := &Conversation{
		Messages: []Message{
			{Role: User, Content: probeUser}, {Role: Assistant, Content: probeAnswer}, {Role: User, Content: prompt},
		},
		Effort: reasoning.EffortNone,
		Now:    time.Unix(0, 0).UTC(),
	}
	vars, err := j.variables(c)
	if err != nil {
		return err
	}
	text, err := j.execute(vars, c.Now)
	if err != nil {
		return err
	}
	i := strings.LastIndex(text.String(), probeAnswer)
	if i < 0 {
		return &TemplateError{Rendering: true, Err: errNoHistory}
	}
	j.scanner.write(b, text, i+len(probeAnswer))
	if start := j.startOf(text); j.format.Family == ThinkTags && (start == StartReasoning || start == StartTurn &&
		!j.format.CanSkip) {
		j.openAnswer(b, start)
	}
	return nil
}
