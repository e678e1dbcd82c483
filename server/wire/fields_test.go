package wire

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// Readers of fields name the place of what is wrong.
func TestFieldsNameTheirPlace(t *testing.T) {
	type part struct {
		Text string `json:"text"`
		N    int    `json:"n" api:"[0..9]"`
	}
	read := func(kind, raw string) (string, error) {
		var got []string
		say := func(s string) { got = append(got, s) }
		take := func(path string, p *part) error {
			if p.Text == "" {
				return Invalid(path+".text", "it is missing")
			}
			say(path + "=" + p.Text)
			return nil
		}
		var err error
		switch value := json.RawMessage(raw); kind {
		case "object":
			var p part
			err = Object("f", value, &p)
			say(p.Text)
		case "text":
			var s string
			s, err = Text("f", value)
			say(s)
		case "each":
			var list []json.RawMessage
			if list, err = List("f", value); err == nil {
				err = Each("f", list, take)
			}
		case "text or each":
			err = TextOrEach("f", value, say, take)
		case "texts":
			got, err = Texts("f", value)
		case "schema":
			var s json.RawMessage
			s, err = Schema("f", value)
			say(string(s))
		}
		return strings.Join(got, ","), err
	}
	for _, c := range []struct{ kind, raw, want, param string }{
		{"object", `{"text":"a"}`, "a", ""}, {"object", `[]`, "", "f"}, {"object", ``, "", "f"},
		{"object", `{"text":1}`, "", "f.text"}, {"object", `{"n":10}`, "", "f.n"},
		{"text", `"a\n"`, "a\n", ""}, {"text", `1`, "", "f"}, {"text", `null`, "", "f"},
		{"each", `[{"text":"a"},{"text":"b"}]`, "f[0]=a,f[1]=b", ""}, {"each", `[{"text":"a"},{}]`, "f[0]=a", "f[1].text"},
		{"each", `[1]`, "", "f[0]"}, {"each", `[{"text":[]}]`, "", "f[0].text"}, {"each", `{}`, "", "f"},
		{"each", `[]`, "", ""},
		{"text or each", `"a"`, "a", ""}, {"text or each", `[{"text":"a"}]`, "f[0]=a", ""}, {"text or each", `7`, "", "f"},
		{"text or each", `[null]`, "", "f[0]"}, {"text or each", ``, "", "f"},
		{"texts", `"a"`, "a", ""}, {"texts", `["a","b"]`, "a,b", ""}, {"texts", `["a",1]`, "", "f[1]"},
		{"texts", `{}`, "", "f"}, {"texts", `null`, "", ""}, {"texts", ``, "", ""},
		{"schema", `{"a":1}`, `{"a":1}`, ""}, {"schema", `null`, "", ""}, {"schema", `[]`, "", "f"},
		{"schema", `true`, "", "f"},
	} {
		got, err := read(c.kind, c.raw)
		if param := paramOf(t, err); param != c.param || err == nil && got != c.want {
			t.Errorf("%s %s: %q, %v; want %q, %q", c.kind, c.raw, got, err, c.want, c.param)
		}
	}
}

func TestCheckID(t *testing.T) {
	for id, ok := range map[string]bool{"": false, "a": true, strings.Repeat("a", maxID): true,
		strings.Repeat("a", maxID+1): false} {
		if err := CheckID("f", id); (err == nil) != ok {
			t.Errorf("%d bytes: %v", len(id), err)
		}
	}
}

func TestStops(t *testing.T) {
	for raw, param := range map[string]string{`"a"`: "", `["a","b"]`: "", `["a",""]`: "f[1]", `""`: "f[0]", `7`: "f",
		`["` + strings.Repeat("a", maxStop+1) + `"]`: "f[0]", `[` + strings.Repeat(`"a",`, maxStops) + `"a"]`: "f"} {
		var got []string
		if err := ReadStops("f", json.RawMessage(raw), &got); paramOf(t, err) != param || (err == nil) != (got != nil) {
			t.Errorf("%.20s: %q, %v", raw, got, err)
		}
	}
	got := []string{"kept"}
	for _, raw := range []string{``, `null`, `[]`} {
		if err := ReadStops("f", json.RawMessage(raw), &got); err != nil || !slices.Equal(got, []string{"kept"}) {
			t.Errorf("%q: %q, %v", raw, got, err)
		}
	}
}
