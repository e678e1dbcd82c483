package llamaserver

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"runner/backend"
	"runner/backend/remote"
	"runner/backend/remote/web"
)

// event is one event of a stream, or the reply to a request that is not streamed.
type event struct {
	Content   string          `json:"content"`
	Tokens    []backend.Token `json:"tokens"`
	Stop      bool            `json:"stop"`
	Predicted int             `json:"tokens_predicted"`
	Probs     []probability   `json:"completion_probabilities"`
	Error     json.RawMessage `json:"error"`
	// Model is in the last event, and in a reply that is not streamed.
	Model string `json:"model"`
	// Progress comes before the first token, in an event that has none.
	Progress *struct {
		Cache int `json:"cache"`
	} `json:"prompt_progress"`
}

// probability is what the engine says about a sampled token.
type probability struct {
	ID      backend.Token `json:"id"`
	Logprob float32       `json:"logprob"`
	Top     []struct {
		ID      backend.Token `json:"id"`
		Logprob float32       `json:"logprob"`
	} `json:"top_logprobs"`
}

// reset empties an event and keeps its memory.
func (e *event) reset() {
	*e = event{Tokens: e.Tokens[:0], Probs: e.Probs[:0]}
}

var (
	errUnknownToken       = &web.Error{Kind: web.Malformed, Detail: "it sent a token that is not in the vocabulary"}
	errUnknownAlternative = &web.Error{Kind: web.Malformed,
		Detail: "it sent an alternative that is not in the vocabulary"}
)

// sample is a token with its probabilities.
type sample struct{ remote.Sample }

// take reads the last token of an event. top is as in backend.Sampling.
func (s *sample) take(e *event, top int, v *backend.Vocab) error {
	s.Token, s.Logprob, s.Top = e.Tokens[len(e.Tokens)-1], 0, s.Top[:0]
	if !v.Valid(s.Token) {
		return errUnknownToken
	}
	if top < 0 || len(e.Probs) == 0 {
		return nil
	}
	p := &e.Probs[len(e.Probs)-1]
	if p.ID != s.Token {
		return &web.Error{Kind: web.Malformed, Detail: "it sent a token with the probabilities of another one"}
	}
	s.Logprob = p.Logprob
	for _, t := range p.Top[:min(top, len(p.Top))] {
		if !v.Valid(t.ID) {
			return errUnknownAlternative
		}
		s.Top = append(s.Top, backend.TokenLogprob{Token: t.ID, Logprob: t.Logprob})
	}
	return nil
}

// copyTo copies the sample and reuses the memory of to.
func (s *sample) copyTo(to *remote.Sample) {
	to.Token, to.Logprob, to.Top = s.Token, s.Logprob, append(to.Top[:0], s.Top...)
}

// single is the reply to a request for one token.
type single struct {
	sample sample
	model  string
	read   bool
}

func (s *single) Next(to *remote.Sample) error {
	if s.read {
		return io.EOF
	}
	s.read = true
	s.sample.copyTo(to)
	return nil
}

func (s *single) Close() {}

// Model implements remote.Naming.
func (s *single) Model() string { return s.model }

// stream reads the tokens of a streamed generation.
//
// The server holds back text that ends inside a character, and the tokens of that text are never sent: only the token
// that completes the character is. The count of tokens shows that some are missing, and the text shows which.
type stream struct {
	engine *Engine
	ctx    context.Context
	events *web.Events
	top    int
	// sampling and tokens are those of the request. tokens grows with each token that is returned.
	sampling backend.Sampling
	tokens   []backend.Token
	salt     string
	noCache  bool

	event event
	now   sample
	// model is the name of the model in the last event; empty before.
	model string
	// reused is how many tokens of the prompt the engine had, or -1 if it did not say.
	reused int
	// counted is how many tokens the engine has generated, as far as the events were read.
	counted int
	// found are missing tokens that were found, and the token after them. They are returned next.
	found []sample
	// over says that the stream ends after the tokens of found, because the engine may have continued from others.
	over bool
}

// Next implements remote.Stream.
func (s *stream) Next(to *remote.Sample) error {
	if len(s.found) == 0 {
		if s.over {
			return io.EOF
		}
		if err := s.read(); err != nil {
			return err
		}
	}
	if len(s.found) > 0 {
		s.found[0].copyTo(to)
		s.found = s.found[1:]
	} else {
		s.now.copyTo(to)
	}
	s.tokens = append(s.tokens, to.Token)
	return nil
}

// read reads the next token into now, or into found together with those that were missing before it.
func (s *stream) read() error {
	for {
		data, err := s.events.Next()
		if errors.Is(err, io.EOF) {
			return &web.Error{Kind: web.Broken, Detail: "the stream ends before the generation"}
		} else if err != nil {
			return err
		}
		if token, n, ok := quick(data); ok && s.top < 0 && n == s.counted+1 {
			if !s.engine.vocab.Valid(token) {
				return errUnknownToken
			}
			s.counted, s.now.Token, s.now.Logprob, s.now.Top = n, token, 0, s.now.Top[:0]
			return nil
		}
		s.event.reset()
		if json.Unmarshal(data, &s.event) != nil {
			return &web.Error{Kind: web.Malformed, Detail: "an event is not the JSON that was expected"}
		}
		switch e := &s.event; {
		case len(e.Error) > 0:
			return &web.Error{Kind: web.Broken, Detail: "the engine failed during the generation"}
		case e.Stop:
			s.model = e.Model
			return s.ended(e.Predicted)
		case e.Progress != nil && s.counted == 0:
			s.reused = e.Progress.Cache
		case len(e.Tokens) != 1 || e.Predicted <= s.counted:
			return &web.Error{Kind: web.Malformed, Detail: "the tokens of an event cannot be counted"}
		default:
			missing := e.Predicted - s.counted - 1
			s.counted = e.Predicted
			if err := s.now.take(e, s.top, s.engine.vocab); err != nil || missing == 0 {
				return err
			}
			return s.find(missing)
		}
	}
}

// Model implements remote.Naming.
func (s *stream) Model() string { return s.model }

// Reused implements remote.Reporting.
func (s *stream) Reused() (tokens int, ok bool) { return s.reused, s.reused >= 0 }

// ended handles the end of the generation. Tokens may be missing here too: the text ends inside a character.
func (s *stream) ended(predicted int) error {
	if predicted <= s.counted {
		s.drain()
		return io.EOF
	}
	s.over = true
	return s.ask(s.engine.partial())
}

// drain reads the end of the stream, so that the connection can be used again.
func (s *stream) drain() {
	if _, err := s.events.Next(); err != nil {
		s.over = true
	}
}

// find finds tokens that were left out before now. Their bytes are the event's text without that of now.
func (s *stream) find(missing int) error {
	v := s.engine.vocab
	text, ok := strings.CutSuffix(s.event.Content, textOf(v, s.now.Token))
	if !ok || !utf8.ValidString(s.event.Content) || strings.ContainsRune(s.event.Content, utf8.RuneError) {
		s.over = true
		return s.ask(s.engine.partial())
	}
	if missing > mostMissing || len(text) > longestMissing {
		return &web.Error{Kind: web.Malformed, Detail: "more tokens are missing from an event than a character can have"}
	}
	splits := s.engine.splits(text, missing)
	if len(splits) == 1 {
		for _, t := range splits[0] {
			if err := s.add(t); err != nil {
				return err
			}
		}
		s.found = append(s.found, s.now)
		s.now = sample{}
		return nil
	}
	s.over = true
	if len(splits) == 0 {
		return s.ask(s.engine.partial())
	}
	var first []backend.Token
	for _, split := range splits {
		first = append(first, split[0])
	}
	return s.ask(first)
}

// add adds a missing token to found.
func (s *stream) add(t backend.Token) error {
	x := sample{remote.Sample{Token: t}}
	if s.top >= 0 {
		before := s.tokens
		for _, f := range s.found {
			before = append(before[:len(before):len(before)], f.Token)
		}
		if err := s.engine.score(s.ctx, before, &x, s.top, s.noCache); err != nil {
			return err
		}
	}
	s.found = append(s.found, x)
	return nil
}

// ask samples the first missing token from those that it can be. That is how it was sampled, if nothing more is known.
func (s *stream) ask(among []backend.Token) error {
	one, err := s.engine.Open(s.ctx, &remote.Request{Tokens: s.tokens, Most: 1, Sampling: s.sampling,
		Allowed: sorted(among), Salt: s.salt, NoCache: s.noCache})
	if err != nil {
		return err
	}
	var x sample
	if err := one.Next(&x.Sample); err != nil {
		return err
	}
	s.found = s.found[:0]
	return s.add(x.Token)
}

// Close implements remote.Stream.
func (s *stream) Close() { s.events.Close() }
