package wire

import (
	"encoding/json"
	"strconv"
)

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

// ReadStops reads the texts that end an answer: one text or a list. If there are none, to stays as it is.
func ReadStops(param string, raw json.RawMessage, to *[]string) error {
	stops, err := Texts(param, raw)
	if err != nil {
		return err
	}
	return SetStops(param, stops, to)
}

// SetStops sets to to the texts that end an answer: at most 16, of 1 to 1,024 bytes each. If there are none, to stays
// as it is.
func SetStops(param string, stops []string, to *[]string) error {
	if len(stops) > maxStops {
		return Invalid(param, "there are %d; at most %d are allowed", len(stops), maxStops)
	}
	for i, s := range stops {
		if s == "" || len(s) > maxStop {
			return Invalid(Index(param, i), "it has %d bytes; 1 to %d are allowed", len(s), maxStop)
		}
	}
	if len(stops) > 0 {
		*to = stops
	}
	return nil
}
