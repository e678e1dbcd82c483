package slots

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var errGone = errors.New("gone")

// TestSlotsAreShared checks that the number of slots is never exceeded, that a first-time caller goes next, and that
// giving up never costs another caller its slot.
func TestSlotsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(1)
		many, err := s.Take(t.Context(), "many")
		if err != nil {
			t.Fatal(err)
		}
		waiters := func(n int) {
			synctest.Wait()
			if is := len(s.waiting); is != n {
				t.Fatalf("%d wait, not %d", is, n)
			}
		}
		got := make(chan string, 10)
		var wg sync.WaitGroup
		wait := func(principal string) {
			wg.Go(func() {
				slot, err := s.Take(t.Context(), principal)
				if err != nil {
					t.Error(err)
					return
				}
				got <- principal
				slot.Give()
			})
		}
		for i := range 5 {
			wait("many")
			waiters(i + 1)
		}
		wait("one")
		waiters(6)
		ctx, cancel := context.WithCancelCause(t.Context())
		wg.Go(func() {
			if _, err := s.Take(ctx, "gone"); !errors.Is(err, errGone) {
				t.Errorf("%v", err)
			}
		})
		waiters(7)
		cancel(errGone)
		waiters(6)
		many.Give()
		wg.Wait()
		if first := <-got; first != "one" {
			t.Errorf("%s was first", first)
		}
		if s.free != 1 || len(s.of) != 0 || len(s.waiting) != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestNobodyHoldsAllSlots checks that if there are several slots, one is always left for another principal.
func TestNobodyHoldsAllSlots(t *testing.T) {
	for _, n := range []int{2, 3, 8} {
		s := New(n)
		for range n - 1 {
			if _, err := s.Take(t.Context(), "many"); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if _, err := s.Take(ctx, "many"); err == nil {
			t.Errorf("one principal holds all of %d slots", n)
		}
		if _, err := s.Take(t.Context(), "one"); err != nil {
			t.Errorf("of %d slots none is left: %v", n, err)
		}
		cancel()
	}
}

// TestWorkGivesWayToRuns checks that a principal that has worked rests while others run: for some times as long as it
// has worked, at most a second, and no longer than the runs. Nobody else rests, and nobody rests for its own runs.
func TestWorkGivesWayToRuns(t *testing.T) {
	work := func(t *testing.T, s *Slots, principal string, long time.Duration) (waited time.Duration) {
		t.Helper()
		from := time.Now()
		slot, err := s.Take(t.Context(), principal)
		if err != nil {
			t.Fatal(err)
		}
		waited = time.Since(from)
		time.Sleep(long)
		slot.Give()
		return waited
	}
	for _, c := range []struct {
		what   string
		runner string        // who has a run under way
		ends   time.Duration // when it ends; 0 for never
		worked time.Duration
		waits  time.Duration
	}{
		{"nothing runs", "", 0, 100 * time.Millisecond, 0},
		{"its own run", "many", 0, 100 * time.Millisecond, 0},
		{"brief work", "one", 0, 5 * time.Millisecond, 0},
		{"long work", "one", 0, 100 * time.Millisecond, 280 * time.Millisecond},
		{"very long work", "one", 0, time.Minute, 980 * time.Millisecond},
		{"the run ends", "one", 50 * time.Millisecond, 100 * time.Millisecond, 50 * time.Millisecond},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(2)
				if waited := work(t, s, "many", c.worked); waited != 0 {
					t.Errorf("the first waited for %v", waited)
				}
				if c.runner != "" {
					end := s.Run(c.runner)
					if c.ends > 0 {
						time.AfterFunc(c.ends, end)
					}
				}
				if waited := work(t, s, "one", 0); waited != 0 {
					t.Errorf("another principal waited for %v", waited)
				}
				if waited := work(t, s, "many", 0); waited != c.waits {
					t.Errorf("the next waited for %v, want %v", waited, c.waits)
				}
			})
		})
	}
}

// TestNobodyIsRememberedForLong checks that principals that are gone leave nothing behind.
func TestNobodyIsRememberedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(2)
		for i := range 1000 {
			slot, err := s.Take(t.Context(), fmt.Sprint(i))
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
			slot.Give()
			s.Run(fmt.Sprint(i))()
		}
		most := int((remembered+restFactor*10*time.Millisecond)/(10*time.Millisecond)) + 1
		if len(s.served) > most || len(s.rested) > most || len(s.of) > 0 || len(s.runs) > 0 {
			t.Errorf("%d are remembered in order, %d rest, %d hold slots, %d run", len(s.served), len(s.rested), len(s.of),
				len(s.runs))
		}
	})
}

// TestChargedWorkCounts checks that work without the slot makes its principal rest too.
func TestChargedWorkCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(2)
		defer s.Run("one")()
		for _, waits := range []time.Duration{0, 280 * time.Millisecond} {
			from := time.Now()
			slot, err := s.Take(t.Context(), "many")
			if err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(from); waited != waits {
				t.Errorf("waited for %v, want %v", waited, waits)
			}
			slot.Charge(100 * time.Millisecond)
			slot.Give()
		}
	})
}
