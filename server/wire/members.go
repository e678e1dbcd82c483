package wire

import (
	"bytes"
	"encoding/json"
	"iter"
)

// Members yields the names of a JSON object's fields and the JSON text of their values, in one pass and without
// decoding the values. object must be valid JSON. If it is not an object, Members yields nothing.
func Members(object []byte) iter.Seq2[string, json.RawMessage] {
	return func(yield func(string, json.RawMessage) bool) {
		rest := bytes.TrimLeft(object, " \t\r\n")
		if !Is(rest, '{') {
			return
		}
		for {
			quote := bytes.IndexByte(rest, '"')
			if quote < 0 {
				return
			}
			end, _ := closing(rest, quote, quote+1)
			key, value, _ := bytes.Cut(rest[end:], []byte(":"))
			var name string
			if json.Unmarshal(rest[quote:end+len(key)], &name) != nil {
				return
			}
			end = valueEnd(value)
			if !yield(name, bytes.TrimSpace(value[:end])) {
				return
			}
			rest = value[end:]
		}
	}
}

// valueEnd returns the index of the comma or the bracket that follows the value at the beginning of a text.
func valueEnd(text []byte) int {
	open := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			i, _ = closing(text, i, i+1)
		case c == '{' || c == '[':
			open++
		case open == 0 && (c == ',' || c == '}' || c == ']'):
			return i
		case c == '}' || c == ']':
			open--
		}
	}
	return len(text)
}
