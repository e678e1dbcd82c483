package child

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
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
)

// engineVariable names the engine that the test program is to be, instead of running tests.
const engineVariable = "RUNNER_TEST_ENGINE"

func TestMain(m *testing.M) {
	if kind := os.Getenv(engineVariable); kind != "" {
		os.Exit(beEngine(kind))
	}
	os.Exit(m.Run())
}

// poison is a token that makes the engine crash, and hang one that makes it hang.
const (
	poison = backend.Token(301)
	hang   = backend.Token(302)
)

// beEngine serves the fake engine.
func beEngine(kind string) int {
	open := func(_ context.Context, path string, cfg backend.Config) (backend.Model, error) {
		if kind == "unloadable" {
			return nil, &backend.LoadError{Path: path, Reason: backend.LoadTruncated, Detail: "ends early",
				Advice: "get it again"}
		}
		if kind == "marked" { // loads once only
			if _, err := os.Stat(path); err != nil {
				return nil, &backend.LoadError{Path: path, Reason: backend.LoadMissing, Detail: "no such file"}
			}
		}
		return fake.New(fake.Config{ContextSize: cfg.ContextSize, Sequences: cfg.Sequences, CacheTokens: cfg.CacheTokens,
			BatchSize: cfg.BatchSize, Delay: delay(kind), Fail: func(_ int, inputs []backend.Input) error {
				for i := range inputs {
					if kind != "poison" {
						break
					}
					for _, t := range inputs[i].Tokens {
						switch t {
						case poison:
							panic("the engine met the poison")
						case hang:
							select {}
						}
					}
				}
				return nil
			}}), nil
	}
	in, out := os.NewFile(protocol.FileIn, "in"), os.NewFile(protocol.FileOut, "out")
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
		cmd.ExtraFiles = []*os.File{in, out}
		if err := cmd.Start(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		return 3
	}
	if err := serve.Run(in, out, serve.Engine{Name: "fake", Version: "1", Open: open}); err != nil {
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
	return Engine{Program: Program{Path: os.Args[0], Env: append(os.Environ(), engineVariable+"="+kind)}}
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

// TestNoAllocationPerToken: once the buffers have grown, a step of this end allocates nothing.
func TestNoAllocationPerToken(t *testing.T) {
	m := open(t, "plain", "", backend.Config{ContextSize: 4096, Sequences: 2, BatchSize: 64})
	s, err := m.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	in := []backend.Input{{Sequence: s, Tokens: []backend.Token{65}, Constraint: evenTokens{},
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
