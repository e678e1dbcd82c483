package vllm

import (
	"fmt"
	"strconv"

	"runner/backend"
	"runner/backend/remote"
	"runner/backend/remote/body"
)

const (
	// maxBias is the largest bias of a token. The same bias below zero forbids a token: vLLM has no stronger one.
	maxBias = 100
	// maxTop is the largest number of alternatives that a server allows unless it is told otherwise.
	maxTop = 20
)

// tokensBody is a request to the route for tokens alone.
func (e *Engine) tokensBody(r *remote.Request, model string) []byte {
	b := make([]byte, 0, size(r))
	b = append(b, `{"request_id":`...)
	b = body.Text(b, r.ID)
	b = append(b, `,"model":`...)
	b = body.Text(b, model)
	b = append(b, `,"token_ids":`...)
	b = body.Tokens(b, r.Tokens)
	b = append(b, `,"stream":true,"sampling_params":{"detokenize":false`...)
	if top := r.Sampling.TopLogprobs; top > 0 {
		// The sampled token takes one of the places, even if it is among the best.
		b = fmt.Appendf(b, `,"logprobs":%d`, min(top+1, maxTop))
	} else if top == 0 {
		b = append(b, `,"logprobs":0`...)
	}
	if r.NoCache {
		b = append(b, `,"skip_reading_prefix_cache":true`...)
	}
	b = append(e.sampling(b, r), '}')
	if r.Form != nil { // a server with a reasoning parser would wait for the end of the reasoning
		b = append(b, `,"reasoning_ended":true`...)
	}
	return append(salt(b, r), '}')
}

// textBody is a request to the route that also spells the tokens.
func (e *Engine) textBody(r *remote.Request, model string) []byte {
	b := make([]byte, 0, size(r))
	b = append(b, `{"request_id":`...)
	b = body.Text(b, r.ID)
	b = append(b, `,"model":`...)
	b = body.Text(b, model)
	b = append(b, `,"prompt":`...)
	b = body.Tokens(b, r.Tokens)
	b = append(b, `,"stream":true,"return_token_ids":true,"add_special_tokens":false,"skip_special_tokens":false`...)
	if top := r.Sampling.TopLogprobs; top >= 0 {
		b = fmt.Appendf(b, `,"logprobs":%d,"return_tokens_as_token_ids":true`, min(top, maxTop))
	}
	return append(salt(e.sampling(b, r), r), '}')
}

// size is about how long a request will be.
func size(r *remote.Request) int {
	return 7*(len(r.Tokens)+len(r.Allowed)) + 24*len(r.Sampling.Bias) + 1024
}

// sampling appends the fields that both routes have. All are sent, because a server may have its own defaults.
func (e *Engine) sampling(b []byte, r *remote.Request) []byte {
	p := r.Sampling.Plain()
	b = fmt.Appendf(b, `,"max_tokens":%d,"top_k":%d`, r.Most, p.TopK)
	b = append(b, `,"temperature":`...)
	b = body.Float(b, p.Temperature)
	b = append(b, `,"top_p":`...)
	b = body.Float(b, p.TopP)
	b = append(b, `,"min_p":`...)
	b = body.Float(b, p.MinP)
	b = append(b, `,"presence_penalty":0,"frequency_penalty":0,"repetition_penalty":1,"seed":`...)
	b = strconv.AppendUint(b, p.Seed&(1<<63-1), 10)
	if len(e.ends) > 0 {
		b = append(b, `,"stop_token_ids":`...)
		b = body.Tokens(b, e.ends)
	}
	b = e.limits(b, r)
	if r.Form != nil {
		b = append(b, `,"structured_outputs":{`...)
		b = append(form(b, r.Form), '}')
	}
	return b
}

// form appends a form.
func form(b []byte, f *remote.Form) []byte {
	switch f.Kind {
	case remote.FormJSONSchema:
		b = append(b, `"json":`...)
	case remote.FormRegex:
		b = append(b, `"regex":`...)
	case remote.FormGBNF:
		b = append(b, `"grammar":`...)
	case remote.FormChoices:
		b = append(b, `"choice":`...)
		for i, text := range f.List {
			b = body.Text(append(b, "[,"[min(i, 1)]), text)
		}
		return append(b, ']')
	}
	return body.Text(b, f.Text)
}

// limits appends the bias and the allowed tokens, or the others as forbidden ones if they are fewer.
func (e *Engine) limits(b []byte, r *remote.Request) []byte {
	bias := r.Sampling.Plain().Bias
	switch n := len(r.Allowed); {
	case n > 0 && e.vocab != nil && n > e.vocab.Len()/2:
		bias = bias[:len(bias):len(bias)]
		for _, t := range body.Others(r.Allowed, e.vocab.Len()) {
			bias = append(bias, backend.TokenBias{Token: t, Bias: -maxBias})
		}
	case n > 0:
		b = append(b, `,"allowed_token_ids":`...)
		b = body.Tokens(b, r.Allowed)
	}
	if len(bias) > 0 {
		all := body.Sum(bias, -maxBias)
		for i := range all {
			all[i].Bias = max(-maxBias, min(all[i].Bias, maxBias))
		}
		b = append(b, `,"logit_bias":`...)
		b = body.Bias(b, all)
	}
	return b
}

// salt appends what keeps the prefix of a request apart. A prefix that nobody may share gets a salt of its own.
func salt(b []byte, r *remote.Request) []byte {
	text := r.Salt
	if r.NoCache {
		text = r.ID
	}
	if text == "" {
		return b
	}
	b = append(b, `,"cache_salt":`...)
	return body.Text(b, text)
}
