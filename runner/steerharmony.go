package runner

import (
	"context"
	"slices"
	"strings"

	"runner/backend"
	"runner/chattemplate"
	"runner/generation"
	"runner/grammar"
	"runner/reasoning"
)

// initHarmony notes harmony's control tokens and holds the headers to what the request allows. That is done for
// every request: gpt-oss now and then writes a header that is none, or calls what nobody offers, most of all where
// it is offered nothing.
func (s *steering) initHarmony(ctx context.Context, t *turn) error {
	r, req := t.r, &t.req
	for _, name := range []string{"<|start|>", "<|channel|>", "<|message|>", "<|constrain|>"} {
		if t, ok := s.vocab.Special(name); ok {
			s.outside = append(s.outside, t)
		}
	}
	s.builtin = slices.Clone(chattemplate.BuiltinTools(req.TemplateArgs))
	if err := s.holdArguments(ctx, r, req); err != nil {
		return err
	}
	end, _ := s.vocab.Special("<|end|>")
	if t, ok := s.vocab.Special("<|return|>"); ok {
		s.answerEnds = append(s.answerEnds, t)
	}
	s.answerEnds = append(s.answerEnds, end)
	if t, ok := s.vocab.Special("<|call|>"); ok {
		s.callEnds = append(s.callEnds, t)
	} else {
		s.callEnds = append(s.callEnds, end)
	}
	if s.report {
		w := newHeaderWriter(r)
		w.call(reasoning.ReportReasoningName, false)
		return s.hold(w)
	}
	return s.holdHeaders(t, true)
}

// endReport lets the model go on after it has reported its reasoning.
func (s *steering) endReport(t *turn) error {
	if !s.report {
		return nil
	}
	s.report = false
	if s.format.Family != chattemplate.Harmony {
		s.at, s.text, s.later = placeNone, s.later, nil
		return nil
	}
	return s.holdHeaders(t, false)
}

// holdHeaders lets the model open only the messages that the request allows: with or without further reasoning, and
// no call of a function that is not offered.
func (s *steering) holdHeaders(t *turn, mayReason bool) error {
	req, w := &t.req, newHeaderWriter(t.r)
	tools := req.Tools
	builtin := s.builtin
	if req.ToolChoice == generation.ToolChoiceNone {
		tools, builtin = nil, nil
	}
	calls := len(tools)+len(builtin) > 0
	if mayReason {
		w.words(w.analysis, calls)
	}
	// Where a call is demanded no words go before it: they have no end of their own that the limits would leave
	// room after.
	if !req.MustCall() {
		w.answer(calls)
		if calls {
			w.words(w.commentary, true)
		}
		for _, tool := range builtin {
			w.builtin(tool, mayReason)
		}
	}
	for _, tool := range tools {
		if t.admits(tool.Name) {
			w.call(tool.Name, mayReason)
		}
	}
	return s.hold(w)
}

func (s *steering) hold(w *headerWriter) error {
	if w.err != nil {
		return w.err
	}
	var err error
	s.headers, err = grammar.NewChoice(w.list...)
	s.at = placeNone
	return err
}

// headerWriter collects the headers that a model may write, from after <|start|>assistant up to <|message|>. Every
// form that gpt-oss is known to write is among them, but no other: the recipient before or after the channel, in
// its namespace or not, on either channel, and a content type or none. Their parts are texts that gpt-oss's
// tokenizer never joins, so each is tokenized once.
type headerWriter struct {
	tokenize func([]backend.Token, string) ([]backend.Token, error)
	vocab    *backend.Vocab
	// analysis, commentary and final open these channels.
	analysis, commentary, final []backend.Token
	// ends are what may follow: <|message|> alone, then behind a content type after <|constrain|>, then behind a bare one.
	ends        [][]backend.Token
	constrained int // of ends, those without a bare content type
	list        [][]backend.Token
	err         error
}

func newHeaderWriter(r *Runner) *headerWriter {
	w := &headerWriter{tokenize: r.model.Tokenize, vocab: r.model.Vocab()}
	w.analysis = w.tokens("<|channel|>", "analysis")
	w.commentary = w.tokens("<|channel|>", "commentary")
	w.final = w.tokens("<|channel|>", "final")
	w.ends = append(w.ends, w.tokens("<|message|>"))
	if _, ok := w.vocab.Special("<|constrain|>"); ok {
		w.ends = append(w.ends, w.tokens(" ", "<|constrain|>", "json", "<|message|>"),
			w.tokens("<|constrain|>", "json", "<|message|>"))
	}
	w.constrained = len(w.ends)
	w.ends = append(w.ends, w.tokens(" json", "<|message|>"), w.tokens(" code", "<|message|>"))
	return w
}

// tokens returns the tokens of parts, which are texts and names of control tokens.
func (w *headerWriter) tokens(parts ...string) []backend.Token {
	var out []backend.Token
	for _, part := range parts {
		if t, ok := w.vocab.Special(part); ok {
			out = append(out, t)
			continue
		}
		var err error
		if out, err = w.tokenize(out, part); err != nil {
			w.err = err
		}
	}
	return out
}

// add adds the headers that begin with parts, one for each of ends.
func (w *headerWriter) add(ends [][]backend.Token, parts ...[]backend.Token) {
	start := slices.Concat(parts...)
	for _, end := range ends {
		w.list = append(w.list, slices.Concat(start, end))
	}
}

// persons are recipients that make no call of a message. gpt-oss writes them now and then. They must be admitted
// before the channel wherever calls are, or what is addressed to one would be led into a call, or onto another
// channel.
var persons = []string{"assistant", "user", "all"}

// answer adds the headers of an answer.
func (w *headerWriter) answer(addressed bool) {
	ends := w.ends[:w.constrained]
	w.add(ends, w.final)
	if addressed {
		for _, person := range persons {
			w.add(ends, w.tokens(" to="+person), w.final)
		}
	}
}

// words adds the headers of words on a channel that call nothing.
func (w *headerWriter) words(channel []backend.Token, addressed bool) {
	w.add(w.ends[:1], channel)
	if !addressed {
		return
	}
	for _, person := range persons {
		to := w.tokens(" to=" + person)
		w.add(w.ends[:1], channel, to)
		w.add(w.ends[:1], to, channel)
	}
}

// call adds the headers of a call of a function, by its name alone too where that means no other. Of a name that is
// none it makes nothing: rendering refuses it.
func (w *headerWriter) call(name string, mayReason bool) {
	if !chattemplate.ValidName(name) {
		return
	}
	w.recipient("functions."+name, mayReason)
	if !slices.Contains(persons, name) && !strings.HasPrefix(name, "functions.") {
		w.recipient(name, mayReason)
	}
}

// builtin adds the headers of the calls of a tool of gpt-oss's own.
func (w *headerWriter) builtin(tool any, mayReason bool) {
	switch tool {
	case "python":
		w.recipient("python", mayReason)
	case "browser":
		for _, name := range []string{"browser.search", "browser.open", "browser.find"} {
			w.recipient(name, mayReason)
		}
	}
}

// recipient adds the headers of a call. Where the model may not reason, none begins with the channel of reasoning:
// a model that writes it wants to reason and would be led into a call.
func (w *headerWriter) recipient(name string, mayReason bool) {
	to := w.tokens(" to=" + name)
	w.add(w.ends, to, w.commentary)
	w.add(w.ends, to, w.analysis)
	w.add(w.ends, w.commentary, to)
	if mayReason {
		w.add(w.ends, w.analysis, to)
	}
}
