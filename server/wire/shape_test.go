package wire

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// shaped has fields with limits, one of them in an embedded struct.
type shaped struct {
	embedded
	List   json.RawMessage    `json:"list" max:"3"`
	Object map[string]float64 `json:"object" max:"2"`
	Free   json.RawMessage    `json:"free"`
}

type embedded struct {
	Stop []string `json:"stop" max:"2"`
}

// TestEntriesAreCountedBeforeDecoding checks that a field with too many entries is refused, however the body is
// written. Commas in strings and entries of other lists do not count.
func TestEntriesAreCountedBeforeDecoding(t *testing.T) {
	for body, param := range map[string]string{
		`{"list":[1,2,3]}`:                             "",
		`{"list":[1,2,3,4]}`:                           "list",
		`{"LIST":[1,2,3,4]}`:                           "list",
		`{"li\u0073t":[1,2,3,4]}`:                      "list",
		`{"list":["a,b,c","d,e,f",{"x":[1,2,3,4,5]}]}`: "",
		`{"list":[[1,2],[3,4],[5,6],[7]]}`:             "list",
		`{"list":[[],[],[],[]]}`:                       "list",
		`{"list":[]}`:                                  "",
		`{"list":[ ]}`:                                 "",
		`{"list":"a,b,c,d,e"}`:                         "",
		`{"list":["a\",b",",","\\",",\\\""]}`:          "list",
		`{"list":["a\",b",",","\\"]}`:                  "",
		`{"free":[1,2,3,4,5,6],"list":[1]}`:            "",
		`{"free":{"list":[1,2,3,4,5]}}`:                "",
		`{"object":{"a":1,"b":2}}`:                     "",
		`{"object":{"a":1,"b":2,"c":3}}`:               "object",
		`{"object":{"a":1,"a":2,"a":3}}`:               "object",
		`{"stop":["a","b"]}`:                           "",
		`{"stop":["a","b","c"]}`:                       "stop",
		`{"stop":["a"],"stop":["b","c"]}`:              "stop",
	} {
		var v shaped
		err := ReadJSON(httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)), &v)
		var e *Error
		if got := errors.As(err, &e); got != (param != "") || got && (e.Param != param || e.Status != http.StatusBadRequest) {
			t.Errorf("%s: %v", body, err)
		}
		if v.List != nil && param != "" {
			t.Errorf("%s: it was decoded", body)
		}
	}
}

// TestEntriesAreThoseOfTheDecoder compares with package json on random values.
func TestEntriesAreThoseOfTheDecoder(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var value func(depth int) any
	value = func(depth int) any {
		n := rng.IntN(6)
		switch kind := rng.IntN(7); {
		case kind < 2 && depth > 0:
			list := make([]any, n)
			for i := range list {
				list[i] = value(depth - 1)
			}
			return list
		case kind < 4 && depth > 0:
			object := map[string]any{}
			for range n {
				object[string([]rune(`"\,:[]{}aä`)[rng.IntN(10)])+string(rune('a'+len(object)))] = value(depth - 1)
			}
			return object
		case kind < 6:
			return strings.Repeat(`\",[{`, n)
		}
		return nil
	}
	for range 5000 {
		v := value(4)
		want := 0
		switch v := v.(type) {
		case []any:
			want = len(v)
		case map[string]any:
			want = len(v)
		}
		raw, err := json.MarshalIndent(v, "", strings.Repeat(" ", rng.IntN(3)))
		if err != nil {
			t.Fatal(err)
		}
		if got := entries(raw); got != want {
			t.Fatalf("%s: %d entries, want %d", raw, got, want)
		}
		body := []byte(`{"a":[1,2],"f":` + string(raw) + `,"b":{"f":[1]}}`)
		if got := look(body, map[string]int{"f": 0}).entries["f"]; got != want {
			t.Fatalf("%s: %d entries of f, want %d", body, got, want)
		}
	}
}

// FuzzShape checks that counting the entries of any body works, and gives the same number as the decoder.
func FuzzShape(f *testing.F) {
	for _, seed := range []string{`{"list":[1,{"a":"\""}]}`, `{"a`, `"`, `\`, `{"list":"`, `[[[`, `]]}`,
		`{"list":[1,2],"x\`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got := look(body, map[string]int{"list": 0}).entries["list"]
		_ = entries(body)
		var v struct{ List []json.RawMessage }
		if json.Unmarshal(body, &v) == nil && len(v.List) > got {
			t.Errorf("%q: %d entries, and %d are decoded", body, got, len(v.List))
		}
	})
}
