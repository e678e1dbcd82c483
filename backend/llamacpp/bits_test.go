package llamacpp

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"runner/backend"
	"runner/backend/llamacpp/kernels"
	"runner/backend/llamacpp/kernels/kernelstest"
	"runner/models/random"
	"runner/testenv"
)

// bitModels are small models in every format of weights that the kernels read. With all experts at work each product
// has as many columns as a chunk has tokens; with some of many it has any number.
func bitModels() map[string]random.Config {
	models := map[string]random.Config{
		"MXFP4":        {Layers: 2, Width: 96, FeedForward: 160, Experts: 2, Used: 2, Window: 48, Seed: 11},
		"MXFP4 routed": {Layers: 2, Width: 96, FeedForward: 160, Experts: 8, Used: 3, Window: 48, Seed: 12},
		// Rows of 1,024 weights and more are multiplied in another order of memory with AMX.
		"MXFP4 wide": {Layers: 2, Width: 1056, FeedForward: 1056, Experts: 4, Used: 2, Window: 48, Seed: 16},
		"Q8_0 wide":  {Architecture: "llama", Quant: "Q8_0", Layers: 2, Width: 1056, FeedForward: 1120, Seed: 17},
		"F32":        {Architecture: "llama", Precise: true, Layers: 2, Width: 96, FeedForward: 176, Seed: 13},
	}
	for _, format := range []string{"Q8_0", "Q4_0", "IQ4_NL", "F16", "BF16"} {
		models[format] = random.Config{Architecture: "llama", Quant: format, Layers: 2, Width: 96, FeedForward: 160, Seed: 14}
	}
	for _, format := range []string{"Q4_K", "Q5_K", "Q6_K", "IQ4_XS"} {
		models[format] = random.Config{Architecture: "llama", Quant: format, Layers: 2, Width: 256, FeedForward: 256,
			HeadSize: 64, Seed: 15}
	}
	return models
}

// fed has the logits after each token of a sequence, as bits.
type fed struct {
	tokens []backend.Token
	logits [][]uint32
}

// feed appends tokens to a sequence in one step and returns the logits after each of the last rows tokens.
func feed(t *testing.T, m *Model, s backend.Sequence, tokens []backend.Token, rows int) [][]uint32 {
	t.Helper()
	own := s.(*sequence)
	m.batch.clear()
	m.batch.add(own.id, len(own.tokens), tokens, 0, rows)
	if err := m.decode(t.Context()); err != nil {
		t.Fatal(err)
	}
	own.tokens = append(own.tokens, tokens...)
	own.held = len(own.tokens)
	own.protect()
	logits := make([][]uint32, rows)
	for i := range logits {
		row, err := m.logits(len(tokens) - rows + i)
		if err != nil {
			t.Fatal(err)
		}
		logits[i] = bitsOf(row)
	}
	return logits
}

func bitsOf(row []float32) []uint32 {
	bits := make([]uint32, len(row))
	for i, x := range row {
		bits[i] = math.Float32bits(x)
	}
	return bits
}

// inOnePiece feeds a sequence of n tokens in one step.
func inOnePiece(t *testing.T, m *Model, n int) fed {
	t.Helper()
	s, err := m.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	f := fed{tokens: kernelstest.Tokens(n, 2)}
	f.logits = feed(t, m, s, f.tokens, n)
	for i, row := range f.logits {
		for _, bits := range row {
			if x := math.Float32frombits(bits); math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
				t.Fatalf("a logit after token %d is %v", i, x)
			}
		}
	}
	return f
}

// check compares the logits after the tokens that end at token end.
func (f *fed) check(t *testing.T, how string, end int, got [][]uint32) {
	t.Helper()
	for i, row := range got {
		at := end - len(got) + i
		for k := range row {
			if row[k] != f.logits[at][k] {
				t.Fatalf("%s: after token %d logit %d is %.9g instead of %.9g", how, at, k,
					math.Float32frombits(row[k]), math.Float32frombits(f.logits[at][k]))
			}
		}
	}
}

// chunks feeds the tokens in chunks of a size, three at most.
func (f *fed) chunks(t *testing.T, m *Model, size int) {
	t.Helper()
	s, err := m.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := 0; i < 3 && len(s.Tokens()) < len(f.tokens); i++ {
		begin := len(s.Tokens())
		end := min(begin+size, len(f.tokens))
		rows := end - begin
		if i == 1 {
			rows = 1 // as for a prompt: the last layer then has one column
		}
		got := feed(t, m, s, f.tokens[begin:end], rows)
		f.check(t, fmt.Sprintf("chunks of %d tokens", size), end, got)
	}
}

// TestLogitsOfChunksOfEverySize compares prompts in chunks with the same in one piece. It draws some sizes for each
// format; RUNNER_LONG=1 takes all.
func TestLogitsOfChunksOfEverySize(t *testing.T) {
	const small, most = 70, 600
	large := []int{127, 128, 129, 191, 255, 256, 257, 300, 511, 512, 513, 599}
	models := bitModels()
	for _, format := range kernels.Formats() {
		if _, ok := models[format]; !ok {
			t.Errorf("weights in %s are not tested", format)
		}
	}
	rng := rand.New(rand.NewPCG(testenv.Seed(t), 1))
	kernelstest.ForEach(t, func(t *testing.T, _ string) {
		for _, name := range slices.Sorted(maps.Keys(models)) {
			t.Run(name, func(t *testing.T) {
				path := writeModel(t, models[name])
				m := openModel(t, path, backend.Config{ContextSize: 1024, BatchSize: most, Sequences: 1})
				f := inOnePiece(t, m, most)
				sizes := rng.Perm(small)[:12]
				sizes = append(sizes, large[rng.IntN(len(large))]-1)
				if os.Getenv("RUNNER_LONG") != "" {
					sizes = nil
					for i := range small {
						sizes = append(sizes, i)
					}
					for _, n := range large {
						sizes = append(sizes, n-1)
					}
				}
				for _, size := range sizes {
					f.chunks(t, m, size+1)
				}
			})
		}
	})
}

// threadCounts are also more than there are processors.
var threadCounts = []int{1, 2, 3, 5, 8}

// TestLogitsInAnyPlace feeds a sequence beside others that come and go, so that its tokens are anywhere in the cache
// and in batches of all kinds, with any number of helpers. Without RUNNER_LONG=1 each of the formats besides MXFP4 gets
// one number of helpers.
func TestLogitsInAnyPlace(t *testing.T) {
	rounds := 1
	if os.Getenv("RUNNER_LONG") != "" {
		rounds = 60
	}
	rng := rand.New(rand.NewPCG(testenv.Seed(t), 2))
	models := kernelstest.Models()
	models["wide"] = random.Config{Layers: 2, Width: 256, FeedForward: 512, HeadSize: 64, Seed: 16}
	for name, c := range models {
		c.Window = 48
		models[name] = c
	}
	for _, format := range kernelstest.Formats {
		models[format] = kernelstest.InFormat(format)
	}
	kernelstest.ForEach(t, func(t *testing.T, _ string) {
		for _, name := range slices.Sorted(maps.Keys(models)) {
			t.Run(name, func(t *testing.T) {
				threadCounts := threadCounts
				if slices.Contains(kernelstest.Formats, name) && rounds == 1 {
					threadCounts = []int{2 + rng.IntN(2)}
				}
				path := writeModel(t, models[name])
				f := inOnePiece(t, openModel(t, path, backend.Config{ContextSize: 512, Sequences: 1}), 200)
				for _, threads := range threadCounts {
					cfg := backend.Config{ContextSize: 256 << rng.IntN(2), Sequences: 6, Threads: threads}
					m := openModel(t, path, cfg)
					if m.threads != 1 {
						t.Fatalf("the engine has %d threads; %d are to help", m.threads, threads-1)
					}
					for range rounds {
						f.anywhere(t, m, rng)
					}
				}
			})
		}
	})
}

// TestLogitsOnTheEnginesThreads does the same on the engine's own threads. These wait for each other after every
// operation, which takes long where they are more than the processors. So RUNNER_LONG=1 tests that, and a sample is of
// one model with two.
func TestLogitsOnTheEnginesThreads(t *testing.T) {
	rng := rand.New(rand.NewPCG(testenv.Seed(t), 3))
	long := os.Getenv("RUNNER_LONG") != ""
	e, err := BuiltIn()
	if err != nil {
		t.Fatal(err)
	}
	unhelped := *e
	unhelped.facts.Kernels = "" // the engine gets the threads then, as for large models
	kernelstest.ForEach(t, func(t *testing.T, _ string) {
		models := kernelstest.Models()
		names, threads := slices.Sorted(maps.Keys(models)), threadCounts[1:]
		if !long {
			names, threads = []string{names[rng.IntN(len(names))]}, []int{2}
		}
		for _, name := range names {
			t.Run(name, func(t *testing.T) {
				c := models[name]
				c.Layers, c.Window = 2, 32
				path := writeModel(t, c)
				f := inOnePiece(t, openModel(t, path, backend.Config{ContextSize: 256, Sequences: 1}), 70)
				for _, threads := range threads {
					m, err := unhelped.open(t.Context(), path, backend.Config{ContextSize: 256, Sequences: 6, Threads: threads})
					if err != nil {
						t.Fatal(err)
					}
					if m.threads != threads {
						t.Fatalf("the engine has %d threads instead of %d", m.threads, threads)
					}
					f.anywhere(t, m, rng)
					m.Close()
				}
			})
		}
	})
}

// anywhere feeds the tokens in steps that draw what else happens. At the end the model has no sequence.
func (f *fed) anywhere(t *testing.T, m *Model, rng *rand.Rand) {
	t.Helper()
	open := func() backend.Sequence {
		s, err := m.NewSequence()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	others := []backend.Sequence{open(), open(), open(), open()}
	own := open()
	defer func() {
		for _, s := range append(others, own) {
			s.Close()
		}
	}()
	for step := 0; len(own.Tokens()) < len(f.tokens); step++ {
		f.disturb(t, others, open, rng)
		own = f.goBack(t, own, rng)
		begin := len(own.Tokens())
		end := min(begin+1+rng.IntN(1<<rng.IntN(7)), len(f.tokens))
		in := []backend.Input{{Sequence: own, Tokens: f.tokens[begin:end], Logits: make([]float32, m.vocab.Len())}}
		for i, s := range others {
			if n := 1 + rng.IntN(20); rng.IntN(2) == 0 && len(s.Tokens())+n < 200 {
				in = append(in, backend.Input{Sequence: s, Tokens: kernelstest.Tokens(n, i+rng.IntN(100))})
			}
		}
		rng.Shuffle(len(in), func(i, j int) { in[i], in[j] = in[j], in[i] })
		if err := m.Step(t.Context(), in, make([]backend.Output, len(in))); err != nil {
			t.Fatal(err)
		}
		for i := range in {
			if in[i].Sequence == own {
				f.check(t, fmt.Sprintf("step %d, tokens %d to %d beside %d sequences", step, begin, end-1, len(in)-1), end,
					[][]uint32{bitsOf(in[i].Logits)})
			}
		}
	}
}

// disturb closes or shortens one of the other sequences now and then.
func (f *fed) disturb(t *testing.T, others []backend.Sequence, open func() backend.Sequence, rng *rand.Rand) {
	t.Helper()
	i := rng.IntN(len(others))
	switch rng.IntN(4) {
	case 0:
		others[i].Close()
		others[i] = open()
	case 1:
		if _, err := others[i].Truncate(rng.IntN(len(others[i].Tokens()) + 1)); err != nil {
			t.Fatal(err)
		}
	}
}

// goBack shortens the sequence now and then, or goes on with a fork of it.
func (f *fed) goBack(t *testing.T, own backend.Sequence, rng *rand.Rand) backend.Sequence {
	t.Helper()
	n := len(own.Tokens())
	switch rng.IntN(6) {
	case 0:
		if _, err := own.Truncate(max(n-rng.IntN(30), 0)); err != nil {
			t.Fatal(err)
		}
	case 1:
		fork, err := own.Fork()
		if err != nil {
			t.Fatal(err)
		}
		own.Close()
		return fork
	}
	return own
}

// TestKernelsOnTheEnginesThreads checks that the kernels give the same logits where the engine's own threads share them
// out, as they do for models that no team helps: here because of the type of the cache.
func TestKernelsOnTheEnginesThreads(t *testing.T) {
	kernelstest.ForEach(t, func(t *testing.T, _ string) {
		path := writeModel(t, random.Config{Layers: 2, Width: 96, FeedForward: 160, Seed: 3})
		tokens := kernelstest.Tokens(150, 1)
		var want []float32
		for _, threads := range []int{1, 3} {
			m := openModel(t, path, backend.Config{ContextSize: 512, Sequences: 1, Threads: threads, CacheType: "f32"})
			if m.threads != threads {
				t.Fatalf("the engine has %d threads instead of %d", m.threads, threads)
			}
			s, err := m.NewSequence()
			if err != nil {
				t.Fatal(err)
			}
			got := kernelstest.Logits(t, m, s, tokens, 64)
			if want == nil {
				want = got
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%d threads give other logits", threads)
			}
		}
	})
}
