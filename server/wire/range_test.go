package wire

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
)

// ranged has fields with ranges, some of them in other structs.
type ranged struct {
	rangedInside
	Whole   *int64          `json:"whole" api:"[-1..16] default=1"`
	Seed    *uint64         `json:"seed" api:"[0..9007199254740991]"`
	Least   int             `json:"least" api:"[0..]"`
	Integer *float64        `json:"integer" api:"integer[-4..4]"`
	Raw     json.RawMessage `json:"raw" api:"integer[0..1]|string[1..2]"`
	ID      string          `json:"id" api:"[1..4] required"`
	Name    *string         `json:"name" api:"[..4]|null"`
	Word    string          `json:"word" api:"=a,b"`
	Role    *string         `json:"role" api:"=a,b|null"`
	Type    string          `json:"type" api:"=a,b"`
	None    json.RawMessage `json:"none" api:"null" refuse:"say nothing"`
	List0   json.RawMessage `json:"list0" api:"array[..0]|null" refuse:"say nothing"`
	Switch  json.RawMessage `json:"switch" api:"#Switch" refuse:"say nothing"`
	Empty   []string        `json:"empty" api:"array[..0]" refuse:"say nothing"`
	Gap     *string         `json:"gap" api:"[..0]" refuse:"say nothing"`
	List    []string        `json:"list" api:"[..2]string[1..2]"`
	Options struct {
		Small *float64 `json:"small" api:"[0.01..10]"`
	} `json:"options"`
	Other *rangedInside `json:"other"`
}

type rangedInside struct {
	Temperature *float64 `json:"temperature" api:"[0..2]"`
}

// TestRanges checks that numbers and lengths outside of the ranges in the tag api are refused.
func TestRanges(t *testing.T) {
	for body, want := range map[string]string{
		`{}`:                          "",
		`{"temperature":0}`:           "",
		`{"temperature":2}`:           "",
		`{"temperature":null}`:        "",
		`{"temperature":-0.1}`:        "temperature: it takes a number from 0 to 2",
		`{"temperature":2.1}`:         "temperature: it takes a number from 0 to 2",
		`{"whole":-1}`:                "",
		`{"whole":-2}`:                "whole: it takes a whole number from -1 to 16",
		`{"whole":17}`:                "whole: it takes a whole number from -1 to 16",
		`{"seed":9007199254740991}`:   "",
		`{"seed":9007199254740992}`:   "seed: it takes a whole number from 0 to 9007199254740991",
		`{"least":9007199254740992}`:  "",
		`{"least":-1}`:                "least: it takes a whole number of at least 0",
		`{"integer":5}`:               "integer: it takes a number from -4 to 4",
		`{"raw":7}`:                   "",
		`{"raw":"abc"}`:               "",
		`{"id":""}`:                   "",
		`{"id":"abcd"}`:               "",
		`{"id":"abcde"}`:              "id: it has 5 bytes; at most 4 are allowed",
		`{"name":"äöü"}`:              "name: it has 6 bytes; at most 4 are allowed",
		`{"word":"a","role":"b"}`:     "",
		`{"word":"","role":null}`:     "",
		`{"word":"c"}`:                "word: \"c\" is not known; it takes one of a, b",
		`{"role":"c"}`:                "role: \"c\" is not known; it takes one of a, b",
		`{"role":""}`:                 "role: it is missing; it takes one of a, b",
		`{"type":"c"}`:                "", // the readers of a format know more types
		`{"none":null,"empty":[]}`:    "",
		`{"list0":[],"gap":""}`:       "",
		`{"list0":false}`:             "list0: it is not supported here; say nothing",
		`{"switch":false}`:            "",
		`{"switch":[]}`:               "switch: it is not supported here; say nothing",
		`{"none":false}`:              "none: it is not supported here; say nothing",
		`{"none":0}`:                  "none: it is not supported here; say nothing",
		`{"none":"x"}`:                "none: it is not supported here; say nothing",
		`{"empty":["x"]}`:             "empty: it is not supported here; say nothing",
		`{"gap":"x"}`:                 "gap: it is not supported here; say nothing",
		`{"list":["abcdef"]}`:         "",
		`{"options":{"small":0.01}}`:  "",
		`{"options":{"small":0}}`:     "options.small: it takes a number from 0.01 to 10",
		`{"other":{"temperature":3}}`: "", // the handler of such a part checks it
	} {
		var v ranged
		err := Unmarshal([]byte(body), &v)
		var e *Error
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", body, err)
		case want != "" && (!errors.As(err, &e) || e.Error() != want || e.Status != 400):
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
	for _, n := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if param := paramOf(t, inRange(&rangedInside{&n})); param != "temperature" {
			t.Errorf("%v: an error about %q", n, param)
		}
	}
	err := UnmarshalAt("messages[3]", json.RawMessage(`{"id":"`+strings.Repeat("x", 5)+`"}`), new(ranged))
	if param := paramOf(t, err); param != "messages[3].id" {
		t.Errorf("an error about %q", param)
	}
}

// BenchmarkRanges measures what the ranges cost a request.
func BenchmarkRanges(b *testing.B) {
	n, id := 1.0, "name"
	v := &ranged{rangedInside: rangedInside{&n}, Integer: &n, ID: id, Name: &id}
	for b.Loop() {
		if err := inRange(v); err != nil {
			b.Fatal(err)
		}
	}
}
