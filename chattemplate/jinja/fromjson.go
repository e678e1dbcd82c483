package jinja

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strings"
)

// maxInputDepth limits how deep values from the caller may nest.
const maxInputDepth = 128

// maxNumberLen limits the length of a number in JSON, in bytes.
const maxNumberLen = 4096

// FromJSON returns the value of a JSON text. Objects keep the order of their keys. All strings, keys included, get
// origin o. Numbers without fraction and exponent are integers of any size.
func FromJSON(data []byte, o Origin) (Value, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	v, err := decode(dec, o, 0)
	if err == nil {
		if _, end := dec.Token(); !errors.Is(end, io.EOF) {
			err = errors.New("text after the value")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("jinja: value from JSON at offset %d: %w", dec.InputOffset(), err)
	}
	return v, nil
}

func decode(dec *json.Decoder, o Origin, depth int) (Value, error) {
	if depth > maxInputDepth {
		return nil, fmt.Errorf("nests more than %d deep", maxInputDepth)
	}
	tok, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch tok := tok.(type) {
	case json.Delim:
		if tok == '[' {
			var items []Value
			for dec.More() {
				v, err := decode(dec, o, depth+1)
				if err != nil {
					return nil, err
				}
				items = append(items, v)
			}
			_, err := dec.Token()
			return &listValue{items: items}, err
		}
		d := newDict(0)
		for dec.More() {
			key, err := decode(dec, o, depth+1)
			if err != nil {
				return nil, err
			}
			v, err := decode(dec, o, depth+1)
			if err != nil {
				return nil, err
			}
			d.set(key, v)
		}
		_, err := dec.Token()
		return d, err
	case json.Number:
		return fromNumber(tok)
	case string:
		return str(tok, o), nil
	case bool:
		return boolValue(tok), nil
	}
	return noneValue{}, nil
}

func fromNumber(n json.Number) (Value, error) {
	s := string(n)
	if len(s) > maxNumberLen {
		return nil, fmt.Errorf("a number of %d characters; at most %d", len(s), maxNumberLen)
	}
	if i, err := n.Int64(); err == nil {
		return intValue(i), nil
	}
	if !strings.ContainsAny(s, ".eE") {
		if i, ok := new(big.Int).SetString(s, 10); ok {
			return bigInt(i), nil
		}
	}
	f, err := n.Float64()
	if err != nil && f == 0 {
		return nil, errors.New("not a number")
	}
	return floatValue(f), nil
}
