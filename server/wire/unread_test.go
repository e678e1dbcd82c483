package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"runner/generation"
)

type unreadPart struct {
	Depth *int            `json:"depth"`
	Kept  json.RawMessage `json:"kept"`
	List  []unreadKept    `json:"list"`
}

type unreadKept struct {
	Colour string `json:"colour"`
}

// unreadBody is a body with an embedded struct, and with objects in and behind its fields.
type unreadBody struct {
	Unread
	Sampling
	Count  int             `json:"count,omitempty"`
	Part   *unreadPart     `json:"part"`
	Answer json.RawMessage `json:"answer"`
	Free   map[string]any  `json:"free"`
	Own    string          `json:"-"`
}

// Objects implements [Holder].
func (*unreadBody) Objects() map[string]any { return map[string]any{"answer": unreadKept{}} }

// warnedOf decodes a body and returns what it is warned of.
func warnedOf(t *testing.T, body string) Warnings {
	t.Helper()
	var b unreadBody
	if err := Unmarshal([]byte(body), &b); err != nil {
		t.Fatalf("%.200s: %v", body, err)
	}
	var w Warnings
	b.Warn(&w, map[string]string{"Form": "answer", "MaxTokens": "count"})
	return w
}

func TestUnread(t *testing.T) {
	for body, want := range map[string]string{
		`{"temperature":1,"top_p":null,"count":1,"part":{"depth":1,"kept":{"x":1}},"answer":{"colour":"red"}}`: "",
		`{"TEMPERATURE":1,"Count":1,"COUNT":1}`:                "",
		`{"temprature":1}`:                                     "temprature; did you mean temperature?",
		`{"topP":1}`:                                           "topP; did you mean top_p?",
		`{"cuont":1}`:                                          "cuont; did you mean count?",
		`{"Own":"x"}`:                                          "Own",
		`{"-":"x"}`:                                            "-",
		`{"unheard_of":1}`:                                     "unheard_of",
		`{"unheard_of":0}`:                                     "unheard_of",
		`{"unheard_of":false}`:                                 "unheard_of",
		`{"a":null,"b":[],"c":{},"d":""}`:                      "",
		`{"part":{"dept":1,"more":1}}`:                         "part.dept; did you mean depth?, part.more",
		`{"part":{"list":[{"x":1}]},"free":{"x":1}}`:           "",
		`{"answer":{"color":"red"}}`:                           "answer.color; did you mean colour?",
		`{"answer":"color","part":null}`:                       "",
		`{"response_format":{"type":"text"}}`:                  "response_format; use answer",
		`{"text":{"format":{}, "verbosity":"low"}}`:            "text.verbosity",
		`{"text":{"format":{"type":"json_object"}}}`:           "text.format; use answer",
		`{"text":{"text":{"text":1}}}`:                         "text.text",
		`{"options":{"max_tokens":9},"max_tokens":9}`:          "options.max_tokens; use count, max_tokens; use count",
		`{"mirostat":0.0,"best_of":1,"typical_p":1,"typ_p":1}`: "",
		`{"mirostat":2,"best_of":2}`:                           "mirostat, best_of",
		`{"user":"u","Metadata":{"a":"b"},"dry_base":1.75}`:    "",
		`{"forwardedProps":{"config":1},"config":1}`:           "forwardedProps, config",
		`{"unheard_of":1,"unheard_of":2,"Unheard_of":3}`:       "unheard_of, Unheard_of",
		`{"` + strings.Repeat("x", 5000) + `":1}`:              strings.Repeat("x", 64) + "...",
	} {
		var got []string
		for _, w := range warnedOf(t, body) {
			if w.Code != CodeIgnored {
				t.Errorf("%.200s: code %s", body, w.Code)
			}
			got = append(got, strings.Replace(w.Message, ": this field is not known here and has no effect", "", 1))
		}
		if all := strings.Join(got, ", "); all != want {
			t.Errorf("%.200s: %q, want %q", body, all, want)
		}
	}
	if w := warnedOf(t, `null`); len(w) > 0 {
		t.Errorf("null: %v", w)
	}
}

// However many fields are unknown, few warnings say so.
func TestUnreadIsBounded(t *testing.T) {
	var body strings.Builder
	body.WriteString(`{"count":1`)
	for i := range 100_000 {
		fmt.Fprintf(&body, `,"field%d":1`, i)
	}
	body.WriteString(`,"part":{"x":1}}`)
	w := warnedOf(t, body.String())
	if last := w[len(w)-1].Message; len(w) != maxUnread+1 ||
		last != "99993 more fields are not known here and have no effect" {
		t.Errorf("%d warnings, the last is %q", len(w), last)
	}
}

// Fields whose names are in several lines of the table would mean two things.
func TestElsewhereSaysOneThing(t *testing.T) {
	seen := map[string]bool{}
	for line := range strings.Lines(elsewhere) {
		fields := strings.Fields(line)
		for i, f := range fields {
			name, _, _ := strings.Cut(f, "=")
			if i > 0 && seen[name] || i > 0 && name != strings.ToLower(name) {
				t.Errorf("%q is there twice, or not in lower case", name)
			}
			seen[name] = seen[name] || i > 0
		}
		if len(fields) > 0 && !slices.Contains([]string{"silent", "object", "nothing"}, fields[0]) {
			_ = setting(&generation.Request{}, fields[0]).Type() // panics if there is none
		}
	}
}

// A body is warned of only if a strict reader refuses it, and then with few warnings.
func FuzzUnread(f *testing.F) {
	for _, body := range []string{
		`{"temprature":1}`, `{"Count":1,"ſount":2,"\u0063ount":3}`, `{"part":{"depth":1,"x":2},"free":{"y":1}}`,
		`{"part":{"list":[{"z":1}]},"text":{"format":{"a":1}}}`, `{"":1,"-":2,"Unread":{"members":[]}}`, `null`, `[]`,
		`{"temperature":0.5,"TopP":1,"top_p":1}`, `{"options":{"options":{"options":{}}}}`, `{"min_p" : 1 , "K":1}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var b unreadBody
		if Unmarshal(body, &b) != nil {
			return
		}
		var w Warnings
		b.Warn(&w, nil)
		if len(w) > maxUnread+1 {
			t.Fatalf("%q: %d warnings", body, len(w))
		}
		strict := json.NewDecoder(bytes.NewReader(body))
		strict.DisallowUnknownFields()
		var again struct {
			unreadBody
			Answer unreadKept `json:"answer"`
		}
		if err := strict.Decode(&again); err == nil && len(w) > 0 {
			t.Fatalf("%q: every field is known, and it is warned of %v", body, w)
		}
	})
}
