package sglang

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"runner/backend"
	"runner/backend/remote"
	"runner/backend/remote/dialect"
)

// basics are the fields that all requests have. A salt has two names, of which newer servers use the second.
func basics(id string, tokens []backend.Token, r *remote.Request, settings map[string]any) map[string]any {
	all := map[string]any{"rid": id, "input_ids": tokens, "sampling_params": settings}
	if salt := dialect.Salt(r); salt != "" {
		all["extra_key"], all["cache_salt"] = salt, salt
	}
	if r.Sampling.TopLogprobs >= 0 {
		all["return_logprob"], all["top_logprobs_num"] = true, r.Sampling.TopLogprobs
	}
	return all
}

// request makes the request for a stream.
func (s *server) request(r *remote.Request, _ *dialect.Found) any {
	p := &r.Sampling
	settings := s.Sampling(r)
	maps.Copy(settings, map[string]any{"max_new_tokens": r.Most, "skip_special_tokens": false, "no_stop_trim": true,
		"sampling_seed": p.Seed & (1<<31 - 1)})
	if p.TopK == 0 {
		settings["top_k"] = -1 // all tokens
	}
	if len(s.Ends) > 0 {
		settings["stop_token_ids"] = s.Ends
	}
	if bias := s.Bias(r, forbid, lift); len(bias) > 0 {
		settings["logit_bias"] = bias
	}
	if r.Form != nil {
		field, text := form(r.Form)
		settings[field] = text
	}
	all := basics(r.ID, r.Tokens, r, settings)
	all["stream"] = true
	return all
}

// form returns the field for a form. Choices are a pattern.
func form(f *remote.Form) (field, text string) {
	switch f.Kind {
	case remote.FormGBNF:
		return "ebnf", f.Text
	case remote.FormRegex:
		return "regex", f.Text
	case remote.FormChoices:
		quoted := make([]string, len(f.List))
		for i, choice := range f.List {
			quoted[i] = regexp.QuoteMeta(choice)
		}
		return "regex", "(" + strings.Join(quoted, "|") + ")"
	}
	return "json_schema", f.Text
}

// differs reports whether the server's probabilities are not those of the model.
func differs(r *remote.Request) bool {
	p := &r.Sampling
	return p.Temperature != 0 && p.Temperature != 1 || len(p.Bias) > 0 || len(r.Allowed) > 0
}

// single samples one token, and asks for its probability in a second request, if that of the first is not the model's.
func (s *server) single(ctx context.Context, r *remote.Request) (*dialect.Event, error) {
	if r.Sampling.TopLogprobs < 0 || !differs(r) {
		return nil, nil
	}
	one := *r
	one.Most, one.Sampling.TopLogprobs = 1, -1
	stream, err := s.Open(ctx, &one)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	e := &dialect.Event{Samples: make([]remote.Sample, 1)}
	if err := stream.Next(&e.Samples[0]); err != nil {
		return nil, fmt.Errorf("sampling one token: %w", err)
	}
	return e, s.score(ctx, &e.Samples[0], r)
}

// score sets the probability of a token that was sampled for a request, and the best alternatives. With temperature 0
// and no bias, the probabilities are those of the model. Which token is sampled then does not matter.
//
// The probabilities of a prompt would give the same values, but SGLang 0.5.23 has none for the last token of a
// vocabulary.
func (s *server) score(ctx context.Context, x *remote.Sample, r *remote.Request) error {
	request := basics("score-"+r.ID, r.Tokens, r, map[string]any{"max_new_tokens": 1, "temperature": 0,
		"presence_penalty": 0, "frequency_penalty": 0, "repetition_penalty": 1})
	request["token_ids_logprob"] = []backend.Token{x.Token}
	var reply struct {
		Meta struct {
			Asked [][]pair `json:"output_token_ids_logprobs"`
			Top   [][]pair `json:"output_top_logprobs"`
		} `json:"meta_info"`
	}
	if err := s.Client.Post(ctx, route, request, &reply); err != nil {
		return err
	}
	m := &reply.Meta
	if len(m.Asked) != 1 || len(m.Asked[0]) != 1 || r.Sampling.TopLogprobs > 0 && len(m.Top) != 1 {
		return dialect.ErrImprobable
	}
	asked, ok := m.Asked[0][0].read()
	if !ok || asked.Token != x.Token {
		return dialect.ErrImprobable
	}
	x.Logprob = asked.Logprob
	if len(m.Top) == 0 {
		return nil
	}
	var err error
	x.Top, err = read(m.Top[0])
	return err
}

// event is one event of a stream. It gives the number of tokens so far, and the newest of them or all.
// The same holds for their probabilities. So the lists are read from their end.
type event struct {
	Tokens []backend.Token `json:"output_ids"`
	Meta   struct {
		Total  *int `json:"completion_tokens"`
		Cached *int `json:"cached_tokens"`
		Finish *struct {
			Type    string          `json:"type"`
			Code    int             `json:"status_code"`
			Message json.RawMessage `json:"message"`
		} `json:"finish_reason"`
		Probabilities []pair   `json:"output_token_logprobs"`
		Top           [][]pair `json:"output_top_logprobs"`
	} `json:"meta_info"`
	Error json.RawMessage `json:"error"`
}

// pair is a probability with its token, and the token's text or null.
type pair [3]any

// read returns the probability and its token.
func (p *pair) read() (x backend.TokenLogprob, ok bool) {
	logprob, known := p[0].(float64)
	id, ok := p[1].(float64)
	x = backend.TokenLogprob{Token: backend.Token(id), Logprob: float32(min(logprob, 0))}
	return x, ok && known && float64(x.Token) == id
}

// read reads the alternatives of a token.
func read(list []pair) (top []backend.TokenLogprob, err error) {
	for i := range list {
		x, ok := list[i].read()
		if !ok {
			return nil, dialect.ErrImprobable
		}
		top = append(top, x)
	}
	return top, nil
}

// recent is how many of the last tokens of a long event are read at first.
const recent = 64

// end returns an event without its text and without all tokens but the recent ones. Unless a server is told otherwise,
// each event repeats all that was said before, so that reading it whole would take longer with every token.
// What comes before the tokens is not checked then.
func end(data []byte) []byte {
	_, ids, ok := bytes.Cut(data, []byte(`"output_ids":[`)) // no text has this, because its quotes are escaped
	ids, rest, _ := bytes.Cut(ids, []byte("]"))
	if !ok || bytes.Count(ids, []byte(",")) < 2*recent || !bytes.Contains(rest, []byte(`"meta_info":`)) {
		return data
	}
	at := len(ids)
	for range recent {
		at = bytes.LastIndexByte(ids[:at], ',')
	}
	return slices.Concat([]byte(`{"output_ids":[`), ids[at+1:], []byte("]"), rest)
}

// events reads the events of a stream.
func events(_ context.Context, r *remote.Request) func(data []byte) (dialect.Event, error) {
	come := 0
	return func(data []byte) (out dialect.Event, err error) {
		var e event
		err = dialect.Read(end(data), &e)
		if total := e.Meta.Total; err == nil && total != nil && *total-come > len(e.Tokens) {
			e = event{}
			err = dialect.Read(data, &e)
		}
		if err != nil {
			return out, err
		}
		// SGLang sends an error without a code for a request that it does not take.
		if err := dialect.Failed(e.Error, http.StatusBadRequest); err != nil {
			return out, err
		}
		m := &e.Meta
		if out.Ended = m.Finish != nil; out.Ended && m.Finish.Type == "abort" {
			return out, dialect.GaveUp(m.Finish.Code, m.Finish.Message)
		}
		out.Cached = m.Cached
		fresh := len(e.Tokens)
		if m.Total != nil { // else an event has all tokens that are new
			fresh = *m.Total - come
		}
		come += fresh
		out.Samples, err = e.samples(fresh, r.Sampling.TopLogprobs)
		return out, err
	}
}

// samples returns the last tokens of an event. top is as in backend.Sampling.
func (e *event) samples(fresh, top int) ([]remote.Sample, error) {
	p, alternatives := e.Meta.Probabilities, e.Meta.Top
	switch {
	case fresh < 0 || fresh > len(e.Tokens):
		return nil, dialect.ErrUncounted
	case top >= 0 && fresh > len(p), top > 0 && fresh > 0 && len(alternatives) != len(p):
		return nil, dialect.ErrImprobable
	}
	list := make([]remote.Sample, fresh)
	for i := range list {
		x := &list[i]
		x.Token = e.Tokens[len(e.Tokens)-fresh+i]
		if top < 0 {
			continue
		}
		at := len(p) - fresh + i
		one, ok := p[at].read()
		if !ok || one.Token != x.Token {
			return nil, dialect.ErrOtherToken
		}
		x.Logprob = one.Logprob
		if top == 0 {
			continue
		}
		var err error
		if x.Top, err = read(alternatives[at]); err != nil {
			return nil, err
		}
	}
	return list, nil
}
