//go:build unix

package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// sink keeps the compiler from removing a loop that only takes time.
var sink atomic.Int64

// TestNoSignalIsLost hands signals over from the loading of a model to a chat, again and again, and sends one at each
// moment of that. It must reach one of them.
func TestNoSignalIsLost(t *testing.T) {
	caught := make(chan os.Signal, 1) // so that no signal ends the test's process
	signal.Notify(caught, syscall.SIGTERM)
	defer signal.Stop(caught)
	const rounds = 1200
	late := 0
	for i := range rounds {
		loading, stop := UntilStopped(t.Context())
		sent := make(chan error, 1)
		// The signal waits for up to some tens of microseconds, or the hand-over for up to half a millisecond, because the
		// goroutine that sends has to start first.
		wait := func(most int) {
			for range i % 300 * most / 300 {
				sink.Add(1)
			}
		}
		go func() {
			if i%2 == 0 {
				wait(9_000)
			}
			sent <- syscall.Kill(os.Getpid(), syscall.SIGTERM)
		}()
		if i%2 == 1 {
			wait(100_000)
		}
		c := &chat{}
		ctx, interrupted, done := c.catch(t.Context(), loading, stop)
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		if !interrupted {
			late++
			select {
			case <-ctx.Done():
			case <-time.After(hang):
				t.Fatalf("round %d: the signal is lost", i)
			}
			if err := context.Cause(ctx); !errors.Is(err, ErrInterrupted) {
				t.Fatalf("round %d: %v", i, err)
			}
		}
		done()
		<-caught
	}
	if late == 0 || late == rounds {
		t.Errorf("%d signals came after the hand-over", late)
	}
	t.Logf("%d of %d signals came before the hand-over, and %d after it", rounds-late, rounds, late)
}
