package gbnf

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"runner/grammar/expr"
)

// FuzzParse reads any text as a grammar. The place of an error must be inside the text. A grammar must allow a first
// byte or the end.
func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.gbnf")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text), "a")
	}
	for _, text := range []string{
		`root ::= <[1]> | !<x>`, "root ::= (\"a\"\r\n|[^b-\\U0001F600]){2,3}*", "a ::= root?\nroot ::= a \"\\x41\"",
		"root ::= \"b\" | \"b\" root{1,3}",
	} {
		f.Add(text, "bbb")
	}
	f.Fuzz(func(t *testing.T, source, text string) {
		g, err := Parse(source)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Problem == "" || strings.ContainsAny(e.Error(), "\n\x00") {
				t.Fatalf("%q", err)
			}
			if e.Line < 0 || e.Line > 1+strings.Count(source, "\n")+strings.Count(source, "\r") || e.Column > 1+len(source) {
				t.Fatalf("%v is outside the text", e)
			}
			return
		}
		if len(source) > 1000 {
			return // what follows takes long for some large grammars
		}
		s := expr.NewSet()
		at := g.Expr(s)
		for i := 0; ; i++ {
			dead := !s.Nullable(at)
			for b := range 256 {
				dead = dead && s.Derive(at, byte(b)) == expr.Empty
			}
			if dead {
				t.Fatalf("%q leads nowhere in %q", text[:i], source)
			}
			if i == min(len(text), 8) || s.Len() > 10_000 {
				return
			}
			if at = s.Derive(at, text[i]); at == expr.Empty {
				return
			}
		}
	})
}
