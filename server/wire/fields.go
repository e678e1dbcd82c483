package wire

import (
	"encoding/json"
	"strconv"
)

// The readers of fields whose kind of value is not known before. path is the place of a value in the body, and raw its
// JSON text as package json gives it, without space in front. The errors are an *[Error] that names the place.

// Is reports whether a value begins with a byte such as '{', '[' or '"'.
func Is(raw json.RawMessage, first byte) bool { return len(raw) > 0 && raw[0] == first }

// Index returns the path of an entry of a list.
func Index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// Object reads an object into v.
func Object(path string, raw json.RawMessage, v any) error {
	if !Is(raw, '{') {
		return Invalid(path, "it takes an object")
	}
	return UnmarshalAt(path, raw, v)
}

// Text reads a text.
func Text(path string, raw json.RawMessage) (s string, err error) {
	if !Is(raw, '"') {
		return "", Invalid(path, "it takes a string")
	}
	return s, UnmarshalAt(path, raw, &s)
}

// Each reads the objects of a list one after the other. take gets each with its path.
func Each[T any](path string, list []json.RawMessage, take func(path string, v *T) error) error {
	for i, raw := range list {
		var v T
		at := Index(path, i)
		if err := Object(at, raw, &v); err != nil {
			return err
		}
		if err := take(at, &v); err != nil {
			return err
		}
	}
	return nil
}

// List reads a list.
func List(path string, raw json.RawMessage) (list []json.RawMessage, err error) {
	if !Is(raw, '[') {
		return nil, Invalid(path, "it takes a list")
	}
	return list, UnmarshalAt(path, raw, &list)
}

// TextOrEach reads a text, or a list of objects as Each does.
func TextOrEach[T any](path string, raw json.RawMessage, text func(string), take func(path string, v *T) error) error {
	if Is(raw, '"') {
		s, err := Text(path, raw)
		if err == nil {
			text(s)
		}
		return err
	}
	list, err := List(path, raw)
	if err != nil {
		return Invalid(path, "it takes a string or a list of objects")
	}
	return Each(path, list, take)
}

// Texts reads a text or a list of texts. It returns nil if there is neither.
func Texts(path string, raw json.RawMessage) ([]string, error) {
	if !Given(raw) {
		return nil, nil
	}
	if Is(raw, '"') {
		s, err := Text(path, raw)
		return []string{s}, err
	}
	list, err := List(path, raw)
	if err != nil {
		return nil, Invalid(path, "it takes a string or a list of strings")
	}
	texts := make([]string, len(list))
	for i := range list {
		if texts[i], err = Text(Index(path, i), list[i]); err != nil {
			return nil, err
		}
	}
	return texts, nil
}

// Schema reads a JSON Schema of an object. It returns nil if there is none.
func Schema(path string, raw json.RawMessage) (json.RawMessage, error) {
	switch {
	case !Given(raw):
		return nil, nil
	case !Is(raw, '{'):
		return nil, Invalid(path, "it takes a JSON Schema, which is an object")
	}
	return raw, nil
}

// maxID is the maximum length of an id that a client chooses, in bytes.
const maxID = 1024

// CheckID checks an id that a client chooses.
func CheckID(path, id string) error {
	if id == "" {
		return Invalid(path, "it is required")
	}
	if len(id) > maxID {
		return Invalid(path, "it has %d bytes; at most %d are allowed", len(id), maxID)
	}
	return nil
}
