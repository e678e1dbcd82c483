package main

import (
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"runner/backend/llamacpp"
	"runner/cmd/runner/cli"
	"runner/models/demo"
)

// served makes this test program the one that is measured, with the model that it names.
const (
	served        = "RUNNER_EVAL_SERVED"
	bundledModel  = "bundled"
	scriptedModel = "scripted"
)

func TestMain(m *testing.M) {
	switch os.Getenv(served) {
	case bundledModel:
		engine := cli.Engine{Open: llamacpp.Open, Check: llamacpp.Check, Demo: demo.Path, Name: "llama.cpp"}
		os.Exit(cli.Main(engine, cli.Build{}, os.Args[1:]))
	case scriptedModel:
		os.Exit(serveScripted())
	}
	os.Exit(m.Run())
}

// floor is the share that all skills together have to get right.
const floor = 0.9

// least is the share of n questions that a skill has to get right: what one that is at its bar gets right in all but one of a hundred draws or so.
func least(bar float64, n int) float64 {
	return bar - 2.5*math.Sqrt(bar*(1-bar)/float64(n))
}

// TestBundledModelHoldsItsBars asks the bundled model some of the questions that were drawn when it was made, twice as many with
// RUNNER_LONG=1.
func TestBundledModelHoldsItsBars(t *testing.T) {
	sample := 10
	if os.Getenv("RUNNER_LONG") != "" {
		sample = 20
	}
	dir := filepath.Join("..", "..", "..", "models", "demo")
	f, err := os.Open(filepath.Join(dir, "testdata", "questions.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	list, err := read(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(served, bundledModel)
	// One thread: on a busy machine the engine's threads wait for one another longer than so small a model computes.
	s, err := start(t.Context(), os.Args[0], filepath.Join(dir, "demo.gguf"), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	}()
	e := &evaluation{server: s, count: sample, efforts: []string{"low", "medium", "high"}, out: io.Discard}
	if testing.Verbose() {
		e.verbose, e.out = true, t.Output()
	}
	for _, name := range names() {
		own := (&evaluation{questions: list}).of(name)
		e.questions = append(e.questions, spread(own, sample)...)
	}
	var all tally
	for _, s := range skills {
		switch s.name {
		case "efforts":
			levels, err := e.compareEfforts(t.Context(), s.name)
			if err != nil {
				t.Fatal(err)
			}
			if !apart(levels) {
				t.Errorf("efforts do not differ as they have to: %+v", levels)
			}
		case "speed":
		default:
			got, err := s.measure(t.Context(), e, &s)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: %s", s.name, got.figure)
			if got.tally.asked == 0 || got.tally.share() < least(s.bar, got.tally.asked) {
				t.Errorf("%s: %s, which is far from its bar of %s", s.name, got.figure, s.barText())
			}
			all.right, all.asked = all.right+got.tally.right, all.asked+got.tally.asked
		}
	}
	if all.share() < floor {
		t.Errorf("all skills together: %s, less than %.0f%%", all, 100*floor)
	}
}

// The answer that follows from a changed digit is what the columns give when they go on from it.
func TestSlips(t *testing.T) {
	for _, c := range []struct{ kind, answer, result, analysis, changed, want string }{
		{"add", "347 + 85 = 432.", "432", "I add 347 and 85. 347+85: 7+5=12, 4+8+1=13, 3+0+1=4, so 432.", "7+5=16", "347 + 85 = 436."},
		{"add", "347 + 85 = 432.", "432", "I add 347 and 85. 347+85: 7+5=12, 4+8+1=13, 3+0+1=4, so 432.", "4+8+1=10", "347 + 85 = 402."},
		{"add", "347 + 85 = 432.", "432", "I add 347 and 85. 347+85: 7+5=12, 4+8+1=13, 3+0+1=4, so 432.", "so 7", "347 + 85 = 732."},
		{"subtract", "85 - 432 = -347.", "-347", "I take 432 from 85. 85<432, minus, so 432-85: 12-5=7, 12-8=4, 3-0=3, so 347, with the minus -347.", "12-8=9", "85 - 432 = -397."},
		{"subtract", "85 - 432 = -347.", "-347", "I take 432 from 85. 85<432, minus, so 432-85: 12-5=7, 12-8=4, 3-0=3, so 347, with the minus -347.", "minus -341", "85 - 432 = -341."},
		{"multiply", "12 * 26 = 312.", "312", "12*6: 2*6=12, 1*6+1=7, so 72; 12*2: 2*2=4, 1*2=2, so 24, with a zero 240; 72+240: 2+0=2, 7+4=11, 0+2+1=3, so 312.", "1*6+1=9", "12 * 26 = 332."},
		{"multiply", "12 * 26 = 312.", "312", "12*6: 2*6=12, 1*6+1=7, so 72; 12*2: 2*2=4, 1*2=2, so 24, with a zero 240; 72+240: 2+0=2, 7+4=11, 0+2+1=3, so 312.", "2*2=5", "12 * 26 = 322."},
		{"multiply", "12 * 26 = 312.", "312", "12*6: 2*6=12, 1*6+1=7, so 72; 12*2: 2*2=4, 1*2=2, so 24, with a zero 240; 72+240: 2+0=2, 7+4=11, 0+2+1=3, so 312.", "zero 28", "12 * 26 = 352."},
		{"divide", "857 / 6 = 142 remainder 5.", "142 remainder 5", "857/6: 8/6=1 rest 2, 25/6=4 rest 1, 17/6=2 rest 5, so 142 rest 5.", "8/6=1 rest 0", "857 / 6 = 109 remainder 3."},
		{"divide", "857 / 6 = 142 remainder 5.", "142 remainder 5", "857/6: 8/6=1 rest 2, 25/6=4 rest 1, 17/6=2 rest 5, so 142 rest 5.", "17/6=2 rest 0", "857 / 6 = 142."},
	} {
		q := &question{Kind: c.kind, Expect: expect{Answer: c.answer, Result: c.result}}
		digit := c.changed[len(c.changed)-1]
		tried := false
		for _, s := range slips(q, c.analysis) {
			for n := range s.digits {
				got := s.change(c.analysis, n)
				if s.digits[n] != digit || !strings.HasSuffix(got.text, c.changed) {
					continue
				}
				if tried = true; got.answer != c.want {
					t.Errorf("%s: after %q comes %q, want %q", c.answer, c.changed, got.answer, c.want)
				}
			}
		}
		if !tried {
			t.Errorf("%s: %q is not tried", c.answer, c.changed)
		}
	}
}

func TestHolds(t *testing.T) {
	for _, c := range []struct {
		text, result string
		want         bool
	}{
		{"It makes 432.", "432", true}, {"It makes 1432.", "432", false}, {"It makes 4320, no, 432.", "432", true}, {"No, it is smaller.", "no", true},
		{"None of it.", "no", false}, {"In order: 12, 33, 45.", "12, 33, 45", true}, {"It costs $6.25.", "$6.25", true}, {"Nothing.", "", false},
	} {
		if got := holds(c.text, c.result); got != c.want {
			t.Errorf("holds(%q, %q) is %v", c.text, c.result, got)
		}
	}
}

func TestEqualJSON(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{`{"a": 1, "b": [2]}`, `{"b":[2],"a":1}`, true}, {`{"a": 12345678901234567890}`, `{"a": 12345678901234567891}`, false}, {`{"a": "1"}`, `{"a": 1}`, false},
		{`{"a": 1} and more`, `{"a": 1}`, false}, {``, ``, false},
	} {
		if got := equalJSON(c.a, c.b); got != c.want {
			t.Errorf("equalJSON(%s, %s) is %v", c.a, c.b, got)
		}
	}
}

// A number that stands neither in the reasoning nor in the conversation was invented.
func TestKnown(t *testing.T) {
	q := &question{Messages: []message{{"user", "What is 17 plus 25?"}}}
	for summary, want := range map[string]bool{"It makes 42.": true, "17 and 25 make 42.": true, "It makes 42, in 3 steps.": false, "It makes 420.": false} {
		if got := known(summary, "7+5=12, 1+2+1=4, so 42", q); got != want {
			t.Errorf("known(%q) is %v", summary, got)
		}
	}
}
