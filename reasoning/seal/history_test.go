package seal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// reply is an assistant's message of a test conversation: what it carries, and where it was made.
type reply struct {
	asked  string // the nearest user message
	calls  []string
	values []string
}

// origin is where a text was sealed.
type origin struct {
	scope  Scope
	asked  string
	calls  []string // those of the turn
	kind   Calls
	number int // of the turn, in the order in which turns began
}

func TestValuesOpenInTheirConversation(t *testing.T) {
	r := NewKeyring()
	for name, kind := range map[string]Calls{"calls": WithCalls, "no calls": NoCalls, "undecided": Undecided} {
		turn := r.Begin(home, QuestionOf("q"))
		calls := []string{turn.CallID(0), turn.CallID(1)}
		one, two := mustPiece(t, turn, "one", kind), mustPiece(t, turn, " two", kind)
		open := func(at Place, values ...string) (string, []error) {
			list := make([]Value, len(values))
			for i, v := range values {
				list[i] = Value{Sealed: v}
			}
			return r.History(home).Open(at, list)
		}
		for where, at := range map[string]Place{
			"own calls":      {Question: QuestionOf("other"), Calls: calls},
			"one call":       {Calls: calls[1:]},
			"question":       {Question: QuestionOf("q")},
			"other question": {Question: QuestionOf("other")},
			"strange call":   {Question: QuestionOf("q"), Calls: append(slices.Clone(calls), "call_x")},
		} {
			opens := kind != NoCalls && strings.HasPrefix(where, "o") && len(at.Calls) > 0 || kind != WithCalls &&
				where == "question"
			text, errs := open(at, two, one, two)
			switch {
			case opens && (text != "one two" || errors.Join(errs...) != nil):
				t.Errorf("%s, %s: %q, %v", name, where, text, errs)
			case !opens && (text != "" || !errors.Is(errs[0], ErrForeign) || !errors.Is(errs[1], ErrForeign)):
				t.Errorf("%s, %s: %q, %v", name, where, text, errs)
			}
		}
	}
}

func mustPiece(t testing.TB, turn *Turn, text string, kind Calls) string {
	t.Helper()
	v, err := turn.Seal(text, kind)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// A value opens once, and never after one that was sealed later, whichever message carries it.
func TestEachTurnCountsOnceAndInOrder(t *testing.T) {
	r := NewKeyring()
	at := Place{Question: QuestionOf("go on")}
	var v []string
	for i := range 3 {
		v = append(v, mustPiece(t, r.Begin(home, at.Question), fmt.Sprint("thought ", i), NoCalls))
	}
	for _, c := range []struct {
		messages [][]string
		want     string
	}{
		{[][]string{{v[0]}, {v[1]}, {v[2]}}, "thought 0|thought 1|thought 2"},
		{[][]string{{v[0]}, {v[0]}, {v[1]}}, "thought 0||thought 1"},
		{[][]string{{v[1]}, {v[0]}, {v[2]}}, "thought 1||thought 2"},
		{[][]string{{v[2]}, {v[0]}, {v[1]}}, "thought 2||"},
		{[][]string{{v[1], v[0]}, {v[0], v[2]}}, "thought 0\n\nthought 1|thought 2"},
	} {
		h := r.History(home)
		var got []string
		for _, values := range c.messages {
			var list []Value
			for _, value := range values {
				list = append(list, Value{Sealed: value})
			}
			text, errs := h.Open(at, list)
			got = append(got, text)
			for _, err := range errs {
				if err != nil && !errors.Is(err, ErrRepeated) {
					t.Error(err)
				}
			}
		}
		if s := strings.Join(got, "|"); s != c.want {
			t.Errorf("restored %q, want %q", s, c.want)
		}
	}
}

func TestValuesOfAnotherConversationOpenWhereTheCallerSaysSo(t *testing.T) {
	r := NewKeyring()
	other := Scope{Principal: home.Principal, Model: home.Model}
	at := Place{Question: QuestionOf("q")}
	value := mustPiece(t, r.Begin(other, at.Question), "text", NoCalls)
	if text, errs := r.History(home).Open(at, []Value{{Sealed: value}}); text != "" || !errors.Is(errs[0], ErrForeign) {
		t.Errorf("%q, %v", text, errs)
	}
	if text, errs := r.History(home).Open(at, []Value{{Sealed: value, Elsewhere: &other.Conversation}}); text != "text" ||
		errs[0] != nil {
		t.Errorf("%q, %v", text, errs)
	}
}

func TestTurnsWithoutAKeyNameTheirCalls(t *testing.T) {
	var r Keyring
	one, two := r.Begin(home, Question{}), r.Begin(home, Question{})
	if again := one.CallID(0); again != one.CallID(0) || again == one.CallID(1) || one.CallID(0) == two.CallID(0) {
		t.Error("ids of calls are not what names them")
	}
	if _, err := one.Seal("text", NoCalls); !errors.Is(err, ErrNoKey) {
		t.Error(err)
	}
}

// Conversations are made, edited at random as clients edit them, and opened. Restored reasoning is in the place
// that it was sealed for. A conversation that nobody edited restores everything.
func TestEditedConversationsRestoreNothingElsewhere(t *testing.T) {
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 1))
		r := NewKeyring()
		scopes := []Scope{home, home, home}
		scopes[rng.IntN(3)].Principal = "other"
		scopes[rng.IntN(3)].Model.Digest = "other"
		scopes[rng.IntN(3)].Conversation = ConversationID("c", "other")
		origins := map[string]origin{}
		threads := make([][]reply, len(scopes))
		for n := range 6 + rng.IntN(10) {
			s := rng.IntN(len(scopes))
			asked := fmt.Sprint("question ", rng.IntN(3))
			turn := r.Begin(scopes[s], QuestionOf(asked))
			o := origin{scope: scopes[s], asked: asked, kind: Calls(rng.IntN(3)), number: n}
			for i := range rng.IntN(3) {
				o.calls = append(o.calls, turn.CallID(i))
			}
			if o.kind == NoCalls || len(o.calls) == 0 {
				o.kind, o.calls = NoCalls, nil
			}
			m := reply{asked: asked, calls: slices.Clone(o.calls)}
			for i := range 1 + rng.IntN(2) {
				text := fmt.Sprintf("<%d.%d>", n, i)
				origins[text] = o
				m.values = append(m.values, mustPiece(t, turn, text, o.kind))
			}
			threads[s] = append(threads[s], m)
		}
		at := rng.IntN(len(scopes))
		whole := threads[at]
		if got := restoredIn(r, scopes[at], whole); strings.Count(got, "<") != countValues(whole) {
			t.Fatalf("seed %d: %q is restored of %d values", seed, got, countValues(whole))
		}
		edited := edit(rng, threads, at)
		h, last := r.History(scopes[at]), -1
		for _, m := range edited {
			text, _ := h.Open(Place{Question: QuestionOf(m.asked), Calls: m.calls}, values(m))
			for _, piece := range strings.SplitAfter(strings.ReplaceAll(text, "\n", ""), ">") {
				o, known := origins[piece]
				beside := len(m.calls) > 0 && !slices.ContainsFunc(m.calls, func(id string) bool {
					return !slices.Contains(o.calls, id)
				})
				switch {
				case piece == "":
				case !known, o.scope != scopes[at], o.number < last, len(m.calls) > 0 && !beside, len(m.calls) == 0 &&
					(o.kind == WithCalls || o.asked != m.asked):
					t.Fatalf("seed %d: %s of %+v is restored in %+v of %+v, after turn %d", seed, piece, o, m, scopes[at], last)
				default:
					last = o.number
				}
			}
			if n := strings.Count(text, "<"); n > 0 {
				last++ // the turn counts in this message only
			}
		}
	}
}

func values(m reply) (list []Value) {
	for _, v := range m.values {
		list = append(list, Value{Sealed: v})
	}
	return list
}

func countValues(messages []reply) (n int) {
	for _, m := range messages {
		n += len(m.values)
	}
	return n
}

func restoredIn(r *Keyring, s Scope, messages []reply) (all string) {
	h := r.History(s)
	for _, m := range messages {
		text, _ := h.Open(Place{Question: QuestionOf(m.asked), Calls: m.calls}, values(m))
		all += text
	}
	return all
}

// edit returns the conversation at with random edits.
func edit(rng *rand.Rand, threads [][]reply, at int) []reply {
	m := slices.Clone(threads[at])
	for range 1 + rng.IntN(5) {
		other := threads[rng.IntN(len(threads))]
		if len(m) == 0 || len(other) == 0 {
			return m
		}
		i, j, from := rng.IntN(len(m)), rng.IntN(len(m)), other[rng.IntN(len(other))]
		switch rng.IntN(9) {
		case 0: // drop the beginning
			m = m[i:]
		case 1: // drop one
			m = slices.Delete(slices.Clone(m), i, i+1)
		case 2: // exchange two
			m[i], m[j] = m[j], m[i]
		case 3: // say one twice
			m = slices.Insert(slices.Clone(m), j, m[i])
		case 4: // edit the question
			m[i].asked += "?"
		case 5: // join two
			if i+1 < len(m) {
				m[i].calls = slices.Concat(m[i].calls, m[i+1].calls)
				m[i].values = slices.Concat(m[i].values, m[i+1].values)
				m = slices.Delete(slices.Clone(m), i+1, i+2)
			}
		case 6: // move the values
			m[i].values = from.values
		case 7: // drop calls, or take others
			m[i].calls = [][]string{nil, from.calls, {"call_1"}}[rng.IntN(3)]
		case 8: // bring one from elsewhere
			m = slices.Insert(slices.Clone(m), j, from)
		}
	}
	return m
}

// A turn that reasons several times has a value for each, and joined values may have some that an earlier message had.
func TestJoinedValues(t *testing.T) {
	r := NewKeyring()
	at := Place{Question: QuestionOf("q")}
	turn := r.Begin(home, at.Question)
	one, two := mustPiece(t, turn, "one", Undecided), mustPiece(t, turn, "two", Undecided)
	called := Place{Question: at.Question, Calls: []string{turn.CallID(0)}}
	foreign := mustPiece(t, r.Begin(home, at.Question), "x", Undecided)
	for name, c := range map[string]struct {
		places []Place
		values []string
		text   string // of all messages
		err    error  // of the last one
	}{
		"in one message":             {[]Place{called}, []string{Join(one, two)}, "onetwo", nil},
		"in two messages":            {[]Place{at, called}, []string{one, two}, "onetwo", nil},
		"the first again":            {[]Place{at, called}, []string{one, Join(one, two)}, "onetwo", nil},
		"nothing new":                {[]Place{at, called}, []string{one, one}, "one", ErrRepeated},
		"both again":                 {[]Place{at, called}, []string{Join(one, two), Join(one, two)}, "onetwo", ErrRepeated},
		"the second before":          {[]Place{at, called}, []string{two, one}, "two", ErrRepeated},
		"one of another turn":        {[]Place{called}, []string{Join(one, foreign)}, "one", ErrForeign},
		"dots":                       {[]Place{at}, []string{strings.Repeat(".", 1<<20)}, "", ErrTampered},
		"a dot at the end":           {[]Place{at}, []string{one + "."}, "one", ErrTampered},
		"joined with nothing before": {[]Place{at}, []string{Join("", one)}, "one", nil},
	} {
		h, text := r.History(home), ""
		var errs []error
		for i, p := range c.places {
			var more string
			more, errs = h.Open(p, []Value{{Sealed: c.values[i]}})
			text += more
		}
		if text != c.text || !errors.Is(errs[0], c.err) {
			t.Errorf("%s: %q, %v, want %q, %v", name, text, errs[0], c.text, c.err)
		}
	}
}
