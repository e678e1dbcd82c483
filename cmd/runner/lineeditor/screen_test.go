package lineeditor

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

type lines []string

func (l lines) Len() int          { return len(l) }
func (l lines) Line(i int) string { return l[i] }

// pieces are what the random tests type. The two libraries agree on their widths.
var pieces = []string{"a", "word ", "é", "ß", "世", "界", "e\u0301", "\u0301", "👨‍👩‍👧",
	"🇫🇷", "ก็", "한", "\t", "\x1b", "漢字かな", " ", "\n",
	"one\ntwo\nthree", "שלום", "x"}

var randomKeys = []keyKind{keyLeft, keyRight, keyUp, keyDown, keyOlder, keyNewer, keyHome, keyEnd, keyWordLeft,
	keyWordRight, keyBackspace, keyDelete, keyKillToEnd, keyKillToStart, keyKillSpaced, keyKillWordLeft,
	keyKillWordRight, keyYank, keyClear, keyTab, keyNewline, keySearch, keyCancel}

func randomKey(r *rand.Rand) key {
	if r.IntN(2) == 0 {
		return key{kind: keyPaste, text: pieces[r.IntN(len(pieces))]}
	}
	return key{kind: randomKeys[r.IntN(len(randomKeys))]}
}

// After any keys, the screen shows the text, and the cursor is where the text says.
func TestScreenShowsTheText(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		sizes := []int{3, 5, 6, 9, 12, 20, 40}
		e := newEmulator(sizes[r.IntN(len(sizes))], []int{2, 3, 8, 24}[r.IntN(4)])
		s := newSession(&Options{Limit: 1 << 16, More: "... ", History: lines{"first", "zweite Zeile\nmit 世界 " + "漢字漢字漢字"}},
			Prompt{Text: ">>> "}, &screen{output: e.output()}, new(string))
		var log []string
		s.draw()
		for range 60 {
			k := randomKey(r)
			if r.IntN(15) == 0 {
				e.resize(sizes[r.IntN(len(sizes))], []int{2, 3, 8, 24}[r.IntN(4)])
				log = append(log, fmt.Sprintf("size %dx%d", e.columns, e.rows))
			} else {
				log = append(log, fmt.Sprintf("%d %q", k.kind, k.text))
				if done, err := s.press(k); done || err != nil {
					t.Fatal(done, err)
				}
			}
			s.draw()
			if problem := compare(e, s); problem != "" {
				t.Fatalf("seed %d, %dx%d: %s\ntext %q, cursor %d\nkeys %s", seed, e.columns, e.rows, problem, s.text, s.at,
					strings.Join(log, ", "))
			}
		}
	}
}

// compare returns how the screen differs from what the text needs.
func compare(e *emulator, s *session) string {
	prompt := s.prompt.Text
	if s.search != nil {
		prompt = "(search: " + s.search.query + ") "
	}
	want := draw(prompt, s.options.More, s.text, s.at, e.columns)
	switch {
	case e.fault != "":
		return e.fault
	case e.noWrap:
		return "wrapping stays off"
	case e.column != want.column:
		return fmt.Sprintf("the cursor is in column %d, want %d", e.column, want.column)
	}
	for r := range e.rows {
		line := ""
		i := want.row - e.row + r
		if i >= 0 && i < len(want.rows) {
			line = strings.TrimRight(want.rows[i], " ")
		}
		if got := e.line(r); got != line && i >= 0 {
			return fmt.Sprintf("row %d is %q, want %q", r, got, line)
		}
	}
	return ""
}

// A dumb terminal shows the row with the cursor.
func TestDumbScreenShowsTheRow(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		e := newEmulator([]int{5, 6, 9, 12, 40}[r.IntN(5)], 24)
		e.dumb = true
		s := newSession(&Options{Limit: 1 << 16, More: "... "}, Prompt{Text: ">>> ", Placeholder: "type"},
			&dumbScreen{output: e.output()}, new(string))
		s.draw()
		for range 60 {
			k := randomKey(r)
			if _, err := s.press(k); err != nil {
				t.Fatal(err)
			}
			s.draw()
			want := draw(">>> ", "... ", s.text, s.at, e.columns)
			if got, line := e.line(e.row), strings.TrimRight(want.rows[want.row], " "); e.fault != "" || got != line ||
				e.column != want.column {
				t.Fatalf("seed %d: %s, row %q, column %d, want %q, %d", seed, e.fault, got, e.column, line, want.column)
			}
		}
	}
}

// A finished text is whole on the terminal, and the next output is in the row after it.
func TestScreenFinishes(t *testing.T) {
	for _, text := range []string{"", "short", "世界世界世界世界", "1\n2\n3\n4\n5"} {
		for _, dumb := range []bool{false, true} {
			e := newEmulator(10, 30)
			e.dumb = dumb
			size := func() (int, int) { return e.columns, 3 }
			var d display = &screen{output: output{w: e, size: size}}
			if dumb {
				d = &dumbScreen{output: output{w: e, size: size}}
			}
			s := newSession(&Options{Limit: 100, More: "+"}, Prompt{Text: ">", Placeholder: "hint"}, d, new(string))
			s.draw()
			for _, line := range strings.SplitAfter(text, "\n") {
				s.insert(line)
				s.draw()
			}
			s.finish()
			want := append(draw(">", "+", text, 0, 10).rows, "")
			for r, line := range want {
				if got := e.line(r); got != line {
					t.Errorf("dumb %v, %q: row %d is %q, want %q", dumb, text, r, got, line)
				}
			}
			if e.fault != "" || e.row != len(want)-1 || e.column != 0 {
				t.Errorf("dumb %v, %q: %s, cursor at %d, %d", dumb, text, e.fault, e.row, e.column)
			}
		}
	}
}

// The placeholder is shown while there is no text, and shortened to fit.
func TestScreenPlaceholder(t *testing.T) {
	for columns, want := range map[int]string{40: "> say something", 10: "> say som", 3: ">"} {
		e := newEmulator(columns, 3)
		s := newSession(&Options{Limit: 100}, Prompt{Text: "> ", Placeholder: "say something"},
			&screen{output: e.output()}, new(string))
		s.draw()
		if got := e.line(0); got != want || e.column != 2 || e.fault != "" {
			t.Errorf("%d columns: %q, column %d, want %q; %s", columns, got, e.column, want, e.fault)
		}
		s.insert("x")
		s.draw()
		if got := e.line(0); columns > 3 && got != "> x" {
			t.Errorf("%d columns: %q after a key", columns, got)
		}
	}
}
