package child

import (
	"sync"
	"testing"
	"time"

	"runner/backend/backendtest"
)

// TestCloseLeavesNothing closes models that have worked, whose process was killed, that are starting one again, and
// whose engine tokenizes. None of their goroutines goes on.
func TestCloseLeavesNothing(t *testing.T) {
	run(t, open(t, "plain", "", small), 2, 2, nil) // what is started once in a process stays
	for name, then := range map[string]func(t *testing.T, m *Model){
		"after steps": func(*testing.T, *Model) {},
		"after a crash": func(t *testing.T, m *Model) {
			m.conn.Load().proc.end()
			run(t, m, 2, 2, nil)
		},
		"in a start": func(_ *testing.T, m *Model) {
			m.conn.Load().proc.end()
			time.Sleep(10 * time.Millisecond)
		},
		"while texts are tokenized": func(_ *testing.T, m *Model) {
			var texts sync.WaitGroup
			for range 4 {
				texts.Go(func() { _, _ = m.conn.Load().tokenize("a text", time.Minute) })
			}
			texts.Wait()
		},
	} {
		t.Run(name, func(t *testing.T) {
			backendtest.Goroutines(t, func() {
				m := open(t, "plain", "", small)
				run(t, m, 2, 2, nil)
				then(t, m)
				if err := m.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
