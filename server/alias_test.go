package server

import (
	"path"
	"strings"
	"testing"
)

func TestAliases(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"gpt-4o", "gpt-4o", true}, {"gpt-4o", "gpt-4o:latest", true},
		{"gpt-4o", "gpt-4o-mini", false}, {"claude-*", "claude-", true},
		{"claude-*", "claude-sonnet-4:latest", true}, {"claude-*", "anthropic/claude-3", false},
		{"*", "", true}, {"*", "x", true},
		{"*/claude-*-latest", "a/claude-b-latest", true}, {"a*a", "a", false}, {"a*a", "aa", true}, {"a*b*c", "a-b-c", true},
		{"a*b*c", "a-c", false}, {"**", "x", true}, {"a*", "A", false},
	} {
		if got := (&Alias{Pattern: c.pattern}).Matches(c.name); got != c.want {
			t.Errorf("%s of %s: %v", c.name, c.pattern, got)
		}
	}
}

// A pattern with only * as a wildcard matches what the shell's pattern does.
func FuzzAliases(f *testing.F) {
	f.Add("a*b*c", "abc")
	f.Add("**a", "ba")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if strings.ContainsAny(pattern, `?[]\`) || strings.Contains(name, "/") {
			return
		}
		if want, err := path.Match(pattern, name); err == nil && matches(pattern, name) != want {
			t.Errorf("%q and %q: want %v", pattern, name, want)
		}
	})
}
