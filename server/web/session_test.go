package web

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// TestOneRenderingAtATime: a second rendering of a principal waits for the first, another principal's does not, and who
// waits can give up.
func TestOneRenderingAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r renderings
		first, err := r.begin(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		other, err := r.begin(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		other()
		ctx, cancel := context.WithCancel(t.Context())
		gaveUp := make(chan error)
		go func() {
			_, err := r.begin(ctx, "a")
			gaveUp <- err
		}()
		began := make(chan func())
		for range 2 {
			go func() {
				end, err := r.begin(t.Context(), "a")
				if err != nil {
					t.Error(err)
				}
				began <- end
			}()
		}
		synctest.Wait()
		select {
		case <-began:
			t.Fatal("two renderings at a time")
		default:
		}
		cancel()
		if err := <-gaveUp; !errors.Is(err, context.Canceled) {
			t.Errorf("who gave up got %v", err)
		}
		first()
		(<-began)()
		(<-began)()
		if len(r.busy) != 0 {
			t.Errorf("%d principals are busy", len(r.busy))
		}
	})
}
