package scan

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
)

// rebuild reads a text and returns its value as encoding/json would decode it.
func rebuild(r *Reader) any {
	switch r.Kind() {
	case '{':
		m := map[string]any{}
		r.Object(func(name []byte) {
			key := string(name)
			m[key] = rebuild(r)
		})
		return m
	case '[':
		list := []any{}
		r.Array(func() { list = append(list, rebuild(r)) })
		return list
	case '"':
		return string(r.String())
	case 't':
		r.word("true")
		return true
	case 'f':
		r.word("false")
		return false
	case 'n':
		r.Null()
		return nil
	}
	return r.Float()
}

// small reports whether a value keeps the reader's limits, which encoding/json does not have.
func small(v any, depth int) bool {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			if len(k) > maxName || !small(x, depth+1) {
				return false
			}
		}
		return depth < maxDepth
	case []any:
		for _, x := range v {
			if !small(x, depth+1) {
				return false
			}
		}
		return depth < maxDepth
	case string:
		return len(v) <= maxName
	}
	return true
}

// FuzzReader compares the reader with encoding/json: both take the same texts and find the same values.
func FuzzReader(f *testing.F) {
	for _, s := range []string{`{"a":[1,-2.5e3,0.1],"b":{"c":null,"d":true,"e":false}}`, `"\u00e9\ud83d\ude42\n"`, `[]`,
		`{}`, ` 1 `, `"\ud800x"`, `01`, `[1,]`, `{"a":1,}`, `"` + strings.Repeat("é", 200) + `"`, "\"\x80\"", `1e999`, `-`,
		strings.Repeat("[", 80) + strings.Repeat("]", 80), `{"a" : "b" , "c":[ ]}`, "\"a\x01\"", `"\q"`, `nul`, `1.`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var want any
		wantErr := json.Unmarshal(data, &want)
		var r Reader
		r.Reset(data)
		r.Skip()
		skipErr := r.End()
		r.Reset(data)
		got := rebuild(&r)
		gotErr := r.End()
		deep := bytes.Count(data, []byte("[")) + bytes.Count(data, []byte("{"))
		if wantErr != nil && !json.Valid(data) && (gotErr == nil || skipErr == nil) {
			t.Fatalf("%q is accepted: %v, %v", data, gotErr, skipErr)
		}
		r.Reset(data)
		if raw := r.Raw(); r.End() == nil && !bytes.Equal(raw, bytes.Trim(data, " \t\r\n")) {
			t.Fatalf("the text of %q is %q", data, raw)
		}
		if json.Valid(data) && skipErr != nil && deep <= maxDepth && bytes.Count(data, []byte(`"`)) == 0 {
			t.Fatalf("%q is not skipped", data)
		}
		if wantErr == nil && small(want, 0) && gotErr != nil && !longNumber(data) {
			t.Fatalf("%q is refused", data)
		}
		if wantErr != nil || gotErr != nil {
			return
		}
		a, _ := json.Marshal(want)
		b, _ := json.Marshal(got)
		if !bytes.Equal(a, b) {
			t.Fatalf("%q: got %s, want %s", data, b, a)
		}
	})
}

// longNumber reports whether a text may have a number that is longer than the reader takes.
func longNumber(data []byte) bool {
	run := 0
	for _, c := range data {
		if c >= '0' && c <= '9' || c == '.' || c == '-' {
			if run++; run > 64 {
				return true
			}
		} else if c != 'e' && c != 'E' && c != '+' {
			run = 0
		}
	}
	return false
}

func TestInt(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "-7": -7, "9223372036854775807": math.MaxInt64} {
		var r Reader
		r.Reset([]byte(text))
		if got := r.Int(); got != want || r.End() != nil {
			t.Errorf("%s: %d, %v", text, got, r.End())
		}
	}
	for _, text := range []string{"1.5", "1e3", "9223372036854775808", "x", "", `"1"`, "00"} {
		var r Reader
		r.Reset([]byte(text))
		r.Int()
		if r.End() == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// TestNoAllocation holds the promise of the package.
func TestNoAllocation(t *testing.T) {
	data := []byte(`{"request_id":"a","choices":[{"index":0,"logprobs":{"content":[{"token_id":7,"logprob":-0.25}]},` +
		`"finish_reason":null,"token_ids":[7,8]}],"usage":null,"text":"a\u00e9\n"}`)
	var r Reader
	ids := make([]int64, 0, 8)
	var p float64
	n := testing.AllocsPerRun(100, func() {
		ids = ids[:0]
		r.Reset(data)
		r.Object(func(name []byte) {
			if string(name) != "choices" {
				r.Skip()
				return
			}
			r.Array(func() {
				r.Object(func(name []byte) {
					switch string(name) {
					case "token_ids":
						r.Array(func() { ids = append(ids, r.Int()) })
					case "index":
						p = r.Float()
					default:
						r.Skip()
					}
				})
			})
		})
		if r.End() != nil {
			t.Fatal("the text is refused")
		}
	})
	if n != 0 || len(ids) != 2 || p != 0 {
		t.Errorf("%v allocations, %v, %v", n, ids, p)
	}
}
