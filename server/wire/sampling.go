package wire

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// ReadNumber reads a number from low to high into to. If there is none, to stays as it is.
func ReadNumber(param string, v *float64, low, high float64, to *float32) error {
	if v == nil {
		return nil
	}
	if !(*v >= low && *v <= high) {
		return Invalid(param, "it takes a number from %v to %v", low, high)
	}
	*to = float32(*v)
	return nil
}

// ReadTemperature is ReadNumber for the temperature. All formats take 0 to 2, as OpenAI's API does; Anthropic's takes
// less.
func ReadTemperature(param string, v *float64, to *float32) error {
	return ReadNumber(param, v, 0, 2, to)
}

// ReadTopP is ReadNumber for top_p, 0 to 1. For clients 0 means only the best token; for the sampler it means no limit.
func ReadTopP(param string, v *float64, to *float32) error {
	if err := ReadNumber(param, v, 0, 1, to); err != nil || v == nil {
		return err
	}
	*to = max(*to, math.SmallestNonzeroFloat32)
	return nil
}

// ReadSeed reads a whole number of up to 64 bits, signed or unsigned. If there is none, it returns nil.
func ReadSeed(param string, raw json.RawMessage) (*uint64, error) {
	if !Given(raw) {
		return nil, nil
	}
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		seed := uint64(n)
		return &seed, nil
	}
	if n, err := strconv.ParseUint(string(raw), 10, 64); err == nil {
		return &n, nil
	}
	return nil, Invalid(param, "it has to be a whole number from -2^63 to 2^64-1")
}

// The maximum number and length of the texts that end an answer.
const (
	maxStops = 16
	maxStop  = 1024
)

// CheckStops checks the texts that end an answer: at most 16, of 1 to 1,024 bytes each.
func CheckStops(param string, stops []string) error {
	if len(stops) > maxStops {
		return Invalid(param, "there are %d; at most %d are allowed", len(stops), maxStops)
	}
	for i, s := range stops {
		if s == "" || len(s) > maxStop {
			return Invalid(fmt.Sprintf("%s[%d]", param, i), "it has %d bytes; 1 to %d are allowed", len(s), maxStop)
		}
	}
	return nil
}
