package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/backendtest"
	"runner/backend/child/protocol"
	"runner/backend/child/serve"
	"runner/backend/fake"
	"runner/backend/ledger"
)

// engineVariable names the engine that the test program is to be, instead of running tests.
const engineVariable = "RUNNER_TEST_ENGINE"

func TestMain(m *testing.M) {
	if kind := os.Getenv(engineVariable); kind != "" {
		os.Exit(beEngine(kind))
	}
	os.Exit(m.Run())
}

// poison is a token that makes the engine crash, and hang one that makes it hang. The engine "hungry" takes memory
// until it gets no more, or says that it has none.
const (
	poison = backend.Token(301)
	hang   = backend.Token(302)
)

// description is what the engine "described" says of itself.
var description = protocol.About{Architectures: []string{"llama", "qwen35"}, Devices: []string{"a card"},
	Kernels: "libcpu.so", Missing: []string{"libgpu.so: no driver"}}

// crashes is the content of a file that makes the engine "marked" crash when it loads it.
const crashes = "crashes"

// digested is a model with a digest.
type digested struct {
	backend.Model
	digest string
}

func (d digested) Info() backend.Info {
	info := d.Model.Info()
	info.Header = d.digest
	return info
}

// limitSelf limits the memory of this process where the system can.
var limitSelf = func(int64) {}

// beEngine serves the fake engine.
func beEngine(kind string) int {
	open := func(_ context.Context, path string, cfg backend.Config) (backend.Model, error) {
		if kind == "unloadable" {
			return nil, &backend.LoadError{Path: path, Reason: backend.LoadTruncated, Detail: "ends early",
				Advice: "get it again"}
		}
		if step := map[string]float32{"stuck": 0, "slow": 0.1}[kind]; kind == "stuck" || kind == "slow" {
			for fraction := float32(0.05); fraction < 1; fraction += step { // stuck reports the same over and over
				time.Sleep(300 * time.Millisecond)
				cfg.Progress(fraction)
			}
		}
		if kind == "marked" { // loads while the file is there, and counts its tries
			count, err := os.OpenFile(path+".loads", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err == nil {
				_, err = count.WriteString(".")
				count.Close()
			}
			if err != nil {
				return nil, err
			}
			name := path
			if cfg.Files != nil {
				name = backend.NameOf(cfg.Files.Held())
			}
			digest, err := os.ReadFile(name)
			if err != nil {
				return nil, &backend.LoadError{Path: path, Reason: backend.LoadMissing, Detail: "no such file"}
			}
			if string(digest) == crashes {
				os.Exit(9)
			}
			m := fake.New(fake.Config{ContextSize: cfg.ContextSize, Sequences: cfg.Sequences, CacheTokens: cfg.CacheTokens,
				BatchSize: cfg.BatchSize})
			return digested{m, string(digest)}, nil
		}
		return fake.New(fake.Config{ContextSize: cfg.ContextSize, Sequences: cfg.Sequences, CacheTokens: cfg.CacheTokens,
			BatchSize: cfg.BatchSize, Delay: delay(kind), Fail: func(_ int, inputs []backend.Input) error {
				for i := range inputs {
					for _, t := range inputs[i].Tokens {
						switch {
						case kind == "poison" && t == poison:
							panic("the engine met the poison")
						case (kind == "poison" || kind == "wavering") && t == hang:
							select {}
						case kind == "hungry" && t == poison:
							limitSelf(1 << 30)
							for all := [][]byte(nil); len(all) < 1<<16; {
								all = append(all, make([]byte, 1<<20))
							}
						case kind == "hungry" && t == hang:
							return fmt.Errorf("%w: 7 MiB of 8 are in use", backend.ErrMemory)
						}
					}
				}
				return nil
			}}), nil
	}
	in, out := io.Reader(os.NewFile(protocol.FileIn, "in")), os.NewFile(protocol.FileOut, "out")
	if number, ok := strings.CutPrefix(kind, "deaf to "); ok {
		n, err := strconv.Atoi(number)
		if err != nil {
			panic(err)
		}
		in = deaf(in, protocol.Kind(n), os.Getenv(onceVariable))
	}
	if kind == "garbage" { // it answers everything with nonsense
		r := protocol.NewReader(in)
		for {
			if _, err := r.Next(); err != nil {
				return 0
			}
			_, _ = out.WriteString("This is no frame, although it is long enough to be taken for one.")
		}
	}
	if kind == "parent" { // it ends, and a program that it started has its pipes
		r := protocol.NewReader(in)
		if _, err := r.Next(); err != nil {
			return 0
		}
		cmd := exec.Command("sleep", "20")
		cmd.ExtraFiles = []*os.File{os.NewFile(protocol.FileIn, "in"), out}
		if err := cmd.Start(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		return 3
	}
	if kind == "rows" || kind == fmt.Sprintf("deaf to %d", protocol.KindShare) {
		return beRows(in, out)
	}
	e := serve.Engine{Name: "fake", Version: "1", Open: open}
	switch kind {
	case "described":
		e.About = description
	case "unusable":
		e.About.Problem = "has no library for this processor"
	case "silent":
		time.Sleep(time.Minute)
	case "noisy":
		fmt.Fprint(os.Stderr, strings.Repeat("INFO one of many messages, with no error\n", 500))
	case "wavering":
		n := uint64(8)
		e.Progress = func() uint64 { n ^= 1; return n }
	}
	if err := serve.Run(in, out, e); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// delay returns how long steps take. A kind that is a number gives the milliseconds. Otherwise only steps of many
// tokens take long enough to be cancelled.
func delay(kind string) func(int) time.Duration {
	if n, err := strconv.Atoi(kind); err == nil {
		return func(int) time.Duration { return time.Duration(n) * time.Millisecond }
	}
	return func(tokens int) time.Duration {
		if tokens < 500 {
			return 0
		}
		return 40 * time.Millisecond
	}
}

// open opens the fake engine in another process.
func open(t *testing.T, kind, path string, cfg backend.Config) *Model {
	t.Helper()
	m, err := engine(kind).Open(t.Context(), path, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func engine(kind string) Engine {
	return Engine{Program: Program{Path: os.Args[0], Env: append(os.Environ(), engineVariable+"="+kind)},
		ledger: new(ledger.Ledger)} // so that tests need not wait for each other's models
}

func TestConformance(t *testing.T) {
	backendtest.Run(t, func(t *testing.T, cfg backend.Config) backend.Model {
		return open(t, "plain", "", cfg)
	}, backendtest.Options{})
}

func TestLoadErrorsPassThrough(t *testing.T) {
	_, err := engine("unloadable").Open(t.Context(), "model.gguf", backend.Config{})
	var load *backend.LoadError
	if !errors.As(err, &load) || load.Reason != backend.LoadTruncated || load.Path != "model.gguf" ||
		load.Detail != "ends early" || load.Advice != "get it again" {
		t.Errorf("error %#v", err)
	}
}

// TestGarbageEndsTheEngine: an engine that does not speak the protocol is ended.
func TestGarbageEndsTheEngine(t *testing.T) {
	_, err := engine("garbage").Open(t.Context(), "", backend.Config{})
	if !errors.Is(err, protocol.ErrFrame) {
		t.Errorf("error %v", err)
	}
	var load *backend.LoadError
	if !errors.As(err, &load) || load.Advice == "" {
		t.Errorf("error %#v has no advice", err)
	}
}

// TestPipesHeldByAnother: the end of an engine is seen although a program that it started still has its pipes.
func TestPipesHeldByAnother(t *testing.T) {
	began := time.Now()
	_, err := engine("parent").Open(t.Context(), "", backend.Config{})
	if err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("error %v", err)
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("it took %v", took)
	}
}

// TestNoAllocationPerToken: once the buffers have grown, a step of this end allocates nothing, whether the engine
// samples or this end chooses from its logits.
func TestNoAllocationPerToken(t *testing.T) {
	for _, kind := range []string{"plain", "rows"} {
		t.Run(kind, func(t *testing.T) {
			m := open(t, kind, "", backend.Config{ContextSize: 4096, Sequences: 2, BatchSize: 64})
			if (m.sampler != nil) != (kind == "rows") {
				t.Fatalf("the sampler of this end is %v", m.sampler)
			}
			noAllocation(t, m)
		})
	}
}

func noAllocation(t *testing.T, m *Model) {
	t.Helper()
	s, err := m.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	in := []backend.Input{{Sequence: s, Tokens: []backend.Token{65}, Targets: []backend.Token{66}, TargetTop: 2,
		Constraint: evenTokens{}, Logits: make([]float32, m.vocab.Len()),
		Sampling: &backend.Sampling{Temperature: 1, TopLogprobs: 5}}}
	out := make([]backend.Output, 1)
	step := func() {
		if err := m.Step(t.Context(), in, out); err != nil {
			t.Fatal(err)
		}
	}
	for range 1100 { // the list of tokens grows, too
		step()
	}
	if n := testing.AllocsPerRun(100, step); n >= 1 {
		t.Errorf("%v allocations per step", n)
	}
}

// TestEnvironmentHasNoKeys: the engine gets neither keys nor passphrases of this program.
func TestEnvironmentHasNoKeys(t *testing.T) {
	t.Setenv("RUNNER_PASSPHRASE", "secret")
	t.Setenv("CUDA_VISIBLE_DEVICES", "1")
	for _, given := range [][]string{nil, os.Environ()} {
		env := environment(given)
		if slices.Contains(env, "RUNNER_PASSPHRASE=secret") || !slices.Contains(env, "CUDA_VISIBLE_DEVICES=1") {
			t.Errorf("the environment is %v", env)
		}
	}
}

// TestDescribe asks engines what they are. Each process is gone afterwards, even one that does not answer.
func TestDescribe(t *testing.T) {
	describe := func(ctx context.Context, kind string) (Description, error) {
		return Describe(ctx, Program{Path: os.Args[0], Env: append(os.Environ(), engineVariable+"="+kind)}, "v1")
	}
	d, err := describe(t.Context(), "described")
	if err != nil || d.Engine != "fake" || d.Version != "1" || !reflect.DeepEqual(d.About, description) {
		t.Errorf("%+v, %v", d, err)
	}
	if d, err = describe(t.Context(), "plain"); err != nil || !reflect.DeepEqual(d.About, protocol.About{}) {
		t.Errorf("an engine that says nothing: %+v, %v", d, err)
	}
	if _, err = describe(t.Context(), "unusable"); err == nil || err.Error() != "has no library for this processor" {
		t.Errorf("an engine that cannot be used: %v", err)
	}
	if _, err = Describe(t.Context(), Program{Path: "/bin/false"}, "v1"); err == nil ||
		!strings.Contains(err.Error(), "exit status 1") {
		t.Errorf("a program that ends at once: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err = describe(ctx, "silent"); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 5*time.Second {
		t.Errorf("an engine that does not answer: %v after %v", err, time.Since(began))
	}
	if _, err = describe(ctx, "described"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after the end of the time: %v", err)
	}
}

// TestCanceledLoad: an engine that loads on after it was canceled does not make a model of what the caller gave up.
func TestCanceledLoad(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := engine("slow").Open(ctx, "model", small); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Open returned %v", err)
	}
}

// counts are what a model has counted.
type counts struct{ Crashes, Hangs, Failed int64 }

func countsOf(m interface {
	Crashes() (all, hangs, failed int64)
}) (c counts) {
	c.Crashes, c.Hangs, c.Failed = m.Crashes()
	return c
}
