package child

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"runner/backend"
)

// run decodes some sequences together at temperature 1 and returns their tokens. before is called before each step.
func run(t *testing.T, m backend.Model, sequences, steps int, before func(step int)) [][]backend.Token {
	t.Helper()
	inputs, outputs := make([]backend.Input, sequences), make([]backend.Output, sequences)
	got := make([][]backend.Token, sequences)
	for i := range inputs {
		s, err := m.NewSequence()
		if err != nil {
			t.Fatal(err)
		}
		prompt := []backend.Token{backend.Token(65 + i), 66, 67, backend.Token(70 + i)}
		inputs[i] = backend.Input{Sequence: s, Tokens: prompt, Sampling: &backend.Sampling{Temperature: 1, Seed: uint64(i)}}
		if i%2 == 1 {
			inputs[i].Constraint = evenTokens{}
		}
	}
	for step := range steps {
		if before != nil {
			before(step)
		}
		if err := m.Step(context.Background(), inputs, outputs); err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		for i := range inputs {
			got[i] = append(got[i], outputs[i].Token)
			inputs[i].Tokens = slices.Clone(got[i][len(got[i])-1:])
		}
	}
	for i := range inputs {
		inputs[i].Sequence.Close()
	}
	return got
}

// evenTokens allows every second token.
type evenTokens struct{}

func (evenTokens) Allows(t backend.Token) bool { return t%2 == 0 }

func (evenTokens) Fill(m backend.Mask) {
	for i := range m {
		m[i] = 0x5555555555555555
	}
}

var small = backend.Config{ContextSize: 256, Sequences: 9, BatchSize: 64}

// TestAnswersSurviveKills: the tokens are those of a run without crashes, whenever the process is killed or stopped.
func TestAnswersSurviveKills(t *testing.T) {
	t.Parallel()
	want := run(t, open(t, "1", "", small), 8, 60, nil)
	for name, signal := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "aborted": syscall.SIGABRT,
		"stopped": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := open(t, "1", "", small)
			m.pace.least, m.pace.first = time.Second, time.Second
			r := rand.New(rand.NewPCG(uint64(signal), 1))
			var sent atomic.Int64
			got := run(t, m, 8, 60, func(step int) {
				if step%15 != 7 {
					return
				}
				pid := m.Process()
				time.AfterFunc(time.Duration(r.IntN(1500))*time.Microsecond, func() {
					if syscall.Kill(pid, signal) == nil {
						sent.Add(1)
					}
				})
			})
			if !slices.EqualFunc(got, want, slices.Equal) {
				t.Errorf("the tokens are not those of an undisturbed run:\n%v\n%v", got, want)
			}
			if c := countsOf(m); c.Crashes != sent.Load() || c.Failed != 0 || signal == syscall.SIGSTOP && c.Hangs == 0 {
				t.Errorf("%d signals, counted %+v", sent.Load(), c)
			}
		})
	}
}

// TestPoisonFailsAlone: a sequence that crashes the engine fails, and the others of its step go on as if it were
// not there.
func TestPoisonFailsAlone(t *testing.T) {
	t.Parallel()
	for name, token := range map[string]backend.Token{"panic": poison, "hang": hang} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := run(t, open(t, "plain", "", small), 8, 20, nil)
			m := open(t, "poison", "", small)
			m.pace.least, m.pace.first = time.Second, time.Second
			bad, err := m.NewSequence()
			if err != nil {
				t.Fatal(err)
			}
			got := run(t, withBad{m, bad, token, t}, 8, 20, nil)
			if !slices.EqualFunc(got, want, slices.Equal) {
				t.Error("the other sequences are not as without the crashes")
			}
			if len(bad.Tokens()) != 0 {
				t.Errorf("the failed sequence has %v", bad.Tokens())
			}
			if c := countsOf(m); c.Failed != 1 || c.Crashes < 3 {
				t.Errorf("counted %+v", c)
			}
		})
	}
}

// withBad adds a sequence that crashes the engine to the first step, and repeats the step without it.
type withBad struct {
	*Model
	bad   backend.Sequence
	token backend.Token
	t     *testing.T
}

func (w withBad) Step(ctx context.Context, inputs []backend.Input, outputs []backend.Output) error {
	if inputs[0].Sequence.(*sequence).held > 0 || countsOf(w).Crashes > 0 {
		return w.Model.Step(ctx, inputs, outputs)
	}
	at := len(inputs) / 2
	all := slices.Insert(slices.Clone(inputs), at, backend.Input{Sequence: w.bad, Tokens: []backend.Token{w.token}})
	err := w.Model.Step(ctx, all, make([]backend.Output, len(all)))
	var in *backend.InputError
	if !errors.As(err, &in) || in.Index != at || !errors.Is(err, backend.ErrCrashed) {
		w.t.Fatalf("error %v, want ErrCrashed for input %d", err, at)
	}
	return w.Model.Step(ctx, inputs, outputs)
}

// TestBrokenWhenItCannotStart: without its file, the model is broken after three tries, each after a longer wait.
// Nothing hangs.
func TestBrokenWhenItCannotStart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "model")
	m := openMarked(t, path)
	s, err := m.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	killed(t, m, path)
	in := []backend.Input{{Sequence: s, Tokens: []backend.Token{65}}}
	began := time.Now()
	if err := m.Step(t.Context(), in, make([]backend.Output, 1)); !errors.Is(err, backend.ErrBroken) {
		t.Errorf("error %v, want ErrBroken", err)
	}
	if took := time.Since(began); took < backOff(1)+backOff(2) {
		t.Errorf("three starts took %v, less than the waits between them", took)
	}
	if n := loads(t, path); n != 1+3 {
		t.Errorf("the model was loaded %d times, want 1 and 3 tries", n)
	}
	if _, err := m.NewSequence(); !errors.Is(err, backend.ErrBroken) {
		t.Errorf("error %v, want ErrBroken", err)
	}
	if _, err := m.Tokenize(nil, "text"); !errors.Is(err, backend.ErrBroken) {
		t.Errorf("error %v, want ErrBroken", err)
	}
	if n := loads(t, path); n != 1+3 {
		t.Errorf("the model was loaded %d times after it was broken", n)
	}
}

// TestBrokenByCrashes: where each new process crashes while it loads, the model is broken, and no request is to blame.
func TestBrokenByCrashes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "model")
	m := openMarked(t, path)
	s, err := m.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	if m.Failure() != nil {
		t.Errorf("a model that works has failed: %v", m.Failure())
	}
	killed(t, m, path)
	if err := os.WriteFile(path, []byte(crashes), 0o600); err != nil {
		t.Fatal(err)
	}
	in := []backend.Input{{Sequence: s, Tokens: []backend.Token{65}}}
	var input *backend.InputError
	if err := m.Step(t.Context(), in, make([]backend.Output, 1)); !errors.Is(err, backend.ErrBroken) ||
		errors.As(err, &input) {
		t.Errorf("error %v, want ErrBroken and no blame", err)
	}
	if n := countsOf(m).Failed; n != 0 {
		t.Errorf("%d sequences failed", n)
	}
	if !errors.Is(m.Failure(), backend.ErrBroken) {
		t.Errorf("Failure is %v", m.Failure())
	}
}

// TestAnotherModelUnderTheSameName: answers do not go on with a model that has taken the place of the first one.
func TestAnotherModelUnderTheSameName(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "model")
	m := openMarked(t, path)
	s, _ := feed(t, m, 65)
	killed(t, m, path)
	if err := os.WriteFile(path, []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	in := []backend.Input{{Sequence: s, Tokens: []backend.Token{66}}}
	if err := m.Step(t.Context(), in, make([]backend.Output, 1)); !errors.Is(err, backend.ErrBroken) ||
		!errors.Is(err, errChanged) {
		t.Errorf("error %v, want ErrBroken because the model has changed", err)
	}
	if n := loads(t, path); n != 2 {
		t.Errorf("the model was loaded %d times, want 2", n)
	}
}

// TestOnlyFailedStartsInARowBreak: two starts that fail are forgotten when the third one does not.
func TestOnlyFailedStartsInARowBreak(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "model")
	m := openMarked(t, path)
	for range 3 {
		killed(t, m, path)
		before := loads(t, path)
		restored := make(chan error, 1)
		go func() { // restores the model after the first start that fails
			for tried := before; tried == before && t.Context().Err() == nil; time.Sleep(backOff(1) / 20) {
				list, _ := os.ReadFile(path + ".loads")
				tried = len(list)
			}
			restored <- os.WriteFile(path, nil, 0o600)
		}()
		s, _ := feed(t, m, 65)
		s.Close()
		if err := <-restored; err != nil {
			t.Fatal(err)
		}
		if n := loads(t, path) - before; n < 2 || n > 3 {
			t.Errorf("the model was loaded %d times, want a failure or two and then once more", n)
		}
	}
}

// TestWaitsBetweenStartsGrow: a process that crashes again and again is not started without end.
func TestWaitsBetweenStartsGrow(t *testing.T) {
	if backOff(1) < 100*time.Millisecond || backOff(2) <= backOff(1) || backOff(5) < 2*time.Second ||
		backOff(1000) != backOff(5) {
		t.Errorf("the waits are %v, %v, %v and %v", backOff(1), backOff(2), backOff(5), backOff(1000))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := wait(ctx, 5); !errors.Is(err, context.Canceled) {
		t.Errorf("a wait that is canceled: %v", err)
	}
}

// openMarked opens a model that loads only while its file exists.
func openMarked(t *testing.T, path string) *Model {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return open(t, "marked", path, small)
}

// killed removes a model's file and kills the process.
func killed(t *testing.T, m *Model, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(m.Process(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// loads returns how often processes tried to load the model "marked".
func loads(t *testing.T, path string) int {
	t.Helper()
	b, err := os.ReadFile(path + ".loads")
	if err != nil {
		t.Fatal(err)
	}
	return len(b)
}

// TestTokenizeStartsTheProcessAgain: a text can be tokenized after a crash that no step has met.
func TestTokenizeStartsTheProcessAgain(t *testing.T) {
	m := open(t, "plain", "", small)
	want, err := m.Tokenize(nil, "some text")
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(m.Process(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	got, err := m.Tokenize(nil, "some text")
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}

// TestNothingIsLeft: after many models and crashes there is no process and no descriptor more than before.
func TestNothingIsLeft(t *testing.T) {
	files := func() int {
		list, err := os.ReadDir("/dev/fd")
		if errors.Is(err, fs.ErrNotExist) {
			t.Skip("this system does not list a process's descriptors: ", err)
		}
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	_ = open(t, "plain", "", small).Close() // what the first one opens may stay
	before := files()
	for range 5 {
		m := open(t, "plain", "", small)
		pid := m.Process()
		run(t, m, 2, 4, func(step int) {
			if step == 2 {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		})
		last := m.Process()
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		for _, p := range []int{pid, last} {
			if err := syscall.Kill(p, 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("process %d is there after Close: %v", p, err)
			}
		}
	}
	if after := files(); after > before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
}

// TestCloseEndsAStart: a model that is closed while its process is started again does not wait for that.
func TestCloseEndsAStart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "model")
	m := openMarked(t, path)
	s, err := m.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	killed(t, m, path)
	m.starts.Store(10) // so that the next start waits
	ended := make(chan error)
	go func() {
		in := []backend.Input{{Sequence: s, Tokens: []backend.Token{65}}}
		ended <- m.Step(context.Background(), in, make([]backend.Output, 1))
	}()
	time.Sleep(200 * time.Millisecond)
	began := time.Now()
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, backend.ErrClosed) {
		t.Errorf("the step ended with %v, want ErrClosed", err)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("closing took %v", took)
	}
}

// TestCancelWhileAProcessStarts: a canceled step does not wait for the start of a process.
func TestCancelWhileAProcessStarts(t *testing.T) {
	t.Parallel()
	m := open(t, "plain", "", small)
	defer m.Close()
	s, err := m.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	m.turn <- struct{}{} // as if another goroutine started it
	if err := syscall.Kill(m.Process(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-m.conn.Load().dead
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	in := []backend.Input{{Sequence: s, Tokens: []backend.Token{65}}}
	if err := m.Step(ctx, in, make([]backend.Output, 1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the step ended with %v, want the end of its time", err)
	}
	<-m.turn
	if err := m.Step(t.Context(), in, make([]backend.Output, 1)); err != nil {
		t.Error("the next step: ", err)
	}
}

// TestIdleProcessesAreStartedAgain: the end of a process is counted, and the next one started, without a request. After
// three starts without a step it takes one.
func TestIdleProcessesAreStartedAgain(t *testing.T) {
	t.Parallel()
	m := open(t, "plain", "", small)
	defer m.Close()
	for died := int64(1); died <= maxFailures+1; died++ {
		pid := m.Process()
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		within(t, "the end is counted", func() bool { return died > maxFailures || countsOf(m).Crashes == died })
		if died <= maxFailures {
			within(t, "another process", func() bool { p := m.Process(); return p != 0 && p != pid })
		}
	}
	time.Sleep(backOff(maxFailures) + 200*time.Millisecond)
	if n := m.starts.Load(); n != maxFailures {
		t.Errorf("%d starts without a request, want %d", n, maxFailures)
	}
	run(t, m, 2, 4, nil)
	if n := countsOf(m).Crashes; n != maxFailures+1 {
		t.Errorf("%d crashes, want %d", n, maxFailures+1)
	}
}

// within waits up to ten seconds until something holds.
func within(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("ten seconds without: ", what)
		}
	}
}
