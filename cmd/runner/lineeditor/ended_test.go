//go:build unix

package lineeditor

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// sink keeps the compiler from removing a loop that only takes time.
var sink atomic.Int64

// TestTheEndOfTheContextIsNeverMissed ends a read at each moment of its first microseconds: while the terminal is set,
// while the prompt or what was typed is drawn, and while the read waits. The terminal may get another size meanwhile.
func TestTheEndOfTheContextIsNeverMissed(t *testing.T) {
	p := newTerminal(t, Options{}, 0)
	why := errors.New("the program ends")
	for i := range 600 {
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := p.editor.Read(ctx, Prompt{Text: "> "})
			done <- err
		}()
		if i%2 == 0 {
			if _, err := p.file.WriteString("half"); err != nil {
				t.Fatal(err)
			}
		}
		for range i * 60 {
			sink.Add(1)
		}
		if i%3 == 0 {
			if err := syscall.Kill(os.Getpid(), syscall.SIGWINCH); err != nil {
				t.Fatal(err)
			}
		}
		cancel(why)
		select {
		case err := <-done:
			if !errors.Is(err, why) {
				t.Fatalf("round %d: %v", i, err)
			}
		case <-time.After(hang):
			t.Fatalf("round %d: the read goes on", i)
		}
	}
}
