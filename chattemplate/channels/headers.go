package channels

import (
	"slices"
	"strings"

	"runner/backend"
	"runner/chattemplate"
	"runner/chattemplate/channels/harmony"
	"runner/chattemplate/hold"
)

// headerWriter lists the headers that a model may write, from after <|start|>assistant up to <|message|>. The list has
// all forms that gpt-oss is known to write and no others: the recipient before or after the channel, with or without
// its namespace, on either channel, and with or without a content type. The tokenizer of gpt-oss never joins the parts
// of a header, so each part is tokenized once.
type headerWriter struct {
	tokenize func([]backend.Token, string) ([]backend.Token, error)
	// analysis, commentary and final open these channels.
	analysis, commentary, final []backend.Token
	// ends are the ends of a header: <|message|> alone, then after <|constrain|> and a content type, then after a bare
	// content type.
	ends        [][]backend.Token
	constrained int // how many of ends have no bare content type
	list        [][]backend.Token
	err         error
}

func newHeaderWriter(f *Family) *headerWriter {
	t := &f.native.tokens
	w := &headerWriter{tokenize: f.cfg.Tokenize}
	w.analysis = w.tokens(t.Channel, harmony.Analysis)
	w.commentary = w.tokens(t.Channel, harmony.Commentary)
	w.final = w.tokens(t.Channel, harmony.Final)
	w.ends = [][]backend.Token{
		{t.Message},
		w.tokens(" ", t.Constrain, contentJSON, t.Message),
		w.tokens(t.Constrain, contentJSON, t.Message),
	}
	w.constrained = len(w.ends)
	w.ends = append(w.ends, w.tokens(" "+contentJSON, t.Message), w.tokens(" "+contentCode, t.Message))
	return w
}

// tokens returns the tokens of parts. Each part is a text or a token.
func (w *headerWriter) tokens(parts ...any) []backend.Token {
	var out []backend.Token
	for _, part := range parts {
		if t, ok := part.(backend.Token); ok {
			out = append(out, t)
			continue
		}
		var err error
		if out, err = w.tokenize(out, part.(string)); err != nil { //nolint:forcetypeassert // there are no other parts
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

// answer adds the headers of an answer. If addressed, persons are allowed as recipients before the channel. Without
// them, a model that wants to address a person would be led into a call or onto another channel.
func (w *headerWriter) answer(addressed bool) {
	ends := w.ends[:w.constrained]
	w.add(ends, w.final)
	if addressed {
		for _, person := range persons {
			w.add(ends, w.tokens(" "+to+person), w.final)
		}
	}
}

// words adds the headers of messages on a channel that are not calls.
func (w *headerWriter) words(channel []backend.Token, addressed bool) {
	w.add(w.ends[:1], channel)
	if !addressed {
		return
	}
	for _, person := range persons {
		to := w.tokens(" " + to + person)
		w.add(w.ends[:1], channel, to)
		w.add(w.ends[:1], to, channel)
	}
}

// call adds the headers of a call of a function. The bare name is also allowed if it is unambiguous. An invalid name is
// skipped: Render rejects it.
func (w *headerWriter) call(name string, mayReason bool) {
	if !chattemplate.ValidName(name) {
		return
	}
	w.recipient(functions+name, mayReason)
	if !isPerson(name) && !strings.HasPrefix(name, functions) {
		w.recipient(name, mayReason)
	}
}

// builtin adds the headers of the calls of a built-in tool.
func (w *headerWriter) builtin(tool any, mayReason bool) {
	name, _ := tool.(string)
	for _, recipient := range builtins[name] {
		w.recipient(recipient, mayReason)
	}
}

// recipient adds the headers of a call. If the model may not reason, none of them begins with the channel analysis,
// because a model that writes it wants to reason and would be led into a call.
func (w *headerWriter) recipient(name string, mayReason bool) {
	to := w.tokens(" " + to + name)
	w.add(w.ends, to, w.commentary)
	w.add(w.ends, to, w.analysis)
	w.add(w.ends, w.commentary, to)
	if mayReason {
		w.add(w.ends, w.analysis, to)
	}
}

// hold returns the constraint that allows only the headers of the list.
func (w *headerWriter) hold() (*hold.OneOf, error) {
	if w.err != nil {
		return nil, w.err
	}
	return hold.NewOneOf(w.list...)
}
