package openai

import (
	"encoding/json"
	"math"

	"runner/generation"
	"runner/server/wire"
)

// Options are the fields that chat completions and completions share. Null counts as left out.
//
// The fields that chat completions and completions share. Fields for sampling that are left out have the server's
// values (`--temperature` and others).
//
//openapi:request SamplingOptions
type Options struct {
	wire.Unread
	// The name of the model. The default is the first model that the API key may use.
	Model string `json:"model"`
	// How many choices to generate.
	N *int64 `json:"n" api:"[1..16] default=1"`
	// Makes the answer repeatable, as long as `system_fingerprint` stays the same and no other request runs in the same
	// steps. Without it a random seed is used.
	Seed json.RawMessage `json:"seed" api:"integer[-9223372036854775808..18446744073709551615]"`
	// The answer ends before the first of these texts. They have no effect in the reasoning.
	Stop json.RawMessage `json:"stop" api:"string[1..1024]|[..16]string[1..1024]" of:"Stop"`

	// Send the answer as server-sent events while it is generated.
	Stream bool `json:"stream" api:"default=false"`
	// Options of the stream. Refused without `stream`.
	StreamOptions *StreamOptions `json:"stream_options"`

	wire.Sampling
	// Keep only this many of the likeliest tokens. 0 and -1 keep all.
	TopK *int64 `json:"top_k" api:"[-1..2147483647]" sets:"Sampling.TopK"`
	// Divides the logits of tokens that were already generated. 1 turns this off.
	RepetitionPenalty *float64 `json:"repetition_penalty" api:"[0.01..10]" sets:"Sampling.RepetitionPenalty"`
	// Another name of `repetition_penalty`. Different values are refused.
	RepeatPenalty *float64 `json:"repeat_penalty" api:"[0.01..10]" sets:"Sampling.RepetitionPenalty"`
	// Token ids, each with a number that is added to the token's logit. -100 forbids a token. This changes only text
	// that the API key may see, and never headers, channel names or reasoning tags.
	LogitBias json.RawMessage `json:"logit_bias" api:"#TokenBiases[..1024]" of:"Sampling,Sampling.Bias"`

	// llama.cpp's name of `max_tokens`. Different values are refused.
	NPredict *int64 `json:"n_predict" api:"[-1..] not=0"`
	// Not supported. Values other than 0 give the warning `unsupported_parameter`.
	Mirostat *float64 `json:"mirostat"`
	// Let a completion go on until its token limit. In chat completions, true gives the warning `unsupported_parameter`.
	IgnoreEOS bool `json:"ignore_eos" api:"default=false"`

	Forms
}

// StreamOptions are the options of a stream.
//
//openapi:request
type StreamOptions struct {
	// Send the token counts in a last chunk without choices.
	IncludeUsage bool `json:"include_usage" api:"default=false"`
}

// order is a decoded request.
type order struct {
	// model is the model's name.
	model string
	// req is the common part of the requests of all choices.
	req     generation.Request
	choices int
	stream  bool
	usage   bool
	// form is the field with the answer's form; empty if it has none.
	form     string
	warnings wire.Warnings
	// custom are the names of the tools whose calls are free text.
	custom map[string]bool
}

func (d *order) modelName() string { return d.model }

// order reads the shared fields of a principal's request. own are the format's names of the fields of the order.
func (a *API) order(p *wire.Principal, o *Options, own map[string]string) (*order, error) {
	d := &order{model: o.Model, req: a.cfg.Request(p), choices: 1, stream: o.Stream,
		usage: o.StreamOptions != nil && o.StreamOptions.IncludeUsage}
	o.Warn(&d.warnings, own)
	if o.StreamOptions != nil && !o.Stream {
		return nil, wire.Invalid("stream_options", "it goes with stream only")
	}
	if o.N != nil {
		d.choices = int(*o.N)
	}
	d.req.Messages, d.req.Tools = nil, nil
	seed, err := wire.ReadSeed("seed", o.Seed)
	switch {
	case err != nil:
		return nil, err
	case seed != nil:
		d.req.Seed = seed
	case d.req.Seed == nil:
		drawn := wire.NewSeed(a.cfg.Random)
		d.req.Seed = &drawn
	}
	if err := wire.ReadStops("stop", o.Stop, &d.req.Stop); err != nil {
		return nil, err
	}
	if err := o.sampling(&d.req); err != nil {
		return nil, err
	}
	if o.Mirostat != nil && *o.Mirostat != 0 {
		d.unsupported("mirostat")
	}
	d.req.Form, d.form, err = o.source(&d.req)
	return d, err
}

// runs returns a run for each choice.
func (d *order) runs() []wire.Run {
	runs := make([]wire.Run, d.choices)
	for i := range runs {
		seed := *d.req.Seed + uint64(i)
		runs[i] = wire.Run{Request: d.req, Observer: generation.Unobserved{}}
		runs[i].Request.Seed = &seed
	}
	return runs
}

// sampling reads the fields about sampling.
func (o *Options) sampling(req *generation.Request) error {
	if a, b := o.RepetitionPenalty, o.RepeatPenalty; a != nil && b != nil && *a != *b {
		return conflict("repetition_penalty", "repeat_penalty")
	}
	wire.Set(req, o)
	return readBias(o.LogitBias, req)
}

// limit reads the maximum number of tokens to generate from the field at path and from n_predict.
func (o *Options) limit(path string, v *int64, to *int) error {
	if o.NPredict != nil && v != nil && *o.NPredict != *v {
		return conflict(path, "n_predict")
	}
	if err := tokens("n_predict", o.NPredict, to); err != nil {
		return err
	}
	return tokens(path, v, to)
}

// tokens reads the maximum number of tokens to generate: at least 1, or -1 for as many as fit.
func tokens(path string, v *int64, to *int) error {
	switch {
	case v == nil:
		return nil
	case *v == -1:
		*to = 0
		return nil
	case *v < 1:
		return wire.Invalid(path, "%d is less than 1; -1 is as many as fit", *v)
	}
	*to = int(min(*v, math.MaxInt32))
	return nil
}
