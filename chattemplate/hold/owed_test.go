package hold

import "testing"

// TestOwed compares what may come next with a table. A row is what is owed and what has come. Its columns are what is
// offered. The letters say what may come: f for free text, a for an answer in the form, c for a call, and e for the end
// of the turn. An empty cell cannot occur.
func TestOwed(t *testing.T) {
	nothing := func(*Owed) {}
	called := func(o *Owed) { o.Made() }
	reported := func(o *Owed) { o.Made(); o.Resume() }
	both := func(o *Owed) { reported(o); o.Made() }
	offers := [3]Owed{{}, {Offered: true}, {Offered: true, Single: true}}
	for _, row := range []struct {
		owed                    string
		owes                    Owed
		has                     string
		come                    func(*Owed)
		noCalls, calls, oneCall string
	}{
		{"nothing", Owed{}, "nothing", nothing, "fa", "fac", "fac"},
		{"nothing", Owed{}, "a call", called, "", "fce", "e"},
		{"a form", Owed{Form: true}, "nothing", nothing, "a", "ac", "ac"},
		{"a form", Owed{Form: true}, "a call", called, "", "ce", "e"},
		{"a call", Owed{Call: true}, "nothing", nothing, "", "c", "c"},
		{"a call", Owed{Call: true}, "a call", called, "", "ce", "e"},
		{"a form or a call", Owed{Form: true, Call: true}, "nothing", nothing, "", "c", "c"},
		{"a form or a call", Owed{Form: true, Call: true}, "a call", called, "", "ce", "e"},
		{"a report", Owed{Report: true}, "nothing", nothing, "c", "c", "c"},
		{"a report", Owed{Report: true}, "its call", called, "e", "e", "e"},
		{"a report", Owed{Report: true}, "the report", reported, "fa", "fac", "fac"},
		{"a report", Owed{Report: true}, "the report and a call", both, "", "fce", "e"},
		{"a report and a form", Owed{Report: true, Form: true}, "nothing", nothing, "c", "c", "c"},
		{"a report and a form", Owed{Report: true, Form: true}, "its call", called, "e", "e", "e"},
		{"a report and a form", Owed{Report: true, Form: true}, "the report", reported, "a", "ac", "ac"},
		{"a report and a form", Owed{Report: true, Form: true}, "the report and a call", both, "", "ce", "e"},
		{"a report and a call", Owed{Report: true, Call: true}, "nothing", nothing, "", "c", "c"},
		{"a report and a call", Owed{Report: true, Call: true}, "its call", called, "", "e", "e"},
		{"a report and a call", Owed{Report: true, Call: true}, "the report", reported, "", "c", "c"},
		{"a report and a call", Owed{Report: true, Call: true}, "the report and a call", both, "", "ce", "e"},
	} {
		for i, want := range []string{row.noCalls, row.calls, row.oneCall} {
			if want == "" {
				continue
			}
			o := row.owes
			o.Offered, o.Single = offers[i].Offered, offers[i].Single
			if row.come(&o); next(&o) != want {
				t.Errorf("%s is owed, %s has come, column %d: got %s, want %s", row.owed, row.has, i, next(&o), want)
			}
			if asked := row.owes != (Owed{}); o.Any() != asked {
				t.Errorf("%s is owed: Any is %v", row.owed, o.Any())
			}
		}
	}
}

// next returns what may come next, in the letters of TestOwed.
func next(o *Owed) (letters string) {
	for _, may := range []struct {
		letter string
		ok     bool
	}{{"f", o.Free()}, {"a", o.MayAnswer()}, {"c", o.MayCall()}, {"e", o.MayEnd()}} {
		if may.ok {
			letters += may.letter
		}
	}
	return letters
}
