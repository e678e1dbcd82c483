package filter_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"runner/chattemplate/readertest"
	"runner/reasoning"
	"runner/reasoning/filter"
)

// plainStop is the definition: the stop string that is complete first counts, and of two at the same place the longer
// one.
func plainStop(text string, stops []string) (kept, stop string) {
	end := len(text) + 1
	for _, s := range stops {
		i := strings.Index(text, s)
		if s == "" || i < 0 {
			continue
		}
		if e := i + len(s); e < end || e == end && len(s) > len(stop) {
			end, stop = e, s
		}
	}
	if stop == "" {
		return text, ""
	}
	return text[:end-len(stop)], stop
}

func TestStopFilter(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	letters := []string{"a", "b", "ab", "中", "\n"}
	word := func(n int) string {
		var b strings.Builder
		for range r.IntN(n) {
			b.WriteString(letters[r.IntN(len(letters))])
		}
		return b.String()
	}
	stopped := 0
	for range 20000 {
		text := word(30)
		var stops []string
		for range r.IntN(4) {
			stops = append(stops, word(6))
		}
		var got readertest.Recorder
		f := filter.NewStopFilter(stops, got.Emit, reasoning.Answer)
		f.Push(reasoning.Event{Kind: reasoning.SegmentDelta, Segment: reasoning.Reasoning, Text: text})
		f.Push(reasoning.Event{Kind: reasoning.SegmentStart, Segment: reasoning.Answer})
		rest := []rune(text)
		for len(rest) > 0 {
			n := 1 + r.IntN(min(4, len(rest)))
			e := reasoning.Event{Kind: reasoning.SegmentDelta, Segment: reasoning.Answer, Text: string(rest[:n])}
			for _, c := range rest[:n] {
				e.Logprobs = append(e.Logprobs, reasoning.TokenLogprobs{Text: string(c)})
			}
			rest = rest[n:]
			f.Push(e)
			sent := readertest.Texts(got.Events)[reasoning.Answer]
			if want, stop := plainStop(text[:len(text)-len(string(rest))], stops); stop != "" && sent != want {
				t.Fatalf("%q with stops %q: sent %q, want %q", text, stops, sent, want)
			}
		}
		f.Push(reasoning.Event{Kind: reasoning.SegmentEnd, Segment: reasoning.Answer})
		want, stop := plainStop(text, stops)
		if stop != "" {
			stopped++
			f.Push(reasoning.Event{Kind: reasoning.SegmentStart, Segment: reasoning.Answer})
			f.Push(reasoning.Event{Kind: reasoning.SegmentDelta, Segment: reasoning.Answer, Text: "more"})
			f.Push(reasoning.Event{Kind: reasoning.SegmentEnd, Segment: reasoning.Answer})
		}
		f.Finish()
		readertest.CheckNesting(t, got.Events[1:])
		if gotStop, ok := f.Matched(); gotStop != stop || ok != (stop != "") {
			t.Fatalf("%q with stops %q: matched %q, want %q", text, stops, gotStop, stop)
		}
		all := readertest.Texts(got.Events)
		if all[reasoning.Answer] != want || all[reasoning.Reasoning] != text {
			t.Fatalf("%q with stops %q: kept %q, want %q", text, stops, all[reasoning.Answer], want)
		}
		var tokens strings.Builder
		for _, e := range got.Events {
			for _, l := range e.Logprobs {
				tokens.WriteString(l.Text)
			}
		}
		if tokens.String() != want {
			t.Fatalf("%q with stops %q: tokens of %q, want %q", text, stops, tokens.String(), want)
		}
	}
	if stopped < 1000 {
		t.Fatalf("only %d texts were stopped, too few for this test", stopped)
	}
}
