package child

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"runner/backend"
	"runner/hint"
	"runner/testenv"
)

func init() {
	limitSelf = func(n int64) {
		if err := unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: uint64(n), Max: uint64(n)}); err != nil {
			panic(err)
		}
	}
}

// TestMemoryOverTheLimitIsReported: an engine that takes more memory than it may within a step, or says that it has
// none left, is ended. The error and the log say why. Without a limit the engine's own words are the reason.
func TestMemoryOverTheLimitIsReported(t *testing.T) {
	for _, c := range []struct {
		name  string
		token backend.Token
		limit int64
		want  string
	}{
		{"the process gets no memory", poison, 1 << 30, "--engine-memory allows (1073 MB): "},
		{"the engine says so", hang, 8 << 20, "--engine-memory allows (8 MB): "},
		{"without a limit", hang, 0, "7 MiB of 8 are in use"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log testenv.Buffer
			e := engine("hungry")
			e.Memory, e.Log = c.limit, slog.New(slog.NewTextHandler(&log, nil))
			m, err := e.Open(t.Context(), "", small)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			bad, err := m.NewSequence()
			if err != nil {
				t.Fatal(err)
			}
			in := []backend.Input{{Sequence: bad, Tokens: []backend.Token{c.token}}}
			err = m.Step(t.Context(), in, make([]backend.Output, 1))
			var input *backend.InputError
			if !errors.As(err, &input) || !errors.Is(err, backend.ErrCrashed) || !errors.Is(err, backend.ErrMemory) ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v", err)
			}
			if h := hint.Of(err); (h != "") != (c.limit > 0) {
				t.Errorf("error %v with the hint %q", err, h)
			}
			if !strings.Contains(log.String(), c.want) {
				t.Errorf("the log does not say %q:\n%s", c.want, log.String())
			}
			feed(t, m, backend.Token(65))
			if n := countsOf(m); n.Crashes != maxAlone || n.Hangs != 0 || n.Failed != 1 {
				t.Errorf("counts %+v", n)
			}
		})
	}
}
