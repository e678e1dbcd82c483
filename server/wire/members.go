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
		at := skipSpace(object, 0)
		if at == len(object) || object[at] != '{' {
			return
		}
		for at = skipSpace(object, at+1); at < len(object) && object[at] == '"'; {
			end := skipValue(object, at)
			var name string
			if json.Unmarshal(object[at:end], &name) != nil {
				return
			}
			at = skipSpace(object, skipSpace(object, end)+1) // after the colon
			end = skipValue(object, at)
			if !yield(name, bytes.TrimSpace(object[at:end])) {
				return
			}
			at = skipSpace(object, skipSpace(object, end)+1) // after the comma
		}
	}
}

func skipSpace(text []byte, at int) int {
	for at < len(text) && (text[at] == ' ' || text[at] == '\t' || text[at] == '\n' || text[at] == '\r') {
		at++
	}
	return min(at, len(text))
}

// skipValue returns the end of the value at an index.
func skipValue(text []byte, at int) int {
	quoted, open := false, 0
	for ; at < len(text); at++ {
		switch c := text[at]; {
		case quoted && c == '\\':
			at++
		case c == '"':
			if quoted = !quoted; !quoted && open == 0 {
				return at + 1
			}
		case quoted:
		case c == '{' || c == '[':
			open++
		case c == '}' || c == ']':
			if open--; open == 0 {
				return at + 1
			}
			if open < 0 {
				return at
			}
		case c == ',' && open == 0:
			return at
		}
	}
	return min(at, len(text))
}
