package llamacpp

import (
	"context"
	"sync"
	"sync/atomic"
)

// watcher sets a flag in the engine's memory when the context of the running step ends. It keeps watching a context
// until a step has another one. Steps of a single request all have the same context, and so do those of many
// requests together. So watching costs no allocation and no goroutine switch per token.
type watcher struct {
	flag *int32
	done <-chan struct{} // of the context; nil while none is watched
	drop func() bool

	mu   sync.Mutex // held while setting the flag, so that an earlier context cannot end a later step
	turn int        // number of the current context
}

// watch makes ctx the context whose end sets the flag. Only the goroutine that calls the model may call it.
func (w *watcher) watch(ctx context.Context) {
	done := ctx.Done()
	if done == w.done {
		return
	}
	w.stop()
	if done == nil {
		return
	}
	turn := w.turn
	w.done = done
	w.drop = context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.turn == turn {
			atomic.StoreInt32(w.flag, 1)
		}
	})
}

// stop ends watching and clears the flag. Nothing sets it afterwards.
func (w *watcher) stop() {
	if w.done == nil {
		return
	}
	w.drop()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done, w.drop = nil, nil
	w.turn++
	atomic.StoreInt32(w.flag, 0)
}
