package grammar_test

import (
	"context"
	"strings"
	"testing"

	"runner/grammar"
)

func TestFollowerSaysWhatMayComeNext(t *testing.T) {
	f, err := grammar.NewFollower(context.Background(), grammar.JSONSchema([]byte(
		`{"type":"object","properties":{"n":{"enum":[12,"é"]}},"required":["n"],"additionalProperties":false}`)))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		piece, has, lacks string
		end               bool
	}{
		{"", "{", "a}", false}, {`{"n`, `"`, "n{", false}, {`":`, `1"`, "2", false}, {"1", "2", "1}", false},
		{"2", "}", "3", false}, {"}", "", "}", true},
	} {
		f.Write(step.piece)
		ascii, _, end := f.Next()
		for _, c := range step.has {
			if !strings.ContainsRune(ascii, c) {
				t.Errorf("after %q: %q, without %q", step.piece, ascii, c)
			}
		}
		if strings.ContainsAny(ascii, step.lacks) || end != step.end {
			t.Errorf("after %q: %q, end %v", step.piece, ascii, end)
		}
	}
	f.Write("?")
	if ascii, other, end := f.Next(); ascii != "" || other || end {
		t.Errorf("after a wrong byte: %q", ascii)
	}
}
