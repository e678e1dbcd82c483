package main

import (
	"bytes"
	"context"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"runner/backend/llamacpp"
	"runner/cmd/runner/cli"
	_ "runner/cmd/runner/rooms"
	"runner/models/demo"
)

// served makes this test program the evaluated program, with the model that it names.
const (
	served        = "RUNNER_EVAL_SERVED"
	bundledModel  = "bundled"
	scriptedModel = "scripted"
)

func TestMain(m *testing.M) {
	switch os.Getenv(served) {
	case bundledModel:
		choose := func(_ context.Context, path, _ string, _ func(string)) (string, error) {
			return "", llamacpp.Check(path)
		}
		engine := cli.Engine{Open: llamacpp.Open, Choose: choose, Demo: demo.Path, Name: "llama.cpp"}
		os.Exit(cli.Main(engine, cli.Build{}, os.Args[1:]))
	case scriptedModel:
		os.Exit(serveScripted())
	}
	os.Exit(m.Run())
}

// least is the share of n questions that a skill must get right: the share that a skill at its bar reaches in all
// but about one of a hundred draws.
func least(bar float64, n int) float64 {
	return bar - 2.5*math.Sqrt(bar*(1-bar)/float64(n))
}

// floors are the shares that skills must get right however few questions are asked: skills without a bar, and
// skills that the model had before it learned the others. "" is the share over all skills.
var floors = map[string]float64{"": 0.9, "arithmetic": 0.9, "identity": 0.9, "summaries": 0.85, "causal": 0.9,
	"chains": 0.8, "near": 0.8, "wordings": 0.8, "warm": 0.8}

// TestBundledModelHoldsItsBars asks the bundled model some of the questions that were drawn when it was made. With
// RUNNER_LONG=1 it asks all questions of the tables on the model's card, and the bars apply unchanged.
func TestBundledModelHoldsItsBars(t *testing.T) {
	long := os.Getenv("RUNNER_LONG") != ""
	e := &evaluation{count: 20, efforts: []string{"low", "medium", "high"}, out: io.Discard}
	if testing.Verbose() {
		e.verbose, e.out = true, t.Output()
	}
	if long {
		e.count = 500
		e.questions = parsed(t, draw(t, 21, e.count))
	} else {
		for _, name := range names() {
			n := 10
			switch name {
			case "arithmetic":
				n = 80
			case "identity", "near":
				n = 20
			case "tools", "rationale":
				n = 40
			}
			e.questions = append(e.questions, spread((&evaluation{questions: drawn(t)}).of(name), n)...)
		}
	}
	floor := func(s *skill, n int) float64 {
		if long {
			return max(floors[s.name], s.bar)
		}
		return max(floors[s.name], least(s.bar, n))
	}
	t.Setenv(served, bundledModel)
	s, err := start(t.Context(), os.Args[0], filepath.Join(model, "demo.gguf"), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	}()
	e.server = s
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
			if least := floor(&s, got.tally.asked); got.tally.asked == 0 || got.tally.share() < least {
				t.Errorf("%s: %s, less than %.1f%%; the bar is %s", s.name, got.figure, 100*least, s.barText())
			}
			all.add(got.tally)
		}
	}
	for _, k := range e.kinds {
		floor := floors["arithmetic"]
		switch {
		case long && (k.name == "add" || k.name == "subtract"):
			floor = 0.95
		case long:
			floor = least(0.95, k.asked) // the bar is that of all four together
		}
		if k.skill == "arithmetic" && k.share() < floor {
			t.Errorf("%s alone: %s, less than %.1f%%", k.name, k.tally, 100*floor)
		}
	}
	if all.share() < floors[""] {
		t.Errorf("all skills together: %s, less than %.0f%%", all, 100*floors[""])
	}
}

// compared checks that higher efforts are longer and do not answer worse.
func compared(t *testing.T, e *evaluation, s *skill) (all tally) {
	levels, err := e.compareEfforts(t.Context(), s.name)
	if err != nil {
		t.Fatal(err)
	}
	if !apart(levels) {
		t.Error("efforts do not differ as they have to")
	}
	for i := range levels {
		l := &levels[i]
		t.Logf("effort %s: %d tokens, %s", l.effort, l.median, l.tally)
		all.add(l.tally)
		for j := range levels[:i] {
			if gained, lost := l.against(&levels[j]); chance(gained, lost) < falling {
				t.Errorf("at effort %s: %s, at effort %s: %s; %d more are right and %d are no more", l.effort, l.tally,
					levels[j].effort, levels[j].tally, gained, lost)
			}
		}
	}
	return all
}

// model is the folder of the bundled model.
var model = filepath.Join("..", "..", "..", "models", "demo")

// drawn are the questions stored with the model.
func drawn(t *testing.T) []question {
	t.Helper()
	return parsed(t, kept(t))
}

func kept(t *testing.T) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(model, "testdata", "questions.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func parsed(t *testing.T, lines []byte) []question {
	t.Helper()
	list, err := read(bytes.NewReader(lines))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// draw draws questions.
func draw(t *testing.T, seed, count int) []byte {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3, which draws the questions, is missing: ", err)
	}
	lines, err := exec.CommandContext(t.Context(), python, filepath.Join("..", "make_eval.py"), "--seed",
		strconv.Itoa(seed), "--count", strconv.Itoa(count)).Output()
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// TestQuestionsAreDrawn draws the stored questions again.
func TestQuestionsAreDrawn(t *testing.T) {
	if !bytes.Equal(draw(t, 2, 80), kept(t)) {
		t.Error("make_eval.py draws questions that differ from the stored ones: write them again with `make_eval.py --seed " +
			"2 --count 80 --out models/demo/testdata/questions.jsonl`")
	}
	for _, name := range names() {
		if pools[name] == nil && len((&evaluation{questions: drawn(t)}).of(name)) < 80 {
			t.Errorf("there are fewer than 80 questions about %s", name)
		}
	}
}

// The answer that follows from a changed digit is the result of continuing the columns from it.
func TestSlips(t *testing.T) {
	for _, c := range []struct{ kind, answer, result, analysis, changed, want string }{
		{"add", "347 + 85 = 432.", "432", "I add 347 and 85. 347+85: 7+5=12, 4+8+1=13, 3+0+1=4, so 432.", "7+5=16",
			"347 + 85 = 436."},
		{"add", "347 + 85 = 432.", "432", "I add 347 and 85. 347+85: 7+5=12, 4+8+1=13, 3+0+1=4, so 432.", "4+8+1=10",
			"347 + 85 = 402."},
		{"add", "347 + 85 = 432.", "432", "I add 347 and 85. 347+85: 7+5=12, 4+8+1=13, 3+0+1=4, so 432.", "so 7",
			"347 + 85 = 732."},
		{"subtract", "85 - 432 = -347.", "-347",
			"I take 432 from 85. 85<432, minus, so 432-85: 12-5=7, 12-8=4, 3-0=3, so 347, with the minus -347.", "12-8=9",
			"85 - 432 = -397."},
		{"subtract", "85 - 432 = -347.", "-347",
			"I take 432 from 85. 85<432, minus, so 432-85: 12-5=7, 12-8=4, 3-0=3, so 347, with the minus -347.", "minus -341",
			"85 - 432 = -341."},
		{"multiply", "12 * 26 = 312.", "312", "12*6: 2*6=12, 1*6+1=7, so 72; 12*2: 2*2=4, 1*2=2, so 24, with a zero " +
			"240; 72+240: 2+0=2, 7+4=11, 0+2+1=3, so 312.", "1*6+1=9", "12 * 26 = 332."},
		{"multiply", "12 * 26 = 312.", "312", "12*6: 2*6=12, 1*6+1=7, so 72; 12*2: 2*2=4, 1*2=2, so 24, with a zero " +
			"240; 72+240: 2+0=2, 7+4=11, 0+2+1=3, so 312.", "2*2=5", "12 * 26 = 322."},
		{"multiply", "12 * 26 = 312.", "312", "12*6: 2*6=12, 1*6+1=7, so 72; 12*2: 2*2=4, 1*2=2, so 24, with a zero " +
			"240; 72+240: 2+0=2, 7+4=11, 0+2+1=3, so 312.", "zero 28", "12 * 26 = 352."},
		{"divide", "857 / 6 = 142 remainder 5.", "142 remainder 5",
			"857/6: 8/6=1 rest 2, 25/6=4 rest 1, 17/6=2 rest 5, so 142 rest 5.", "8/6=1 rest 0", "857 / 6 = 109 remainder 3."},
		{"divide", "857 / 6 = 142 remainder 5.", "142 remainder 5",
			"857/6: 8/6=1 rest 2, 25/6=4 rest 1, 17/6=2 rest 5, so 142 rest 5.", "17/6=2 rest 0", "857 / 6 = 142."},
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
		{"It makes 432.", "432", true}, {"It makes 1432.", "432", false}, {"It makes 4320, no, 432.", "432", true},
		{"No, it is smaller.", "no", true},
		{"None of it.", "no", false}, {"In order: 12, 33, 45.", "12, 33, 45", true}, {"It costs $6.25.", "$6.25", true},
		{"Nothing.", "", false},
		{"It makes -18.", "18", false}, {"It makes -18.", "-18", true}, {"21-18", "18", true},
	} {
		if got := holds(c.text, c.result); got != c.want {
			t.Errorf("holds(%q, %q) is %v", c.text, c.result, got)
		}
	}
}

func TestChance(t *testing.T) {
	for _, c := range []struct {
		gained, lost int
		want         float64
	}{{0, 0, 1}, {0, 1, 0.5}, {1, 0, 1}, {0, 5, 0.03125}, {1, 4, 0.1875}, {8, 2, 0.98925781}, {2, 8, 0.0546875},
		{23, 25, 0.44271675}, {1500, 1500, 0.50728296}} {
		if got := chance(c.gained, c.lost); math.Abs(got-c.want) > 1e-5 {
			t.Errorf("%d gained and %d lost: %v, want %v", c.gained, c.lost, got, c.want)
		}
	}
}

func TestEqualJSON(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{`{"a": 1, "b": [2]}`, `{"b":[2],"a":1}`, true}, {`{"a": 12345678901234567890}`, `{"a": 12345678901234567891}`,
			false}, {`{"a": "1"}`, `{"a": 1}`, false},
		{`{"a": 1} and more`, `{"a": 1}`, false}, {``, ``, false},
	} {
		if got := equalJSON(c.a, c.b); got != c.want {
			t.Errorf("equalJSON(%s, %s) is %v", c.a, c.b, got)
		}
	}
}

// A number that is neither in the reasoning nor in the conversation was invented.
func TestKnown(t *testing.T) {
	q := &question{Messages: []message{{"user", "What is 17 plus 25?"}}}
	for summary, want := range map[string]bool{"It makes 42.": true, "17 and 25 make 42.": true,
		"It makes 42, in 3 steps.": false, "It makes 420.": false} {
		if got := known(summary, "7+5=12, 1+2+1=4, so 42", q); got != want {
			t.Errorf("known(%q) is %v", summary, got)
		}
	}
}
