package sglang

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"runner/backend"
	"runner/backend/remote"
	"runner/backend/remote/body"
	"runner/backend/remote/web"
)

const (
	// lift is added to the logits of allowed tokens. It is more than logits differ, and small enough that their
	// differences keep five digits. forbid is the bias of forbidden tokens.
	lift   = 500
	forbid = -1000
	// maxBias is the largest bias of a token. It is far below lift.
	maxBias = 100
)

// body is a request for a streamed generation.
func (e *Engine) body(r *remote.Request) []byte {
	p := r.Sampling.Plain()
	b := make([]byte, 0, 7*len(r.Tokens)+24*(len(p.Bias)+len(r.Allowed))+1024)
	b = append(b, `{"rid":`...)
	b = body.Text(b, r.ID)
	b = append(b, `,"input_ids":`...)
	b = body.Tokens(b, r.Tokens)
	b = append(b, `,"stream":true`...)
	b = salt(b, r)
	if p.TopLogprobs >= 0 {
		b = fmt.Appendf(b, `,"return_logprob":true,"top_logprobs_num":%d`, p.TopLogprobs)
	}
	b = fmt.Appendf(b, `,"sampling_params":{"max_new_tokens":%d`, r.Most)
	b = append(b, `,"skip_special_tokens":false,"no_stop_trim":true,"temperature":`...)
	b = body.Float(b, p.Temperature)
	b = append(b, `,"top_p":`...)
	b = body.Float(b, p.TopP)
	b = append(b, `,"min_p":`...)
	b = body.Float(b, p.MinP)
	k := p.TopK
	if k == 0 {
		k = -1 // all tokens
	}
	b = fmt.Appendf(b, `,"top_k":%d,"presence_penalty":0,"frequency_penalty":0,"repetition_penalty":1`, k)
	b = append(b, `,"sampling_seed":`...)
	b = strconv.AppendUint(b, p.Seed&(1<<31-1), 10)
	if len(e.ends) > 0 {
		b = append(b, `,"stop_token_ids":`...)
		b = body.Tokens(b, e.ends)
	}
	b = e.limits(b, r)
	if r.Form != nil {
		b = form(b, r.Form)
	}
	return append(b, '}', '}')
}

// form appends a form. Choices are a pattern.
func form(b []byte, f *remote.Form) []byte {
	text := f.Text
	switch f.Kind {
	case remote.FormJSONSchema:
		b = append(b, `,"json_schema":`...)
	case remote.FormGBNF:
		b = append(b, `,"ebnf":`...)
	case remote.FormRegex:
		b = append(b, `,"regex":`...)
	case remote.FormChoices:
		b = append(b, `,"regex":`...)
		quoted := make([]string, len(f.List))
		for i, choice := range f.List {
			quoted[i] = regexp.QuoteMeta(choice)
		}
		text = "(" + strings.Join(quoted, "|") + ")"
	}
	return body.Text(b, text)
}

// limits appends the bias, and which tokens are allowed. The smaller of allowed and other tokens is named.
func (e *Engine) limits(b []byte, r *remote.Request) []byte {
	bias := r.Sampling.Plain().Bias
	bias = bias[:len(bias):len(bias)]
	if n := len(r.Allowed); n > 0 && e.vocab != nil && n > e.vocab.Len()/2 {
		for _, t := range body.Others(r.Allowed, e.vocab.Len()) {
			bias = append(bias, backend.TokenBias{Token: t, Bias: forbid})
		}
	} else {
		for _, t := range r.Allowed {
			bias = append(bias, backend.TokenBias{Token: t, Bias: lift})
		}
	}
	if len(bias) == 0 {
		return b
	}
	b = append(b, `,"logit_bias":`...)
	return body.Bias(b, body.Sum(bias, forbid))
}

// salt appends what keeps the prefix of a request apart. It has two names, of which newer servers use the second. A
// prefix that nobody may share gets a salt of its own.
func salt(b []byte, r *remote.Request) []byte {
	text := r.Salt
	if r.NoCache {
		text = r.ID
	}
	if text == "" {
		return b
	}
	b = append(b, `,"extra_key":`...)
	b = body.Text(b, text)
	b = append(b, `,"cache_salt":`...)
	return body.Text(b, text)
}

// score sets the probability of a sampled token that follows tokens, and the best alternatives. With temperature 0 and
// no bias, the probabilities are those of the model. Which token is sampled then does not matter.
//
// The probabilities of a prompt would tell the same, but SGLang 0.5.23 has none for the last token of a vocabulary.
func (e *Engine) score(ctx context.Context, tokens []backend.Token, x *remote.Sample, r *remote.Request) error {
	b := append([]byte(nil), `{"rid":`...)
	b = body.Text(b, "score-"+r.ID)
	b = append(b, `,"input_ids":`...)
	b = body.Tokens(b, tokens)
	b = salt(b, r)
	b = fmt.Appendf(b, `,"return_logprob":true,"top_logprobs_num":%d,"token_ids_logprob":[%d]`, r.Sampling.TopLogprobs,
		x.Token)
	b = append(b, `,"sampling_params":{"max_new_tokens":1,"temperature":0,"presence_penalty":0,"frequency_penalty":0,`+
		`"repetition_penalty":1}}`...)
	var reply struct {
		Meta struct {
			Asked [][][]json.RawMessage `json:"output_token_ids_logprobs"`
			Top   [][][]json.RawMessage `json:"output_top_logprobs"`
		} `json:"meta_info"`
	}
	if err := e.client.Post(ctx, "/generate", json.RawMessage(b), &reply); err != nil {
		return err
	}
	m := &reply.Meta
	bad := &web.Error{Kind: web.Malformed, Detail: "it sent a token without its probability"}
	if len(m.Asked) != 1 || len(m.Asked[0]) != 1 {
		return bad
	}
	t, p, ok := pair(m.Asked[0][0])
	if !ok || t != x.Token {
		return bad
	}
	x.Logprob, x.Top = p, x.Top[:0]
	if r.Sampling.TopLogprobs == 0 {
		return nil
	}
	if len(m.Top) != 1 {
		return bad
	}
	for _, row := range m.Top[0] {
		t, p, ok := pair(row)
		if !ok || e.vocab != nil && !e.vocab.Valid(t) {
			return bad
		}
		if len(x.Top) < r.Sampling.TopLogprobs {
			x.Top = append(x.Top, backend.TokenLogprob{Token: t, Logprob: p})
		}
	}
	return nil
}

// pair reads a probability and its token.
func pair(row []json.RawMessage) (t backend.Token, p float32, ok bool) {
	if len(row) < 2 {
		return 0, 0, false
	}
	var x float64
	if string(row[0]) == "null" || json.Unmarshal(row[0], &x) != nil || json.Unmarshal(row[1], &t) != nil {
		return 0, 0, false
	}
	return t, float32(min(x, 0)), true
}
