//go:build unix

package cli

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"runner/cmd/runner/lineeditor/lineeditortest"
)

// kinds are the terminals that texts are typed into: the value of TERM, and whether the terminal answers questions.
var kinds = map[string]struct {
	term    string
	answers bool
}{
	"xterm-256color": {"xterm-256color", true}, "screen": {"screen", true}, "dumb": {"dumb", true},
	"silent": {"xterm-256color", false},
}

// fewScripts are typed slowly where there is no time for all.
var fewScripts = []string{"Latin-1", "decomposed", "Hindi", "Hebrew", "skin tones", "jamo"}

// Each byte of a message that is typed into a chat arrives, in any script, whatever TERM is and however slow the line
// is. RUNNER_LONG types all scripts slowly.
func TestTyping(t *testing.T) {
	all := slices.Sorted(maps.Keys(lineeditortest.Scripts))
	if len(all) < 40 {
		t.Fatalf("%d scripts", len(all))
	}
	for _, pause := range []time.Duration{0, 20 * time.Millisecond, 150 * time.Millisecond} {
		names, chats := all, 1
		if pause > 0 {
			chats = 8 // at the same time, because they wait more than they work
			if os.Getenv("RUNNER_LONG") == "" {
				names, chats = fewScripts, len(fewScripts)
			}
		}
		typed := typeScripts(t, names, chats, pause)
		for _, kind := range slices.Sorted(maps.Keys(typed)) {
			t.Logf("%s, %v a byte: %d scripts, %d bytes", kind, pause, len(names), typed[kind])
		}
	}
}

// typist types scripts into a chat.
type typist struct {
	*terminal
	kind    string
	scripts []string
}

// typeScripts starts some chats in each kind of terminal and deals the scripts out to them. It types a byte into every
// chat, pauses, and goes on. Each chat must have got its messages. It returns how many bytes each kind of terminal got.
func typeScripts(t *testing.T, names []string, chats int, pause time.Duration) map[string]int {
	t.Helper()
	var typists []*typist
	for kind, k := range kinds {
		for i := range chats {
			ty := &typist{terminal: start(t, []string{"TERM=" + k.term}, "run"), kind: kind}
			ty.answers.Store(k.answers)
			for at := i; at < len(names); at += chats {
				ty.scripts = append(ty.scripts, names[at])
			}
			typists = append(typists, ty)
		}
	}
	typed := map[string]int{}
	for round := range (len(names) + chats - 1) / chats {
		left := map[*typist]string{}
		for _, ty := range typists {
			if round < len(ty.scripts) {
				ty.expect(">>> ")
				left[ty] = keysOf(ty.scripts[round])
				typed[ty.kind] += len(left[ty])
			}
		}
		typeTogether(left, pause)
		for _, ty := range typists {
			if round < len(ty.scripts) {
				ty.expect("42\r\n") // the answer; the prompt is drawn more than once while something is typed
			}
		}
	}
	for _, ty := range typists {
		ty.check(pause)
	}
	return typed
}

// typeTogether types texts into chats at the same time.
func typeTogether(left map[*typist]string, pause time.Duration) {
	for len(left) > 0 {
		for ty, keys := range left {
			n := 1
			if pause == 0 {
				n = len(keys)
			}
			ty.send(keys[:n])
			if left[ty] = keys[n:]; left[ty] == "" {
				delete(left, ty)
			}
		}
		time.Sleep(pause)
	}
}

// keysOf returns what is typed for a script. The text is edited too: a part of it is typed at its start, and a word at
// its end is removed again.
func keysOf(script string) string {
	return lineeditortest.Scripts[script] + " \x01é世\x7f\x05gone\x17\r"
}

// check ends a chat, and compares the messages that it got with what was typed, and what it sent with what the terminal
// takes.
func (ty *typist) check(pause time.Duration) {
	t := ty.t
	t.Helper()
	ty.expect(">>> ")
	ty.send("\x04")
	ty.exit(exitOK)
	got := openHistory(filepath.Join(ty.dir, "state", "runner", "history")).lines
	var want []string
	for _, script := range ty.scripts {
		want = append(want, "é"+lineeditortest.Scripts[script]+" ")
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s, %v a byte: got %q, want %q", ty.kind, pause, got, want)
	}
	if q := lineeditortest.Questions.FindString(ty.text); q != "" {
		t.Errorf("%s: the chat asks the terminal %q", ty.kind, q)
	}
	if ty.kind == "dumb" && strings.Contains(ty.text, "\x1b") {
		t.Errorf("a dumb terminal gets %q", ty.text)
	}
}
