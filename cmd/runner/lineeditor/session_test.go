package lineeditor

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rivo/uniseg"

	"runner/cmd/runner/render"
)

// mark is where the cursor is in the texts of the tests.
const mark = "|"

func newTestSession(o Options, p Prompt) (*session, *emulator) {
	e := newEmulator(40, 24)
	if o.Limit == 0 {
		o.Limit = 1 << 16
	}
	return newSession(&o, p, &screen{output: e.output()}, new(string)), e
}

// press presses the keys that a terminal sends. It returns the text with the cursor.
func press(t *testing.T, s *session, keys string) string {
	t.Helper()
	d := decoder{limit: 1000}
	d.feed([]byte(keys))
	for {
		k, ok := d.next()
		if !ok {
			break
		}
		if done, err := s.press(k); done {
			t.Fatalf("%q ends the text with %v", keys, err)
		}
		s.draw()
	}
	return s.text[:s.at] + mark + s.text[s.at:]
}

func TestEditing(t *testing.T) {
	const left, right = "\x1b[D", "\x1b[C"
	for keys, want := range map[string]string{
		"aéb" + left + left + "x":           "ax|éb",
		"e\u0301n\x02\x02\x06":              "e\u0301|n",
		"x👨‍👩‍👧\x7f":                        "x|",
		"नमस्ते" + left + left:              "न|मस्ते",
		"one two\x01\x1bf":                  "one| two",
		"one two\x1bb\x1bb":                 "|one two",
		"one two\x1b[1;5D":                  "one |two",
		"a/b c\x17":                         "a/b |",
		"a/b c\x17\x17":                     "|",
		"a/b\x1b\x7f":                       "a/|",
		"one two\x01\x1bd":                  "| two",
		"one two\x01\x1bd\x1bd\x19":         "one two|",
		"one two\x17\x17\x19\x19":           "one twoone two|",
		"one" + left + "\x0b\x19\x19":       "onee|",
		"one" + left + "\x15":               "|e",
		"one\x1b\rtwo\x15\x7f!":             "one!|",
		"one\x1b\rtwo\x1b[A\x0b\x0b":        "o|two",
		"one\x1b\rtwo\x1b[A\x01":            "|one\ntwo",
		"one\x1b\rtwo\x1b[H\x1b[A\x1b[F":    "one|\ntwo",
		"世界" + left + "\x04":                "世|",
		"ab\x01\x1b[3~":                     "|b",
		"🇫🇷🇩🇪" + left + left + "\x1b[3~":    "|🇩🇪",
		"n\x01\x05\u0303" + left:            "|n\u0303",
		"\u0301e\x01e":                      "e\u0301|e",
		"\x1b[200~a\tb\x1b[2Jc\x1b[201~":    "a\tb\x1b[2Jc|",
		strings.Repeat("x", 50) + "\x1b[Ay": strings.Repeat("x", 11) + "y|" + strings.Repeat("x", 39),
	} {
		s, e := newTestSession(Options{}, Prompt{Text: "> "})
		if got := press(t, s, keys); got != want || e.fault != "" {
			t.Errorf("%q makes %q, want %q; %s", keys, got, want, e.fault)
		}
	}
}

// Offsets of the buffer are between clusters, as another library finds them.
func TestBufferKeepsClustersWhole(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3))
	alphabet := append([]string{"\u200d", "\U0001F3FD", "👩", "🇫", "स", "्", "ก", "ำ", "ᄒ", "ᅡ", "ᆫ"}, pieces...)
	for range 3000 {
		var text strings.Builder
		for range 1 + r.IntN(12) {
			text.WriteString(alphabet[r.IntN(len(alphabet))])
		}
		ends := map[int]bool{0: true}
		for rest, at := text.String(), 0; rest != ""; {
			_, next, _, _ := uniseg.FirstGraphemeClusterInString(rest, -1)
			at += len(rest) - len(next)
			ends[at], rest = true, next
		}
		b := buffer{}
		b.set(text.String())
		for n := 1; b.at > 0; n++ {
			b.at = b.left()
			if forward := (&buffer{b.text, b.at}).right(); !ends[b.at] || !ends[forward] {
				t.Fatalf("%+q: %d or %d is inside of a cluster", b.text, b.at, forward)
			}
			if b.at == 0 && n != len(ends)-1 {
				t.Fatalf("%+q has %d clusters, want %d", b.text, n, len(ends)-1)
			}
		}
	}
}

func TestHistory(t *testing.T) {
	const up, down = "\x1b[A", "\x1b[B"
	o := Options{History: lines{"first", "two\nlines", "third"}}
	for keys, want := range map[string]string{
		up:                           "third|",
		up + up + up + up:            "first|",
		up + up + "\x10":             "first|",
		"new" + up + down:            "new|",
		"new" + up + "x" + up + down: "thirdx|",
		up + down + down + "x":       "x|",
		"\x12fir":                    "|first",
		"\x12fir\x1b[C":              "f|irst",
		"\x12i\x12":                  "two\nl|ines",
		"new\x12i\x07":               "new|",
		"new\x12lin\x1b[C\x0e\x0e":   "new|",
		"\x12thx\x7f\x7f\x7ffi":      "|first",
	} {
		s, e := newTestSession(o, Prompt{Text: "> "})
		if got := press(t, s, keys); got != want || e.fault != "" {
			t.Errorf("%q makes %q, want %q; %s", keys, got, want, e.fault)
		}
	}
	s, _ := newTestSession(o, Prompt{Alone: true})
	if got := press(t, s, "x"+up+"\x12"+down); got != "x|" {
		t.Errorf("a prompt without history has %q", got)
	}
}

func TestCompletion(t *testing.T) {
	o := Options{Candidates: func(string) []string { return []string{"/clear", "/été", "/étà", "other"} }}
	for keys, want := range map[string]string{
		"/c\t": "/clear|", "/é\t": "/ét|", "/ét\t": "/ét|", "x\t": "x|", "/c\x02\t": "/|c",
	} {
		s, e := newTestSession(o, Prompt{Text: "> "})
		if got := press(t, s, keys); got != want {
			t.Errorf("%q makes %q, want %q", keys, got, want)
		}
		if listed := e.line(0) == "/été  /étà"; listed != (keys == "/ét\t") {
			t.Errorf("%q shows %q", keys, e.line(0))
		}
	}
}

// A list has what differs of the candidates, and not too many of them.
func TestCompletionOfValues(t *testing.T) {
	s, e := newTestSession(Options{Candidates: func(string) []string {
		return []string{"/file my notes", "/file my news ", "/file other"}
	}}, Prompt{Text: "> "})
	if got := press(t, s, "/file m\t\t"); got != "/file my n|" || e.line(0) != "notes  news" {
		t.Errorf("%q, shown %q", got, e.line(0))
	}
	many := make([]string, 1000)
	for i := range many {
		many[i] = fmt.Sprintf("/file %03d", i)
	}
	got := listed(many, 6, 1000)
	if !strings.HasPrefix(got, "000  001  ") || !strings.HasSuffix(got, "  099  and 900 more") {
		t.Errorf("listed %q", got)
	}
}

// A list fits the terminal, whatever the names are, and keeps every name. Its names stand in columns.
func TestListsFit(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 2))
	for range 2000 {
		columns := 10 + r.IntN(80)
		names := make([]string, 1+r.IntN(40))
		for i := range names {
			names[i] = "/" + strings.Repeat(pieces[r.IntN(len(pieces))], r.IntN(8)) + fmt.Sprint(i)
		}
		text := listed(names, 0, columns)
		for line := range strings.SplitSeq(text, "\n") {
			if w := uniseg.StringWidth(line); w > columns {
				t.Fatalf("%+q is %d wide of %d", line, w, columns)
			}
		}
		for _, name := range names {
			name = strings.TrimRight(render.CleanLine(name), " ")
			if uniseg.StringWidth(name) <= columns && !strings.Contains(text, name) {
				t.Fatalf("%+q is not in %+q", name, text)
			}
		}
	}
	few := []string{"/a", "/世界世界", "/c", "/dd", "/e"}
	if got, want := listed(few, 0, 15), "/a         /dd\n/世界世界  /e\n/c"; got != want {
		t.Errorf("listed %q, want %q", got, want)
	}
	if got, want := listed([]string{"/a", strings.Repeat("世", 9)}, 0, 12), "/a\n世世世世世…"; got != want {
		t.Errorf("listed %q, want %q", got, want)
	}
}

// A second Tab does not show the list again. After another key it is shown again.
func TestListsAreShownOnce(t *testing.T) {
	for keys, want := range map[string]int{"/\t": 1, "/\t\t\t": 1, "/\tx\x7f\t": 2} {
		s, e := newTestSession(Options{Candidates: func(string) []string { return []string{"/one", "/two"} }}, Prompt{})
		press(t, s, keys)
		shown := 0
		for row := range e.rows {
			shown += strings.Count(e.line(row), "/one  /two")
		}
		if shown != want {
			t.Errorf("%q shows the list %d times, want %d", keys, shown, want)
		}
	}
}

func TestEnd(t *testing.T) {
	o := Options{History: lines{`recalled\`}, Continue: func(text string, typed bool) (string, bool) {
		line, more := strings.CutSuffix(text, `\`)
		return line + "\n", more && typed
	}}
	// A typed backslash makes Enter go on. A pasted, recalled or yanked one is a part of the text.
	for keys, want := range map[string]string{
		`one\` + "\rtwo":                             "one\ntwo",
		`one\` + "\r" + `two\` + "\r":                "one\ntwo\n",
		`one\` + "\x1b[D\rtwo\x1b[F\x7f":             "one\ntwo",
		"\x1b[200~one\\\rtwo\\\x1b[201~":             "one\\\ntwo\\",
		"\x1b[200~one\x1b[201~" + `\` + "\rtwo":      "one\ntwo",
		"\x1b[A":                                     `recalled\`,
		"\x12rec":                                    `recalled\`,
		`killed\` + "\x15\x19":                       `killed\`,
		`a\` + "\r\x1b[200~" + `b\` + "\rc\x1b[201~": "a\nb\\\nc",
	} {
		s, e := newTestSession(o, Prompt{})
		press(t, s, keys)
		if done, err := s.press(key{kind: keyEnter}); !done || err != nil || s.text != want || e.fault != "" {
			t.Errorf("%q, Enter: %v, %v, %q, want %q; %s", keys, done, err, s.text, want, e.fault)
		}
	}
	s, _ := newTestSession(o, Prompt{})
	if done, err := s.press(key{kind: keyInterrupt}); !done || !errors.Is(err, ErrInterrupted) {
		t.Errorf("Ctrl-C: %v, %v", done, err)
	}
	s, _ = newTestSession(o, Prompt{})
	if done, err := s.press(key{kind: keyDeleteOrEnd}); !done || !errors.Is(err, io.EOF) {
		t.Errorf("Ctrl-D: %v, %v", done, err)
	}
}

// Text over the limit is refused with a message, and what was there stays.
func TestLimit(t *testing.T) {
	const message = "The text was not added: the limit is 10 bytes. Use a file."
	for _, keys := range []string{"123456é78X", "\x1b[200~12345678901\x1b[201~",
		"\x1b[200~" + strings.Repeat("x", 1001) + "\x1b[201~"} {
		s, e := newTestSession(Options{Limit: 10, LimitHint: "Use a file."}, Prompt{Text: "> "})
		press(t, s, "a")
		got := press(t, s, keys)
		shown := strings.Join(e.cells[0], "") + e.line(1)
		if got != "a|" || shown != message || e.fault != "" {
			t.Errorf("%.20q makes %q and shows %q; %s", keys, got, shown, e.fault)
		}
	}
}
