package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/gguf"
	"runner/backend/llamacpp"
	"runner/backend/tokenizer"
	"runner/generation"
	"runner/models/demo"
	"runner/models/random"
	"runner/models/random/randomtest"
	"runner/reasoning"
	"runner/runner"
	"runner/runner/drafts"
)

// scripted makes a model say what a script says. It computes every step as ever, and its constraints leave only the
// script's token. So guesses are right as often as the script repeats itself.
type scripted struct {
	backend.Model
	start  int // length of the prompt
	script []backend.Token
	steps  atomic.Int64
}

// only is a constraint that allows one token.
type only backend.Token

func (o only) Allows(t backend.Token) bool { return t == backend.Token(o) }

func (o only) Fill(m backend.Mask) {
	m.Clear()
	m.Set(backend.Token(o))
}

func (s *scripted) Step(ctx context.Context, inputs []backend.Input, outputs []backend.Output) error {
	list := slices.Clone(inputs)
	for i := range list {
		in := &list[i]
		if in.Sampling == nil {
			continue
		}
		at := len(in.Sequence.Tokens()) + len(in.Tokens) - s.start
		says := func(at int) backend.Constraint { return only(s.script[max(0, min(at, len(s.script)-1))]) }
		in.Constraint, in.Drafts = says(at), slices.Clone(in.Drafts)
		for k := range in.Drafts {
			in.Drafts[k].Constraint = says(at + k + 1)
		}
	}
	defer s.steps.Add(1)
	return s.Model.Step(ctx, list, outputs)
}

// await waits until there were so many steps.
func (s *scripted) await(steps int) {
	for s.steps.Load() < int64(steps) {
		time.Sleep(time.Millisecond)
	}
}

// draftTask is a prompt and what follows it.
type draftTask struct {
	name           string
	prompt, script []backend.Token
}

// draftTasks returns a copy of the prompt in which one token in five is another, so that four guesses of five are
// right, one in which one in thirty is, and a text that repeats only what any text repeats.
func draftTasks(vocabulary int) []draftTask {
	rng := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(rng, 1.1, 8, 4000)
	words := func(n int) (text []backend.Token) {
		for range n {
			text = append(text, backend.Token(300+int(zipf.Uint64())%(vocabulary-2000)))
		}
		return text
	}
	code := words(400)
	edit := func(one int) []backend.Token {
		text := slices.Clone(code)
		for i := range text {
			if rng.IntN(one) == 0 {
				text[i] = words(1)[0]
			}
		}
		return text
	}
	return []draftTask{{"edited-1in5", code, edit(5)}, {"edited-1in30", code, edit(30)}, {"new", code, words(len(code))}}
}

// textTasks returns three tasks of everyday work, in the bundled model's tokens: a name changed in 200 lines of code, a
// list of people written as JSON, and lines of a tool's result quoted one by one.
func textTasks(b *testing.B) []draftTask {
	// The text does not change with the program, so that figures of all versions can be compared.
	source, err := os.ReadFile("testdata/drafts/code.txt")
	if err != nil {
		b.Fatal(err)
	}
	code := string(source)
	rng := rand.New(rand.NewPCG(3, 4))
	pick := func(list ...string) string { return list[rng.IntN(len(list))] }
	var people, objects, log, quotes strings.Builder
	for i := range 24 {
		first, last := pick("Ada", "Grace", "Alan", "Edsger", "Barbara"), pick("Lovelace", "Hopper", "Turing", "Liskov")
		town, age := pick("London", "Lyon", "Turin", "Boston", "Kyoto"), 20+rng.IntN(60)
		fmt.Fprintf(&people, "%s %s is %d years old and lives in %s. ", first, last, age, town)
		fmt.Fprintf(&objects, "  {\"first\": %q, \"last\": %q, \"age\": %d, \"town\": %q},\n", first, last, age, town)
		line := fmt.Sprintf("2026-03-%02dT%02d:%02d:07Z worker-%d: %s after %d ms", 1+i, rng.IntN(24), rng.IntN(60),
			rng.IntN(9), pick("connection refused", "request done", "disk is full", "cache was empty"), rng.IntN(900))
		fmt.Fprintln(&log, line)
		fmt.Fprintf(&quotes, "- %s The line is `%s`.\n", pick("This one is an error.", "This one is fine."), line)
	}
	tasks := []draftTask{
		{"code", tokensOf(b, code), tokensOf(b, strings.ReplaceAll(code, "benchOptions", "measureOptions"))},
		{"json", tokensOf(b, people.String()), tokensOf(b, "[\n"+objects.String()+"]")},
		{"quotes", tokensOf(b, log.String()), tokensOf(b, quotes.String())},
	}
	for i := range tasks {
		tasks[i].script = tasks[i].script[:min(len(tasks[i].script), 400)]
	}
	return tasks
}

// tokensOf tokenizes a text with the bundled model's vocabulary.
func tokensOf(b *testing.B, text string) []backend.Token {
	path, err := demo.Path(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	k, err := tokenizer.FromGGUF(f, nil)
	if err != nil {
		b.Fatal(err)
	}
	tokens, err := k.Encode(nil, text)
	if err != nil {
		b.Fatal(err)
	}
	return tokens
}

// draftShapes are the models of the benchmarks of drafts. Their vocabularies are as small as they are short, so that a
// step divides its time as in the whole model.
var draftShapes = []struct {
	name  string
	shape random.Config
}{
	{"dense", random.Config{Architecture: "llama", Layers: 4, Width: 2048, Heads: 32, KVHeads: 8, HeadSize: 64,
		FeedForward: 8192, Vocabulary: 12800, Context: 16384}},
	{"experts", random.Config{Layers: 4, Width: 2880, Heads: 64, KVHeads: 8, HeadSize: 64, Experts: 32, Used: 4,
		FeedForward: 2880, Vocabulary: 33536, Context: 16384}},
	{"small", random.Config{Layers: 6, Width: 256, Heads: 8, FeedForward: 256, Vocabulary: 8192, Context: 16384}},
}

// writeShape writes a model with random weights.
func writeShape(b *testing.B, shape random.Config) string {
	path := filepath.Join(b.TempDir(), "model.gguf")
	if err := randomtest.WriteFile(path, shape); err != nil {
		b.Fatal(err)
	}
	return path
}

// open loads a model that says the task's script.
func (task *draftTask) open(b *testing.B, path string, cfg runner.Config) (*runner.Runner, *scripted) {
	m, err := llamacpp.Open(context.Background(), path, backend.Config{
		ContextSize: 2 * (len(task.prompt) + len(task.script) + 16), Sequences: 2})
	if err != nil {
		b.Fatal(err)
	}
	s := &scripted{Model: m, start: len(task.prompt), script: task.script}
	r, err := runner.New(s, cfg)
	if err != nil {
		b.Fatal(err)
	}
	return r, s
}

// decode runs the task and returns how long it decoded.
func (task *draftTask) decode(b *testing.B, r *runner.Runner) time.Duration {
	req := generation.Request{PromptTokens: task.prompt, MaxTokens: len(task.script), IgnoreEnd: true}
	for e, err := range r.Generate(b.Context(), req, generation.Unobserved{}) {
		if err != nil {
			b.Fatal(err)
		}
		if e.Kind == reasoning.Done {
			return e.Result.Timing.Decode
		}
	}
	b.Fatal("no end")
	return 0
}

// BenchmarkDrafts compares decoding with and without drafts in pairs. It reports the median ratio of their speeds, and
// how many guesses were right.
func BenchmarkDrafts(b *testing.B) {
	for _, c := range draftShapes {
		b.Run(c.name, func(b *testing.B) {
			path := writeShape(b, c.shape)
			for _, task := range append(draftTasks(c.shape.Vocabulary), textTasks(b)...) {
				b.Run(task.name, func(b *testing.B) { benchmarkDrafts(b, path, &task) })
			}
		})
	}
}

func benchmarkDrafts(b *testing.B, path string, task *draftTask) {
	off, _ := task.open(b, path, runner.Config{Drafts: runner.DraftsOff})
	auto, _ := task.open(b, path, runner.Config{})
	defer off.Close()
	defer auto.Close()
	task.decode(b, off) // reads the file
	task.decode(b, auto)
	var ratios []float64
	for b.Loop() {
		var took [2]time.Duration // without and with drafts, in turns first
		for i := range took {
			if which := (i + len(ratios)) % 2; which == 0 {
				took[which] = task.decode(b, off)
			} else {
				took[which] = task.decode(b, auto)
			}
		}
		ratios = append(ratios, float64(took[0])/float64(took[1]))
	}
	s := auto.Stats()
	b.ReportMetric(median(ratios), "times")
	b.ReportMetric(float64(s.Accepted)/max(1, float64(s.Drafted)), "right")
	b.ReportMetric(float64(s.Drafted)/float64(len(ratios)+1)/float64(len(task.script)), "guesses/token")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkFirstDrafts compares the first 160 tokens after loading without drafts, with drafts, and with drafts whose
// costs were measured before. It reports the median ratios to the first of these, and how long measuring took.
func BenchmarkFirstDrafts(b *testing.B) {
	for _, c := range draftShapes {
		b.Run(c.name, func(b *testing.B) {
			path := writeShape(b, c.shape)
			for _, task := range draftTasks(c.shape.Vocabulary) {
				task.script = task.script[:160]
				b.Run(task.name, func(b *testing.B) { benchmarkFirstDrafts(b, path, &task) })
			}
		})
	}
}

func benchmarkFirstDrafts(b *testing.B, path string, task *draftTask) {
	ways := [3]runner.Config{{Drafts: runner.DraftsOff}, {}, {MeasureCosts: true}}
	var learned, measured, measuring []float64
	guesses := 0.0
	for b.Loop() {
		var took [len(ways)]time.Duration
		for i := range ways {
			which := (i + len(learned)) % len(ways)
			r, s := task.open(b, path, ways[which])
			if !s.Capabilities().Drafts {
				b.Skip("on this machine the engine takes no drafts")
			}
			if ways[which].MeasureCosts {
				s.await(1)
				began := time.Now() // without the first step
				s.await(2 * len(drafts.Widths))
				measuring = append(measuring, time.Since(began).Seconds()*1000)
				time.Sleep(time.Millisecond) // the scheduler notes the costs
			}
			took[which] = task.decode(b, r)
			if ways[which].MeasureCosts {
				guesses += float64(r.Stats().Drafted)
			}
			r.Close()
		}
		learned = append(learned, float64(took[0])/float64(took[1]))
		measured = append(measured, float64(took[0])/float64(took[2]))
	}
	b.ReportMetric(median(learned), "times")
	b.ReportMetric(median(measured), "times-measured")
	b.ReportMetric(median(measuring), "ms-to-measure")
	b.ReportMetric(guesses/float64(len(measured))/float64(len(task.script)), "guesses/token-measured")
	b.ReportMetric(0, "ns/op")
}

// median returns the median of some figures, the upper one of two.
func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}
