package jinja

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"runner/conformance"
)

type conversations struct {
	BOS           string `json:"bos_token"`
	EOS           string `json:"eos_token"`
	Add           bool   `json:"add_generation_prompt"`
	Now           string `json:"strftime_now"`
	Conversations map[string]struct {
		Messages json.RawMessage
		Tools    json.RawMessage
		Kwargs   json.RawMessage
	}
}

func readJSON(t testing.TB, path string, v any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func loadConversations(t testing.TB, dir string) (c conversations, now time.Time) {
	readJSON(t, filepath.Join(dir, "conversations.json"), &c)
	now, err := time.Parse("2006-01-02T15:04:05", c.Now)
	if err != nil {
		t.Fatal(err)
	}
	return c, now
}

func mustJSON(t testing.TB, data []byte, o Origin) Value {
	t.Helper()
	v, err := FromJSON(data, o)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// variables returns the variables with which a conversation is rendered.
func (c conversations) variables(t testing.TB, name string) map[string]Value {
	conv := c.Conversations[name]
	vars := map[string]Value{
		"bos_token":             String(NewText(c.BOS, Trusted)),
		"eos_token":             String(NewText(c.EOS, Trusted)),
		"add_generation_prompt": Bool(c.Add),
		"messages":              mustJSON(t, conv.Messages, Outside),
		"tools":                 None(),
	}
	if conv.Tools != nil {
		vars["tools"] = mustJSON(t, conv.Tools, Outside)
	}
	if conv.Kwargs != nil {
		var kw map[string]json.RawMessage
		if err := json.Unmarshal(conv.Kwargs, &kw); err != nil {
			t.Fatal(err)
		}
		for k, v := range kw {
			vars[k] = mustJSON(t, v, Outside)
		}
	}
	return vars
}

// TestConformance renders 36 chat templates of real models with ten conversations each and compares the output with
// that of jinja2.
func TestConformance(t *testing.T) {
	dir := conformance.Dir(t, "chat_templates")
	convs, now := loadConversations(t, dir)
	files, err := filepath.Glob(filepath.Join(dir, "*.jinja"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no templates: %v", err)
	}
	cases := 0
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".jinja")
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var want map[string]struct{ Rendered, Error *string }
		readJSON(t, strings.TrimSuffix(file, ".jinja")+".expected.json", &want)
		t.Run(name, func(t *testing.T) {
			tmpl, err := Parse(string(src), Options{})
			if err != nil {
				t.Fatal(err)
			}
			for conv, w := range want {
				cases++
				got, err := tmpl.Render(context.Background(), convs.variables(t, conv), RenderOptions{Now: now})
				checkRuns(t, got)
				switch {
				case w.Rendered != nil && err != nil:
					t.Errorf("%s: %v", conv, err)
				case w.Rendered != nil && got.String() != *w.Rendered:
					t.Errorf("%s:\n got %q\nwant %q", conv, got.String(), *w.Rendered)
				case w.Rendered == nil && err == nil:
					t.Errorf("%s: no error; want %s", conv, *w.Error)
				case w.Rendered == nil:
					var e *Error
					if !errors.As(err, &e) {
						t.Fatalf("%s: error of type %T", conv, err)
					}
					if e.Message != *w.Error {
						t.Errorf("%s: error %q; want %q", conv, e.Message, *w.Error)
					}
				}
			}
		})
	}
	if cases < 360 {
		t.Errorf("%d cases; the reference data has at least 360", cases)
	}
}

// checkRuns fails unless the runs of a text cover it exactly and alternate.
func checkRuns(t testing.TB, x Text) {
	t.Helper()
	var b strings.Builder
	last := Origin(255)
	for s, o := range x.Runs() {
		if s == "" || o == last {
			t.Fatalf("runs do not alternate, or one is empty: %d bytes", x.Len())
		}
		b.WriteString(s)
		last = o
	}
	if b.String() != x.String() {
		t.Fatalf("runs do not cover the text of %d bytes", x.Len())
	}
}
