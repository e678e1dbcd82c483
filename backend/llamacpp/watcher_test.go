package llamacpp

import (
	"context"
	"sync/atomic"
	"testing"
	"time"
)

// Contexts end while others are watched. Only the watched one sets the flag, and it does so for every step that has
// it.
func TestWatcherHeedsOneContext(t *testing.T) {
	var flag int32
	w := watcher{flag: &flag}
	set := func() bool { return atomic.LoadInt32(&flag) != 0 }
	for i := range 2000 {
		before, endBefore := context.WithCancel(context.Background())
		now, end := context.WithCancel(context.Background())
		w.watch(before)
		go endBefore()
		if i%2 == 0 {
			time.Sleep(time.Duration(i%50) * time.Microsecond)
		}
		w.watch(now)
		<-before.Done()
		for range 20 {
			w.watch(now)
			if set() {
				t.Fatalf("round %d: a context of earlier steps has set the flag", i)
			}
		}
		if i%10 != 0 {
			end()
			continue
		}
		go end()
		for deadline := time.Now().Add(10 * time.Second); !set(); time.Sleep(10 * time.Microsecond) {
			if time.Now().After(deadline) {
				t.Fatalf("round %d: the context's end has not set the flag", i)
			}
		}
		w.watch(now)
		if !set() {
			t.Fatalf("round %d: the flag was cleared though the context has ended", i)
		}
	}
	last, end := context.WithCancel(context.Background())
	w.watch(last)
	w.watch(context.Background())
	end()
	w.watch(last)
	w.stop()
	time.Sleep(time.Millisecond)
	if set() {
		t.Error("the flag was set after the watcher had stopped")
	}
}
