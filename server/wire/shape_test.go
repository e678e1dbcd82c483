package wire

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
)

// shaped has fields with limits, one of them in an embedded struct.
type shaped struct {
	embedded
	List   json.RawMessage    `json:"list" api:"string|[..3]integer[0..1]"`
	Object map[string]float64 `json:"object" api:"[..2]"`
	Free   json.RawMessage    `json:"free"`
}

type embedded struct {
	Stop []string `json:"stop" api:"[..2]string[1..9] required"`
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

// TestPartsHaveLimits checks that the limits of a part of a body count too, and that its path is in the error.
func TestPartsHaveLimits(t *testing.T) {
	var v shaped
	var e *Error
	err := UnmarshalAt("messages[0]", json.RawMessage(`{"list":[1,2,3,4]}`), &v)
	if !errors.As(err, &e) || e.Param != "messages[0].list" || v.List != nil {
		t.Errorf("%v, and %s was decoded", err, v.List)
	}
	if err := UnmarshalAt("messages[0]", json.RawMessage(`{"list":[1,2,3]}`), &v); err != nil {
		t.Error(err)
	}
}

// TestLimitsOfTags checks that the maximum number of entries is read from the tag that declares the field.
func TestLimitsOfTags(t *testing.T) {
	type tagged struct {
		Length   string          `api:"[1..5] required"`
		Range    *float64        `api:"[0..5]"`
		Text     string          `api:"string[..5]|null"`
		Values   []int           `api:"[]integer[0..5]"`
		AtLeast  []string        `api:"[1..]"`
		Word     string          `api:"=5,[..5]"`
		None     json.RawMessage `json:"none"`
		List3    []string        `api:"[..3] required"`
		Texts3   []string        `api:"[1..3]string[1..5] deprecated"`
		Map3     map[string]any  `api:"{}[..3]"`
		Bare3    map[string]any  `api:"[..3]"`
		Union3   json.RawMessage `api:"string[1..5]|[..3]string[1..5]"`
		Or3      json.RawMessage `api:"[..3]#Part|null"`
		Named3   json.RawMessage `api:"#Biases[..3]"`
		Empty    []string        `api:"array[..0]"`
		Forbids3 json.RawMessage `api:"array[..3]|null"`
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[tagged]()) {
		want := 0
		switch {
		case strings.HasSuffix(f.Name, "3"):
			want = 3
		case f.Name == "Empty":
			want = emptyEntries
		}
		if most, ok := entryLimit(f); most != want || ok != (want > 0) {
			t.Errorf("%s has at most %d entries, %v; want %d", f.Name, most, ok, want)
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
		var v struct{ List []json.RawMessage }
		if json.Unmarshal(body, &v) == nil && len(v.List) > got {
			t.Errorf("%q: %d entries, and %d are decoded", body, got, len(v.List))
		}
	})
}
