package openai

import (
	"encoding/json"
	"math"

	"runner/generation"
	"runner/server/wire"
)

// Options are the fields that chat completions and completions have in common. Null is as good as left out.
type Options struct {
	// Model names the model; left out, it is the first that the key may use.
	Model string `json:"model"`
	// N is how many choices to make, 1 to 16.
	N *int64 `json:"n"`
	// Seed makes an answer repeatable, -2^63 to 2^64-1; choice i has the seed plus i. Left out, one is drawn.
	Seed json.RawMessage `json:"seed"`
	// Stop is a string or a list of at most 16 strings of 1 to 1,024 bytes that end the answer and are not part of it.
	Stop json.RawMessage `json:"stop" max:"16"`

	// Stream sends the answer in server-sent events as it comes.
	Stream bool `json:"stream"`
	// StreamOptions goes with Stream.
	StreamOptions *StreamOptions `json:"stream_options"`

	// Temperature divides the logits, 0 to 2; 0 takes the most likely token.
	Temperature *float64 `json:"temperature"`
	// TopP keeps the most likely tokens that together reach this probability, 0 to 1.
	TopP *float64 `json:"top_p"`
	// TopK keeps that many tokens; 0 and -1 keep all.
	TopK *int64 `json:"top_k"`
	// MinP drops tokens less likely than this share of the best one, 0 to 1.
	MinP *float64 `json:"min_p"`
	// TypicalP keeps the most typical tokens that together reach this probability, 0 to 1; 0 and 1 keep all.
	TypicalP *float64 `json:"typical_p"`
	// PresencePenalty and FrequencyPenalty are subtracted from the logits of tokens that have been generated, once
	// or for each time, -2 to 2.
	PresencePenalty  *float64 `json:"presence_penalty"`
	FrequencyPenalty *float64 `json:"frequency_penalty"`
	// RepetitionPenalty divides the logits of tokens that have been generated, more than 0 to 10; 1 is off.
	// RepeatPenalty is another name for it.
	RepetitionPenalty *float64 `json:"repetition_penalty"`
	RepeatPenalty     *float64 `json:"repeat_penalty"`
	// LogitBias adds to the logits of tokens: an object of at most 1,024 token ids with -100 to 100 each; -100 forbids.
	LogitBias json.RawMessage `json:"logit_bias" max:"1024"`

	// NPredict is llama.cpp's name of max_tokens.
	NPredict *int64 `json:"n_predict"`
	// Mirostat other than 0 is an option of llama.cpp's server that has no effect here but a warning.
	Mirostat *float64 `json:"mirostat"`
	// IgnoreEOS keeps a completion going to its token limit. A chat's answer ends when the model ends it, and a
	// warning says so.
	IgnoreEOS bool `json:"ignore_eos"`

	Forms
}

// StreamOptions are the options of a stream.
type StreamOptions struct {
	// IncludeUsage sends the usage in a chunk of its own before the end.
	IncludeUsage bool `json:"include_usage"`
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
	warnings []Warning
	// custom are the names of the tools whose calls are free text.
	custom map[string]bool
}

func (d *order) modelName() string { return d.model }

// order reads the shared fields.
func (a *API) order(o *Options) (*order, error) {
	d := &order{model: o.Model, req: a.cfg.Defaults, choices: 1, stream: o.Stream,
		usage: o.StreamOptions != nil && o.StreamOptions.IncludeUsage}
	if o.StreamOptions != nil && !o.Stream {
		return nil, wire.Invalid("stream_options", "it goes with stream only")
	}
	if err := within("n", o.N, 1, maxChoices); err != nil {
		return nil, err
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
	if wire.Given(o.Stop) {
		if d.req.Stop, err = readStops(o.Stop); err != nil {
			return nil, err
		}
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

// sampling reads the fields about sampling.
func (o *Options) sampling(req *generation.Request) error {
	penalty, name := o.RepetitionPenalty, "repetition_penalty"
	if penalty == nil {
		penalty, name = o.RepeatPenalty, "repeat_penalty"
	} else if o.RepeatPenalty != nil && *o.RepeatPenalty != *penalty {
		return conflict("repetition_penalty", "repeat_penalty")
	}
	s := &req.Sampling
	for _, f := range []struct {
		name      string
		value     *float64
		low, high float64
		to        *float32
	}{
		{"min_p", o.MinP, 0, 1, &s.MinP},
		{"typical_p", o.TypicalP, 0, 1, &s.TypicalP},
		{"presence_penalty", o.PresencePenalty, -2, 2, &s.PresencePenalty},
		{"frequency_penalty", o.FrequencyPenalty, -2, 2, &s.FrequencyPenalty},
		{name, penalty, 0.01, 10, &s.RepetitionPenalty},
	} {
		if err := wire.ReadNumber(f.name, f.value, f.low, f.high, f.to); err != nil {
			return err
		}
	}
	if err := wire.ReadTemperature("temperature", o.Temperature, &s.Temperature); err != nil {
		return err
	}
	if err := wire.ReadTopP("top_p", o.TopP, &s.TopP); err != nil {
		return err
	}
	if err := within("top_k", o.TopK, -1, math.MaxInt32); err != nil {
		return err
	}
	if o.TopK != nil {
		s.TopK = int(max(*o.TopK, 0))
	}
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
