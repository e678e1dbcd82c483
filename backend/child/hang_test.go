package child

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/child/protocol"
	"runner/backend/fake"
)

// onceVariable names a file. An engine that is deaf makes it, and one that finds it is not deaf.
const onceVariable = "RUNNER_TEST_ONCE"

// deaf passes the frames in r on until one of a kind comes, and nothing after that. Of texts to tokenize it only leaves
// out the text.
func deaf(r io.Reader, to protocol.Kind, once string) io.Reader {
	passed, w := io.Pipe()
	go func() {
		in, out := protocol.NewReader(r), protocol.NewWriter(w)
		for {
			f, err := in.Next()
			if err != nil {
				w.CloseWithError(err)
				return
			}
			if f.Kind == to && isFirst(once) {
				if to == protocol.KindTokenize {
					continue // texts are tokenized while other requests go on
				}
				for {
					time.Sleep(time.Hour)
				}
			}
			if err := out.Write(f); err != nil {
				return
			}
		}
	}()
	return passed
}

// isFirst reports whether the file is not there, and makes it. Without a file the answer is always yes.
func isFirst(file string) bool {
	if file == "" {
		return true
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		f.Close()
	}
	return err == nil
}

// beRows is an engine that does not sample. All its logits are 0.
func beRows(in io.Reader, out io.Writer) int {
	r, w := protocol.NewReader(in), protocol.NewWriter(out)
	for {
		f, err := r.Next()
		if err != nil {
			return 0
		}
		switch f.Kind {
		case protocol.KindHello:
			err = w.WriteJSON(protocol.KindEngineHello, protocol.Hello{Protocol: protocol.Version, Engine: "rows"}, nil)
		case protocol.KindLoad:
			loaded, raw := protocol.LoadedOf(fake.New(fake.Config{}))
			err = w.WriteJSON(protocol.KindLoaded, loaded, raw)
		case protocol.KindStep:
			n := binary.LittleEndian.Uint32(f.Head)
			f = protocol.Frame{Kind: protocol.KindStepped, Head: protocol.AppendCount(protocol.AppendCount(nil, int(n)), 1)}
			for range n {
				f.Head, f.Raw = protocol.AppendOutput(f.Head, f.Raw, &backend.Output{Token: backend.NoToken}, nil)
			}
			err = w.Write(f)
		default:
			err = w.WriteJSON(protocol.KindDone, protocol.Done{}, nil)
		}
		if err != nil {
			return 1
		}
	}
}

// impatient has short times.
var impatient = times{start: 1500 * time.Millisecond, load: time.Second, least: 800 * time.Millisecond,
	first: 1500 * time.Millisecond, text: 800 * time.Millisecond}

// deafTo returns an engine that hangs in a kind of request, once if there is a file.
func deafTo(kind protocol.Kind, once string) Engine {
	e := engine(fmt.Sprintf("deaf to %d", kind))
	e.Program.Env = append(e.Program.Env, onceVariable+"="+once)
	e.times = impatient
	return e
}

// feed feeds a new sequence with a token and returns it with the next token.
func feed(t *testing.T, m backend.Model, tokens ...backend.Token) (backend.Sequence, backend.Token) {
	t.Helper()
	s, err := m.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	next, err := push(m, s, tokens...)
	if err != nil {
		t.Fatal(err)
	}
	return s, next
}

// push feeds a sequence and returns the next token.
func push(m backend.Model, s backend.Sequence, tokens ...backend.Token) (backend.Token, error) {
	out := make([]backend.Output, 1)
	err := m.Step(noContext, []backend.Input{{Sequence: s, Tokens: tokens, Sampling: &backend.Sampling{}}}, out)
	return out[0].Token, err
}

// TestHangsInRequestsAreFound: an engine that hangs once, in a request of any kind, is killed in time and started
// again. The call succeeds, and later answers are those of an engine that never hung.
func TestHangsInRequestsAreFound(t *testing.T) {
	t.Parallel()
	for kind, name := range map[protocol.Kind]string{protocol.KindNew: "new", protocol.KindFork: "fork",
		protocol.KindTruncate: "truncate", protocol.KindFree: "free", protocol.KindTokenize: "tokenize",
		protocol.KindStep: "step"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got [2][]backend.Token
			for i, e := range []Engine{engine("plain"), deafTo(kind, filepath.Join(t.TempDir(), "once"))} {
				m, err := e.Open(t.Context(), "", small)
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				began := time.Now()
				tokens, err := m.Tokenize(nil, "What is 17 + 25?")
				if err != nil {
					t.Fatal(err)
				}
				s, a := feed(t, m, tokens...)
				f, err := s.Fork()
				if err != nil {
					t.Fatal(err)
				}
				b, err := push(m, f, a)
				if err != nil {
					t.Fatal(err)
				}
				if n, err := s.Truncate(3); n != 3 || err != nil {
					t.Fatalf("%d tokens were kept, %v", n, err)
				}
				c, err := push(m, s, a)
				if err != nil {
					t.Fatal(err)
				}
				f.Close()
				again, d := feed(t, m, tokens...)
				again.Close()
				got[i] = append(tokens, a, b, c, d)
				if n := countsOf(m); n.Hangs != int64(i) || n.Crashes != int64(i) || n.Failed != 0 {
					t.Errorf("counts %+v, want %d hangs", n, i)
				}
				if took := time.Since(began); took > 8*time.Second {
					t.Errorf("it took %v", took)
				}
			}
			if !slices.Equal(got[0], got[1]) {
				t.Errorf("tokens %v, and without a hang %v", got[1], got[0])
			}
		})
	}
}

// TestRepeatedHangsEnd: a call whose request hangs every time fails in a bounded time.
func TestRepeatedHangsEnd(t *testing.T) {
	t.Parallel()
	for kind, call := range map[protocol.Kind]func(m *Model) error{
		protocol.KindTokenize: func(m *Model) error {
			_, err := m.Tokenize(nil, "text")
			return err
		},
		protocol.KindNew: func(m *Model) error {
			s, err := m.NewSequence()
			if err == nil {
				_, err = push(m, s, 65)
			}
			return err
		},
	} {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			t.Parallel()
			m, err := deafTo(kind, "").Open(t.Context(), "", small)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			if err := call(m); !errors.Is(err, backend.ErrCrashed) || errors.Is(err, backend.ErrBroken) {
				t.Errorf("error %v, want ErrCrashed", err)
			}
			within(t, "both hangs are counted", func() bool { return countsOf(m).Hangs == maxAlone })
		})
	}
}

// TestWaveringCountIsNoProgress: an engine that hangs in a step is killed although its count of progress goes up and
// down.
func TestWaveringCountIsNoProgress(t *testing.T) {
	t.Parallel()
	e := engine("wavering")
	e.times = impatient
	m, err := e.Open(t.Context(), "", small)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s, _ := feed(t, m, 65)
	stop := time.AfterFunc(20*time.Second, func() { m.conn.Load().proc.end() }) // no hang was found
	defer stop.Stop()
	err = m.Step(t.Context(), []backend.Input{{Sequence: s, Tokens: []backend.Token{hang}}}, make([]backend.Output, 1))
	if !errors.Is(err, backend.ErrCrashed) {
		t.Errorf("error %v, want ErrCrashed", err)
	}
	within(t, "both hangs are counted", func() bool { return countsOf(m).Hangs == maxAlone })
}

// TestHangsWhileLoadingAreFound: an engine that hangs before it has loaded the model is killed, also if it reports the
// same progress over and over. One that is slow and makes progress is not.
func TestHangsWhileLoadingAreFound(t *testing.T) {
	t.Parallel()
	stuck, slow := engine("stuck"), engine("slow")
	stuck.times, slow.times = impatient, impatient
	for name, e := range map[string]Engine{"hello": deafTo(protocol.KindHello, ""), "load": deafTo(protocol.KindLoad, ""),
		"share": deafTo(protocol.KindShare, ""), "progress that stands still": stuck} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			m, err := e.Open(t.Context(), "model", small)
			if err == nil {
				m.Close()
			}
			var load *backend.LoadError
			if !errors.Is(err, errHang) || !errors.As(err, &load) || load.Advice == "" {
				t.Errorf("error %v, want a LoadError with errHang", err)
			}
			if took := time.Since(began); took > 30*time.Second { // models are loaded one after the other
				t.Errorf("it took %v", took)
			}
		})
	}
	t.Run("slow", func(t *testing.T) {
		t.Parallel()
		m, err := slow.Open(t.Context(), "model", small)
		if err != nil {
			t.Fatal(err)
		}
		m.Close()
	})
}

// TestATextThatHangsBlamesNoStep: while a text hangs over and over, steps of single sequences are repeated and succeed.
func TestATextThatHangsBlamesNoStep(t *testing.T) {
	t.Parallel()
	e := deafTo(protocol.KindTokenize, "")
	m, err := e.Open(t.Context(), "", small)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s, next := feed(t, m, 65)
	done := make(chan error)
	go func() {
		_, err := m.Tokenize(nil, "text")
		done <- err
	}()
	for working := true; working; {
		select {
		case err := <-done:
			if working = false; !errors.Is(err, backend.ErrCrashed) {
				t.Errorf("error %v, want ErrCrashed", err)
			}
		default:
			if n, err := push(m, s, next); err != nil {
				t.Fatal(err)
			} else if next = n; len(s.Tokens()) == m.Info().ContextSize {
				if _, err := s.Truncate(0); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if _, err := push(m, s, next); err != nil {
		t.Error(err)
	}
	if n := countsOf(m); n.Failed != 0 || n.Hangs != maxAlone {
		t.Errorf("counts %+v", n)
	}
}
