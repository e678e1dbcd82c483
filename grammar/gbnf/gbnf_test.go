package gbnf

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"runner/grammar/expr"
	"runner/grammar/notation"
)

// TestGolden matches the texts of testdata/*.texts with the grammar of the same name. They are quoted and marked + or
// -.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.gbnf")
	if err != nil || len(files) < 7 {
		t.Fatalf("%d grammars, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".gbnf"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			texts, err := os.ReadFile(strings.TrimSuffix(file, ".gbnf") + ".texts")
			if err != nil {
				t.Fatal(err)
			}
			for _, breaks := range []string{"\n", "\r\n", "\r"} {
				g, err := Parse(strings.ReplaceAll(string(text), "\n", breaks))
				if err != nil {
					t.Fatal(err)
				}
				s := expr.NewSet()
				root := g.Expr(s)
				count := [2]int{}
				for line := range strings.Lines(string(texts)) {
					text, err := strconv.Unquote(strings.TrimSpace(line[1:]))
					if err != nil {
						t.Fatalf("%s: %v", line, err)
					}
					want := line[0] == '+'
					if got := s.Match(root, text); got != want {
						t.Errorf("%q: matches: %v", text, got)
					}
					count[strings.IndexByte("+-", line[0])]++
				}
				if count[0] < 2 || count[1] < 2 {
					t.Errorf("only %d texts that match and %d that do not", count[0], count[1])
				}
			}
		})
	}
}

func TestErrors(t *testing.T) {
	deep := func(n int) string { return "root ::= " + strings.Repeat("(", n) + `"a"` + strings.Repeat(")", n) }
	for _, c := range []struct{ text, want string }{
		{``, `grammar: there is no rule named root`},
		{"# nothing\n", `grammar: there is no rule named root`},
		{`a ::= "x"`, `grammar: there is no rule named root`},
		{`root ::= a`, `grammar: line 1, column 10: rule "a" is not defined`},
		{"root ::= \"x\"\n  a ::= b{0} \"é\" b", `grammar: line 2, column 9: rule "b" is not defined`},
		{`root ::= root "x" | "y"`, `grammar: line 1, column 1: rule "root" begins with itself: root → root`},
		{"root ::= a\na ::= \"x\"? b\nb ::= \"y\"* (\"z\" | a)",
			`grammar: line 2, column 1: rule "a" begins with itself: a → b → a`},
		{"root ::= a\na ::= b? c* (b | c){0} a\nb ::= \"b\" |\"\"\nc ::= b b",
			`grammar: line 2, column 1: rule "a" begins with itself: a → a`},
		{`root ::= "x" root`,
			`grammar: line 1, column 1: rule "root" matches no finite text, because every alternative recurses without end`},
		{"root ::= a | b\na ::= \"x\" b\nb ::= \"y\" a{1,2}",
			`grammar: line 1, column 1: rule "root" matches no finite text, because every alternative recurses without end`},
		{"root ::= \"a\"\nroot ::= \"b\"", `grammar: line 2, column 1: rule "root" is defined a second time, after line 1`},
		{`root = "a"`, `grammar: line 1, column 6: expected ::= after the name of the rule "root", found "="`},
		{`my_root ::= "a"`, `grammar: line 1, column 3: names consist of letters, digits and dashes`},
		{`root ::= a_b`, `grammar: line 1, column 11: names consist of letters, digits and dashes`},
		{"root ::= \"a\"\n  | \"b\"", `grammar: line 2, column 3: expected the name of a rule, found "|"`},
		{`root ::= "a" )`, `grammar: line 1, column 14: there is no group for ) to close`},
		{`root ::= ("a"`, `grammar: line 1, column 10: the group is not closed`},
		{"root ::= (\"a\"\nb ::= \"b\"", `grammar: line 1, column 10: the group is not closed`},
		{`root ::= a b ::= "b"`, `grammar: line 1, column 14: expected the end of the rule before the name of the next one`},
		{`root ::= "a" & "b"`, `grammar: line 1, column 14: unexpected "&"`},
		{`root ::= *`, `grammar: line 1, column 10: there is nothing before "*" to repeat`},
		{`root ::= ("a" | +)`, `grammar: line 1, column 17: there is nothing before "+" to repeat`},
		{`root ::= "a"{,3}`, `grammar: line 1, column 14: expected a number, found ","`},
		{`root ::= "a"{3,2}`, `grammar: line 1, column 13: the repetition's upper bound 2 is below its lower bound 3`},
		{`root ::= "a"{3;`, `grammar: line 1, column 15: expected } after the bounds of a repetition, found ";"`},
		{`root ::= "a"{3`,
			`grammar: line 1, column 15: expected } after the bounds of a repetition, found the end of the text`},
		{"root ::= \"a\"{3\n}",
			`grammar: line 1, column 15: expected } after the bounds of a repetition, found the end of the line`},
		{`root ::= "a"{0,100001}`, `grammar: line 1, column 16: the repetition exceeds 100000`},
		{`root ::= "a"{99999999999999999999999}`, `grammar: line 1, column 14: the repetition exceeds 100000`},
		{`root ::= "a`, `grammar: line 1, column 10: the literal is not closed`},
		{`root ::= "a\"`, `grammar: line 1, column 10: the literal is not closed`},
		{`root ::= "a\`, `grammar: line 1, column 12: unknown escape`},
		{`root ::= "\d"`, `grammar: line 1, column 11: unknown escape`},
		{`root ::= [\-]`, `grammar: line 1, column 11: unknown escape`},
		{`root ::= "\x4"`, `grammar: line 1, column 11: the escape needs 2 hexadecimal digits`},
		{`root ::= "\u12"`, `grammar: line 1, column 11: the escape needs 4 hexadecimal digits`},
		{`root ::= "\U00110000"`, `grammar: line 1, column 11: U+110000 is not a code point`},
		{`root ::= "\uD83D\uDE00"`, `grammar: line 1, column 11: U+D83D is half of a pair and no character of its own`},
		{`root ::= [a`, `grammar: line 1, column 10: the character class is not closed`},
		{`root ::= [a-`, `grammar: line 1, column 10: the character class is not closed`},
		{`root ::= []`, `grammar: line 1, column 10: the character class is empty`},
		{`root ::= [^]`, `grammar: line 1, column 10: the character class is empty`},
		{`root ::= [z-a]`, `grammar: line 1, column 11: the range's ends are swapped: U+007A is above U+0061`},
		{`root ::= [\ud800-\udfff]`, `grammar: line 1, column 10: no character is in the class`},
		{`root ::= [^\x00-\U0010ffff]`, `grammar: line 1, column 10: no character is in the class`},
		{`root ::= "é" <[1000]>`, `grammar: line 1, column 14: token references are not supported`},
		{`root ::= !<|end|> "a"`, `grammar: line 1, column 10: token references are not supported`},
		{"root ::= \"\xff\"", `grammar: line 1, column 11: the text is not valid UTF-8`},
		{"root ::= \"\x00\"", `grammar: line 1, column 11: the text contains a NUL character`},
		{"root ::= \"a\"\r\n\r\n\r=", `grammar: line 4, column 1: expected the name of a rule, found "="`},
		{deep(notation.MaxNesting), ""},
		{deep(notation.MaxNesting + 1), `grammar: line 1, column 210: groups are nested more than 200 deep`},
		{`root ::= "a"` + strings.Repeat("+", 2000),
			`grammar: line 1, column 813: repetitions and groups are nested too deep`},
		{"root ::= " + strings.Repeat(`"a"`, notation.MaxSymbols+1),
			`grammar: line 1, column 600013: there are more than 200000 symbols`},
		{"root ::= [" + strings.Repeat(`a`, notation.MaxSymbols+1) + `] "b"`,
			`grammar: line 1, column 200014: there are more than 200000 symbols`},
		{strings.Repeat(" ", MaxText+1), `grammar: the text is too long`},
	} {
		_, err := Parse(c.text)
		if c.want == "" {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		short := c.text[:min(len(c.text), 60)]
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%q: %v", short, err)
		} else if e.Error() != c.want {
			t.Errorf("%q:\n got  %v\n want %s", short, err, c.want)
		}
	}
}

// TestTooManyRules has as many rules as mentions.
func TestTooManyRules(t *testing.T) {
	var b strings.Builder
	b.WriteString("root ::= ")
	for i := range notation.MaxRules {
		b.WriteString("r" + strconv.Itoa(i) + " ")
	}
	if _, err := Parse(b.String()); err == nil || !strings.Contains(err.Error(), "more than 20000 rules") {
		t.Error(err)
	}
}

// TestNoDeadEnds checks that alternatives which could never be finished are left out.
func TestNoDeadEnds(t *testing.T) {
	g,
		err := Parse("root ::= \"a\" loop | \"b\" (loop | \"c\")+ | \"d\" loop* | \"e\" loop{0} | loop\nloop ::= \"x\" loop")
	if err != nil {
		t.Fatal(err)
	}
	s := expr.NewSet()
	for text, want := range map[string]bool{"a": false, "bc": true, "bcc": true, "d": true, "e": true} {
		if got := s.Match(g.Expr(s), text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	for _, dead := range []string{"a", "bx", "dx", "ex", "x"} {
		id := g.Expr(s)
		for i := range len(dead) {
			id = s.Derive(id, dead[i])
		}
		if id != expr.Empty {
			t.Errorf("%q leads nowhere and is not refused", dead)
		}
	}
}

// TestLarge reads grammars as large as the limits allow and matches texts with them.
func TestLarge(t *testing.T) {
	var words, chain strings.Builder
	words.WriteString("root ::= \"x\" | ")
	for i := range 50_000 {
		words.WriteString(`"word ` + strconv.Itoa(i) + `" | `)
	}
	words.WriteString(`"y"`)
	chain.WriteString("root ::= r0\n")
	for i := range notation.MaxRules - 2 {
		chain.WriteString("r" + strconv.Itoa(i) + ` ::= "a" r` + strconv.Itoa(i+1) + "\n")
	}
	chain.WriteString("r" + strconv.Itoa(notation.MaxRules-2) + ` ::= "z"`)
	for _, c := range []struct{ name, grammar, good, bad string }{
		{"words", words.String(), "word 49999", "word 50000"},
		{"chain", chain.String(), strings.Repeat("a", notation.MaxRules-2) + "z",
			strings.Repeat("a", notation.MaxRules-1) + "z"},
		{"counts", `root ::= (([a-z]{100000}{0,100000}){100000,} | "b")`, "b", "c"},
		{"class", "root ::= [" + strings.Repeat("éa中", 60_000) + "]+", "é中a", "b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, err := Parse(c.grammar)
			if err != nil {
				t.Fatal(err)
			}
			s := expr.NewSet()
			if root := g.Expr(s); !s.Match(root, c.good) || s.Match(root, c.bad) {
				t.Error("a text is matched wrongly")
			}
		})
	}
}
