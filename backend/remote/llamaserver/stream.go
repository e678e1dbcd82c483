package llamaserver

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"runner/backend"
	"runner/backend/remote"
	"runner/backend/remote/dialect"
)

// event is one event of a stream, or the reply to a request that is not streamed.
type event struct {
	Content       string          `json:"content"`
	Tokens        []backend.Token `json:"tokens"`
	Stop          bool            `json:"stop"`
	Predicted     int             `json:"tokens_predicted"`
	Probabilities []probability   `json:"completion_probabilities"`
	Error         json.RawMessage `json:"error"`
	// Model is in the last event, and in a reply that is not streamed.
	Model string `json:"model"`
	// Progress comes before the first token, in an event that has none.
	Progress *struct {
		Cache int `json:"cache"`
	} `json:"prompt_progress"`
}

// probability is what the engine says about a token.
type probability struct {
	ID      backend.Token `json:"id"`
	Logprob float32       `json:"logprob"`
	Top     []probability `json:"top_logprobs"`
}

// sample returns the only token of an event. top is as in backend.Sampling.
func (e *event) sample(top int) (x remote.Sample, err error) {
	x.Token = e.Tokens[0]
	if top < 0 || len(e.Probabilities) == 0 {
		return x, nil
	}
	p := &e.Probabilities[len(e.Probabilities)-1]
	if p.ID != x.Token {
		return x, dialect.ErrOtherToken
	}
	x.Logprob, x.Top = p.Logprob, p.best()
	return x, nil
}

// best returns the alternatives of a token.
func (p *probability) best() (list []backend.TokenLogprob) {
	for _, t := range p.Top {
		list = append(list, backend.TokenLogprob{Token: t.ID, Logprob: t.Logprob})
	}
	return list
}

// reader reads the events of a stream.
//
// The server holds back text that ends inside a character, and the tokens of that text are never sent: only the token
// that completes the character is. The count of tokens shows that some are missing, and the text shows which.
type reader struct {
	*server
	ctx     context.Context
	request *remote.Request
	// tokens are those of the request and those that were read. counted is how many tokens the engine has generated.
	tokens  []backend.Token
	counted int
}

func (s *server) events(ctx context.Context, r *remote.Request) func(data []byte) (dialect.Event, error) {
	return (&reader{server: s, ctx: ctx, request: r, tokens: slices.Clip(r.Tokens)}).read
}

// read reads an event. It returns a token together with those that were missing before it. After a missing token that
// was sampled again, the stream is left, because the engine may have continued from another one.
func (g *reader) read(data []byte) (out dialect.Event, err error) {
	var e event
	if err := dialect.Read(data, &e); err != nil {
		return out, err
	}
	if err := dialect.Failed(e.Error, 0); err != nil {
		return out, err
	}
	out.Model = e.Model
	missing := e.Predicted - g.counted - 1
	switch {
	case e.Stop && missing < 0:
		out.Ended = true
	case e.Stop: // the text ends inside a character
		out.Cut = true
		out.Samples, err = g.ask(g.parts().list)
	case e.Progress != nil && g.counted == 0:
		out.Cached = &e.Progress.Cache
	case len(e.Tokens) != 1 || missing < 0:
		err = dialect.ErrUncounted
	default:
		g.counted = e.Predicted
		var now remote.Sample
		if now, err = e.sample(g.request.Sampling.TopLogprobs); err == nil && missing > 0 {
			out.Samples, out.Cut, err = g.find(missing, e.Content, now.Token)
		}
		if !out.Cut {
			out.Samples = append(out.Samples, now)
			g.tokens = append(g.tokens, now.Token)
		}
	}
	return out, err
}

const (
	// mostMissing is how many tokens can be missing before one, and longestMissing how many bytes they have. A character
	// has at most four bytes, and few tokens are less than one.
	mostMissing    = 16
	longestMissing = 64
)

// find finds tokens that were left out before a token. Their bytes are the event's text without that of the token. If
// there are several ways to write it, the first missing token is sampled from those that it can be, and cut is true.
func (g *reader) find(missing int, text string, before backend.Token) (list []remote.Sample, cut bool, err error) {
	if !g.Vocab.Valid(before) {
		return nil, false, dialect.ErrUnknown
	}
	whole := utf8.ValidString(text) && !strings.ContainsRune(text, utf8.RuneError)
	text, known := strings.CutSuffix(text, textOf(g.Vocab, before))
	known = known && whole
	if known && (missing > mostMissing || len(text) > longestMissing) {
		return nil, false, dialect.Malformed("more tokens are missing from an event than a character can have")
	}
	var splits [][]backend.Token
	if known {
		splits = g.parts().splits(text, missing)
	}
	if len(splits) != 1 {
		var first []backend.Token
		for _, split := range splits {
			first = append(first, split[0])
		}
		if len(first) == 0 {
			first = g.parts().list
		}
		list, err = g.ask(first)
		return list, true, err
	}
	for _, t := range splits[0] {
		x := remote.Sample{Token: t}
		if g.request.Sampling.TopLogprobs >= 0 {
			if err := g.score(g.ctx, g.request, g.tokens, &x); err != nil {
				return nil, false, err
			}
		}
		list, g.tokens = append(list, x), append(g.tokens, t)
	}
	return list, false, nil
}

// ask samples the first missing token from those that it can be. That is how it was sampled, if nothing more is known.
func (g *reader) ask(among []backend.Token) ([]remote.Sample, error) {
	again := *g.request
	again.Tokens, again.Most, again.Form = g.tokens, 1, nil
	again.Allowed = slices.Compact(slices.Sorted(slices.Values(among)))
	one, err := g.Open(g.ctx, &again)
	if err != nil {
		return nil, err
	}
	list := make([]remote.Sample, 1)
	return list, one.Next(&list[0])
}
