package llamacpp

import (
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"runner/backend"
)

// TestStepsKeepTheirThread counts how often threads of this process wait while short steps follow one another. That is
// about once for each turn that the steps give. Without turns Go's runtime makes them wait in each step. One of some
// attempts must do, because what runs beside adds to the count.
func TestStepsKeepTheirThread(t *testing.T) {
	m := openModel(t, filepath.Join("..", "..", "models", "demo", "demo.gguf"),
		backend.Config{ContextSize: 1024, Sequences: 1, Threads: 1})
	s, err := m.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	in := []backend.Input{{Sequence: s, Tokens: []backend.Token{70}, Sampling: &backend.Sampling{}}}
	out := make([]backend.Output, 1)
	waits := func() int64 {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return u.Nvcsw
	}
	const steps = 500
	for range 10 {
		if _, err := s.Truncate(0); err != nil {
			t.Fatal(err)
		}
		before, began := waits(), time.Now()
		for range steps {
			if err := m.Step(t.Context(), in, out); err != nil {
				t.Fatal(err)
			}
		}
		n, took := waits()-before, time.Since(began)
		most := 50 + 3*int64(took/mostWithoutTurn)
		t.Logf("threads waited %d times in %d steps of %v, at most %d are right", n, steps, took/steps, most)
		if n <= most {
			return
		}
	}
	t.Error("threads wait too often")
}
