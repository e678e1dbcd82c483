package lark_test

import (
	"fmt"
	"strings"
	"testing"

	"runner/grammar/expr"
	"runner/grammar/lark"
	"runner/grammar/regex"
)

// matcher returns a function that reports whether a grammar describes a text.
func matcher(t testing.TB, grammar string) func(text string) bool {
	t.Helper()
	pattern, err := lark.Pattern(grammar)
	if err != nil {
		t.Fatalf("%v:\n%s", err, grammar)
	}
	set := expr.NewSet()
	id := regex.MustParse(pattern).Full(set, regex.UTF8)
	return func(text string) bool { return set.Match(id, text) }
}

// patch is a grammar that coding agents send.
const patch = `start: begin_patch hunk+ end_patch
begin_patch: "*** Begin Patch" LF
end_patch: "*** End Patch" LF?

hunk: add_hunk | delete_hunk | update_hunk
add_hunk: "*** Add File: " filename LF add_line+
delete_hunk: "*** Delete File: " filename LF
update_hunk: "*** Update File: " filename LF change_move? change?

filename: /(.+)/
add_line: "+" /(.*)/ LF -> line

change_move: "*** Move to: " filename LF
change: (change_context | change_line)+ eof_line?
change_context: ("@@" | "@@ " /(.+)/) LF
change_line: ("+" | "-" | " ") /(.*)/ LF
eof_line: "*** End of File" LF

%import common.LF
`

// sums is the grammar of a vendor's guide.
const sums = `
start: expr
expr: term (SP ADD SP term)* -> add
    | term
term: factor (SP MUL SP factor)* -> mul
    | factor
factor: INT
SP: " "
ADD: "+"  // a plus
MUL: "*"  # a star
%import common.INT
`

func TestPattern(t *testing.T) {
	for _, c := range []struct {
		grammar  string
		yes, not []string
	}{
		{patch,
			[]string{"*** Begin Patch\n*** Add File: a.txt\n+hello\n+\n*** End Patch\n",
				"*** Begin Patch\n*** Update File: a\n*** Move to: b\n@@ f\n-x\n+y\n z\n*** End of File\n" +
					"*** Delete File: c\n*** End Patch"},
			[]string{"", "*** Begin Patch\n*** End Patch\n", "*** Begin Patch\n*** Add File: \n+x\n*** End Patch"}},
		{sums, []string{"1", "4 + 4", "1 + 2 * 3 + 4"}, []string{"", "1+2", "1 + ", "a"}},
		{`start: "a".."c" ~ 2..3 ["x"] ("y" | )`, []string{"ab", "abcxy", "aay"}, []string{"a", "abcd", "abxx"}},
		{"?start.-1: a\n!a: \"Go\"i \"é\\n.\"", []string{"gOé\n.", "GOé\n."}, []string{"gOé\nx", "Gé"}},
		{"start: X\nX.2: /a\\/[.]./s", []string{"a/.\n"}, []string{"a/xx"}},
		{"start: (\"a\"\n  | \"b\"\n)\n", []string{"a", "b"}, []string{"ab"}},
		{"start: A B\n%import common (LETTER, DIGIT)\n%import common.LETTER -> A\nB: DIGIT", []string{"q7"}, []string{"qq"}},
		{"start: S\n%import common.ESCAPED_STRING -> S", []string{`"a\"b"`, `""`}, []string{`"a`, `"a"b"`}},
		{"start: N\n%import common.SIGNED_NUMBER -> N", []string{"-1", "+2.5e-3", ".5", "7."}, []string{"", "-", "e1"}},
	} {
		matches := matcher(t, c.grammar)
		for _, text := range c.yes {
			if !matches(text) {
				t.Errorf("%q is not described by\n%s", text, c.grammar)
			}
		}
		for _, text := range c.not {
			if matches(text) {
				t.Errorf("%q is described by\n%s", text, c.grammar)
			}
		}
	}
}

func TestRefused(t *testing.T) {
	double := "start: a0\na30: \"x\"\n" // each rule is twice the next
	for i := range 30 {
		double += fmt.Sprintf("a%d: a%d a%d\n", i, i+1, i+1)
	}
	for grammar, want := range map[string]string{
		"start: a\na: \"(\" b \")\"\nb: a | \"x\"": "recursion is not supported: start -> a -> b -> a",
		"start: start \"x\" |":                     "recursion",
		"start: \"a\"\n%ignore \" \"":              "line 2, column 1: %ignore is not supported",
		"%declare X\nstart: X":                     "%declare",
		"start: list{\"a\"}":                       "templates",
		"list{x}: x\nstart: \"a\"":                 "templates",
		"start: X\n%import mine.X":                 "only supported from common",
		"start: X\n%import common.XYZ":             `no terminal "XYZ"`,
		"start: /a/m":                              "flags m",
		"start: /a(?=b)/":                          "line 1",
		"start: \"a":                               "not closed",
		"start: \"\\q\"":                           "escape",
		"start: \"é\"i":                            "flag i",
		"a: \"x\"":                                 "no rule named start",
		"start: b":                                 "b is not defined",
		"start: \"a\"\nstart: \"b\"":               "defined a second time, after line 1",
		"start: \"a\"~3..2":                        "upper bound 2 is below",
		"start: \"a\"~100000":                      "exceeds 1000",
		"start: (\"a\"":                            "the group is not closed",
		"start: \"ab\"..\"c\"":                     "a range",
		"start = \"a\"":                            `expected : after the name of the rule "start", found "="`,
		"":                                         "no rule named start",
		double:                                     "pattern of more than",
		"start: " + strings.Repeat("(", 201) + "\"a\"" + strings.Repeat(")", 201): "nested",
		"start: \"" + strings.Repeat("a", lark.MaxText) + "\"":                    "too long",
	} {
		pattern, err := lark.Pattern(grammar)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.200s\n%v and %.100s, want %s", grammar, err, pattern, want)
		}
	}
}

// Any text becomes a pattern that package regex reads, or an error.
func FuzzPattern(f *testing.F) {
	f.Add(patch)
	f.Add(sums)
	f.Add("start: \"a\".. \"c\"i ~ 2\n%import common (")
	f.Fuzz(func(t *testing.T, text string) {
		pattern, err := lark.Pattern(text)
		if err == nil {
			if _, err := regex.Parse(pattern); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
		} else if err.Error() == "" {
			t.Fatalf("%q: an error without words", text)
		}
	})
}
