package main

import (
	"bytes"
	"io"
	"math"
	"os"
	"os/exec"
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

// least is the share of n questions that a skill has to get right: what one that is at its bar gets right in all but one of a hundred draws or so.
func least(bar float64, n int) float64 {
	return bar - 2.5*math.Sqrt(bar*(1-bar)/float64(n))
}

// floors are shares that skills have to get right whatever few questions are asked: those that have no bar, and those that could do this before
// the model learned the others. Under "" stands what all skills have to get right together.
var floors = map[string]float64{"": 0.9, "arithmetic": 0.9, "identity": 0.9, "summaries": 0.85, "causal": 0.9, "chains": 0.8, "wordings": 0.8, "warm": 0.8}

// TestBundledModelHoldsItsBars asks the bundled model some of the questions that were drawn when it was made, and all of them with
// RUNNER_LONG=1.
func TestBundledModelHoldsItsBars(t *testing.T) {
	sample := 10
	if os.Getenv("RUNNER_LONG") != "" {
		sample = 40
	}
	dir := filepath.Join("..", "..", "..", "models", "demo")
	list := drawn(t)
	t.Setenv(served, bundledModel)
	s, err := start(t.Context(), os.Args[0], filepath.Join(dir, "demo.gguf"), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	}()
	e := &evaluation{server: s, count: 2 * sample, efforts: []string{"low", "medium", "high"}, out: io.Discard}
	if testing.Verbose() {
		e.verbose, e.out = true, t.Output()
	}
	for _, name := range names() {
		own := (&evaluation{questions: list}).of(name)
		n := sample
		if name == "arithmetic" || name == "identity" {
			n = max(n, 40)
		}
		e.questions = append(e.questions, spread(own, n)...)
	}
	var all tally
	for _, s := range skills {
		switch s.name {
		case "efforts":
			all.add(compared(t, e, &s))
		case "speed":
			rate, questions, err := e.rate(t.Context(), &s)
			if err != nil {
				t.Fatal(err)
			}
			if t.Logf("%s: %.0f over %d questions", s.name, rate, questions); rate < s.bar {
				t.Errorf("%s: %.0f, the bar is %s", s.name, rate, s.barText())
			}
		default:
			got, err := s.measure(t.Context(), e, &s)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: %s", s.name, got.figure)
			if floor := max(floors[s.name], least(s.bar, got.tally.asked)); got.tally.asked == 0 || got.tally.share() < floor {
				t.Errorf("%s: %s, less than %.1f%%; the bar is %s", s.name, got.figure, 100*floor, s.barText())
			}
			all.add(got.tally)
		}
	}
	if all.share() < floors[""] {
		t.Errorf("all skills together: %s, less than %.0f%%", all, 100*floors[""])
	}
}

// compared holds the efforts to their lengths, and to answers that get no worse by more than the draw of the questions explains.
func compared(t *testing.T, e *evaluation, s *skill) (all tally) {
	levels, err := e.compareEfforts(t.Context(), s.name)
	if err != nil {
		t.Fatal(err)
	}
	if !apart(levels) {
		t.Error("efforts do not differ as they have to")
	}
	for i, l := range levels {
		t.Logf("effort %s: %d tokens, %s", l.effort, l.median, l.tally)
		all.add(l.tally)
		if before := levels[max(0, i-1)]; l.asked == 0 || l.share() < least(min(0.95, max(0.9, before.share())), l.asked) {
			t.Errorf("at effort %s: %s, at effort %s: %s", l.effort, l.tally, before.effort, before.tally)
		}
	}
	return all
}

// drawn are the questions that are kept with the model.
func drawn(t *testing.T) []question {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "..", "models", "demo", "testdata", "questions.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	list, err := read(f)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestQuestionsAreDrawn draws the kept questions again.
func TestQuestionsAreDrawn(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3 to draw questions with")
	}
	got, err := exec.CommandContext(t.Context(), python, filepath.Join("..", "make_eval.py"), "--seed", "2", "--count", "40").Output()
	if err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile(filepath.Join("..", "..", "..", "models", "demo", "testdata", "questions.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, kept) {
		t.Error("make_eval.py draws other questions than those that are kept: write them anew with `make_eval.py --seed 2 --count 40 --out models/demo/testdata/questions.jsonl`")
	}
	for _, name := range names() {
		if pools[name] == nil && len((&evaluation{questions: drawn(t)}).of(name)) < 40 {
			t.Errorf("there are fewer than 40 questions about %s", name)
		}
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
		{"It makes -18.", "18", false}, {"It makes -18.", "-18", true}, {"21-18", "18", true},
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
