package openai

import (
	"encoding/json"
	"slices"
	"sort"
	"strconv"

	"runner/generation"
	"runner/server/wire"
)

// Limits of a request. Its types have more.
const (
	maxTools   = 1_024
	maxPrompts = 32
	maxInputs  = 2_048
)

// readBias reads logit_bias into a request.
func readBias(raw json.RawMessage, req *generation.Request) error {
	if !wire.Given(raw) {
		return nil
	}
	var entries map[string]*float64
	if err := wire.Object("logit_bias", raw, &entries); err != nil {
		return err
	}
	bias := slices.Grow(req.Sampling.Bias[:0:0], len(entries))[:len(entries)]
	n := 0
	for key, value := range entries {
		path := "logit_bias." + wire.Clip(key)
		id, err := strconv.ParseInt(key, 10, 32)
		if err != nil || strconv.FormatInt(id, 10) != key || id < 0 {
			return wire.Invalid(path, "the key is not the id of a token")
		}
		if value == nil {
			return wire.Invalid(path, "it has to be a number")
		}
		if *value < -100 || *value > 100 {
			return wire.Invalid(path, "it takes a number from -100 to 100")
		}
		bias[n].Token, bias[n].Bias = generation.Token(id), float32(*value)
		n++
	}
	sort.Slice(bias, func(i, j int) bool { return bias[i].Token < bias[j].Token })
	req.Sampling.Bias = bias
	return nil
}

// conflict returns the error for two fields that contradict each other.
func conflict(a, b string) error {
	return wire.Invalid(a, "%s and %s contradict each other; give one of them", a, b)
}
