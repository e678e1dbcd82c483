package wire

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
)

// Members finds the same members as package json.
func FuzzMembers(f *testing.F) {
	for _, text := range []string{
		`{}`, `null`, `3`, `[{"a":1}]`,
		` { "a" : 1 , "b":"x,}\"" ,"c":[{"d":2},3],"\u0061b": null, "e":{"f":[]} } `, `{"":""}`,
		`{"a":"\\","b":{"c":"]"}}`, `"text"`, `{"a":true}`, `{"a":-1.5e3}`, `{"a"`, `{"a":`, `{"a":1,`, `{"`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var want map[string]json.RawMessage
		valid := json.Valid(text)
		got := map[string]json.RawMessage{}
		for name, value := range Members(text) { // must end for any text
			got[name] = value
		}
		if !valid || json.Unmarshal(text, &want) != nil {
			return
		}
		if len(got) != len(want) {
			t.Fatalf("%q: %q, want %q", text, got, want)
		}
		for name, value := range want {
			var a, b any
			if json.Unmarshal(value, &a) != nil || json.Unmarshal(got[name], &b) != nil || !reflect.DeepEqual(a, b) ||
				!bytes.Equal(bytes.TrimSpace(value), got[name]) {
				t.Fatalf("%q: %s is %q, want %q", text, name, got[name], value)
			}
		}
	})
}
