package llamacpp

import (
	"context"
	"sync"
	"sync/atomic"
)

// watcher sets a flag in the engine's memory when the context of the step that runs ends. It stays with a context
// until a step brings another: all steps of a lone request have the same one and so have those of many together,
// and neither an allocation nor a switch to another goroutine is spent on a token.
type watcher struct {
	flag *int32
	done <-chan struct{} // the context's; nil while none is watched
	drop func() bool

	mu   sync.Mutex // held to set the flag, so that a context of earlier steps does not end a later one
	turn int        // counts the contexts
}

// watch makes ctx the one whose end sets the flag. It is for the goroutine that calls the model.
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

// stop ends watching and clears the flag; nothing sets it afterwards.
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
