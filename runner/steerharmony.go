package runner

import (
	"runner/backend"
	"runner/chattemplate"
	"runner/grammar"
	"runner/reasoning"
)

// initHarmony notes harmony's control tokens and holds the headers to what the request asks for, if it asks for anything.
func (s *steering) initHarmony(r *Runner, req *Request) error {
	for _, name := range []string{"<|start|>", "<|channel|>", "<|message|>", "<|constrain|>"} {
		if t, ok := s.vocab.Special(name); ok {
			s.outside = append(s.outside, t)
		}
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
		w := headerWriter{tokenize: r.model.Tokenize, vocab: s.vocab}
		w.call(reasoning.ReportReasoningName)
		return s.hold(&w)
	}
	chosen := req.ToolChoice != "" && req.ToolChoice != ToolChoiceAuto
	if s.answer == nil && s.calls == nil && !chosen {
		return nil
	}
	return s.holdHeaders(r, req, true)
}

// endReport lets the model go on after it has reported its reasoning.
func (s *steering) endReport(r *Runner, req *Request) error {
	if !s.report {
		return nil
	}
	s.report = false
	if s.format.Family != chattemplate.Harmony {
		s.at, s.text, s.later = placeNone, s.later, nil
		return nil
	}
	return s.holdHeaders(r, req, false)
}

// holdHeaders lets the model open only the messages that the request allows: with or without further reasoning.
func (s *steering) holdHeaders(r *Runner, req *Request, mayReason bool) error {
	w := headerWriter{tokenize: r.model.Tokenize, vocab: s.vocab}
	if mayReason {
		w.message("analysis")
	}
	calls := req.ToolChoice != ToolChoiceNone
	// Where a call is demanded no words go before it: they have no end of their own that the limits would leave room after.
	if calls && len(req.Tools) > 0 && !req.mustCall() {
		w.message("commentary")
	}
	if !req.mustCall() {
		w.message("final")
		w.typed("final")
	}
	for _, tool := range req.Tools {
		if calls && (req.ToolChoice != ToolChoiceFunction || req.ToolName == tool.Name) {
			w.call(tool.Name)
		}
	}
	return s.hold(&w)
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

// headerWriter collects the headers that a model may write, from after <|start|>assistant up to <|message|>. Every form that
// gpt-oss uses is among them, but no other: the recipient before or after the channel, and a content type or none.
type headerWriter struct {
	tokenize func([]backend.Token, string) ([]backend.Token, error)
	vocab    *backend.Vocab
	before   string // what stands before the channel
	list     [][]backend.Token
	err      error
}

// add adds a header made of texts and the names of control tokens.
func (w *headerWriter) add(parts ...string) {
	var out []backend.Token
	if w.before != "" {
		parts = append([]string{w.before}, parts...)
	}
	for _, p := range parts {
		var err error
		if t, ok := w.vocab.Special(p); ok {
			out = append(out, t)
		} else if out, err = w.tokenize(out, p); err != nil {
			w.err = err
		}
	}
	w.list = append(w.list, out)
}

func (w *headerWriter) message(channel string) { w.add("<|channel|>", channel, "<|message|>") }

// typed adds the headers with a content type.
func (w *headerWriter) typed(channel string) {
	if _, ok := w.vocab.Special("<|constrain|>"); !ok {
		return
	}
	w.add("<|channel|>", channel+" ", "<|constrain|>", "json", "<|message|>")
	w.add("<|channel|>", channel, "<|constrain|>", "json", "<|message|>")
}

func (w *headerWriter) call(name string) {
	to := " to=functions." + name
	w.message("commentary" + to)
	w.typed("commentary" + to)
	w.message("commentary" + to + " json")
	w.before = to
	w.message("commentary")
	w.typed("commentary")
	w.message("commentary json")
	w.before = ""
}
