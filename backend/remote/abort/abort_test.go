package abort

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestEveryIDIsSentOnce adds ids from many goroutines while messages are slow.
func TestEveryIDIsSentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		sent := map[string]int{}
		messages, open := 0, 0
		q := New(func(_ context.Context, ids []string) {
			mu.Lock()
			defer mu.Unlock()
			if messages++; len(ids) == 0 || len(ids) > mostAtOnce {
				t.Errorf("a message with %d ids", len(ids))
			}
			if open++; open != 1 {
				t.Error("two messages at a time")
			}
			for _, id := range ids {
				sent[id]++
			}
			open--
		})
		for i := range 20 {
			go func() {
				for j := range 50 {
					q.Add(fmt.Sprintf("%d-%d", i, j))
				}
			}()
		}
		synctest.Wait()
		if len(sent) != 1000 {
			t.Errorf("%d of 1000 ids were sent", len(sent))
		}
		for id, n := range sent {
			if n != 1 {
				t.Errorf("%s was sent %d times", id, n)
			}
		}
	})
}

// TestTheQueueHasALimit adds more ids than may wait while a message hangs.
func TestTheQueueHasALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var sent []string
		q := New(func(ctx context.Context, ids []string) {
			<-ctx.Done()
			mu.Lock()
			defer mu.Unlock()
			sent = append(sent, ids...)
		})
		q.Add("first")
		synctest.Wait()
		for i := range mostWaiting + 10 {
			q.Add(fmt.Sprint(i))
		}
		q.mu.Lock()
		n := len(q.waiting)
		q.mu.Unlock()
		if n != mostWaiting {
			t.Errorf("%d ids wait", n)
		}
		time.Sleep(patience * (mostWaiting/mostAtOnce + 2))
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(sent) != mostWaiting+1 || sent[0] != "first" || sent[1] != "10" {
			t.Errorf("%d ids were sent, the second is %s", len(sent), sent[1])
		}
	})
}

// TestThenComesAfterTheMessage checks that what follows an abort waits for it, and also comes if the id is dropped.
func TestThenComesAfterTheMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		sent := map[string]bool{}
		q := New(func(_ context.Context, ids []string) {
			time.Sleep(time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			for _, id := range ids {
				sent[id] = true
			}
		})
		early, after := 0, 0
		for i := range mostWaiting + 100 {
			id := fmt.Sprint(i)
			q.AddThen(id, func() {
				mu.Lock()
				defer mu.Unlock()
				if after++; !sent[id] {
					early++
				}
			})
		}
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		if dropped := mostWaiting + 100 - len(sent); after != mostWaiting+100 || early != dropped || dropped > 100 {
			t.Errorf("%d functions were called, %d before their message; %d ids were dropped", after, early, dropped)
		}
	})
}
