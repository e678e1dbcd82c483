package jinja

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"reflect"
	"sort"
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
	if err != nil {
		return nil, fmt.Errorf("jinja: value from JSON: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("jinja: value from JSON: text after the value at offset %d", dec.InputOffset())
	}
	return v, nil
}

func decode(dec *json.Decoder, o Origin, depth int) (Value, error) {
	if depth > maxInputDepth {
		return nil, fmt.Errorf("nests more than %d deep", maxInputDepth)
	}
	tok, err := dec.Token()
	if err != nil {
		var se *json.SyntaxError
		if errors.As(err, &se) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, fmt.Errorf("not valid at offset %d", dec.InputOffset())
		}
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
			if _, err := dec.Token(); err != nil {
				return nil, fmt.Errorf("not valid at offset %d", dec.InputOffset())
			}
			return &listValue{items: items}, nil
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
		if _, err := dec.Token(); err != nil {
			return nil, fmt.Errorf("not valid at offset %d", dec.InputOffset())
		}
		return d, nil
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
	if !bytes.ContainsAny([]byte(s), ".eE") {
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

// FromGo converts a Go value: nil, booleans, numbers, strings (which get origin o), Text, Value, json.RawMessage,
// json.Number, slices, arrays, and maps with string keys. Keys of maps are sorted, because Go's maps have no order; use
// Dict, FromJSON or a slice of Entry to set an order. Other types are an error.
func FromGo(v any, o Origin) (Value, error) { return fromGo(v, o, 0) }

func fromGo(v any, o Origin, depth int) (Value, error) {
	if depth > maxInputDepth {
		return nil, fmt.Errorf("jinja: value nests more than %d deep", maxInputDepth)
	}
	switch v := v.(type) {
	case nil:
		return noneValue{}, nil
	case Value:
		return v, nil
	case Text:
		return text(v), nil
	case string:
		return str(v, o), nil
	case json.RawMessage:
		return FromJSON(v, o)
	case json.Number:
		return fromNumber(v)
	case []Entry:
		return Dict(o, v...), nil
	}
	rv := reflect.ValueOf(v)
	switch rv.Kind() {
	case reflect.Bool:
		return boolValue(rv.Bool()), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return intValue(rv.Int()), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return bigInt(new(big.Int).SetUint64(rv.Uint())), nil
	case reflect.Float32, reflect.Float64:
		return floatValue(rv.Float()), nil
	case reflect.String:
		return str(rv.String(), o), nil
	case reflect.Slice, reflect.Array:
		items := make([]Value, rv.Len())
		for i := range items {
			it, err := fromGo(rv.Index(i).Interface(), o, depth+1)
			if err != nil {
				return nil, err
			}
			items[i] = it
		}
		return &listValue{items: items}, nil
	case reflect.Map:
		if rv.Type().Key().Kind() != reflect.String {
			break
		}
		keys := rv.MapKeys()
		sort.Slice(keys, func(i, j int) bool { return keys[i].String() < keys[j].String() })
		d := newDict(len(keys))
		for _, k := range keys {
			it, err := fromGo(rv.MapIndex(k).Interface(), o, depth+1)
			if err != nil {
				return nil, err
			}
			d.set(str(k.String(), o), it)
		}
		return d, nil
	}
	return nil, fmt.Errorf("jinja: a template cannot use a value of type %T", v)
}
