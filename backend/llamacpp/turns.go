package llamacpp

import (
	"runtime"
	"time"
)

// turns lets other goroutines run between the steps of a model.
//
// Go's runtime takes its right to run (P) from a goroutine that has not paused for 10 ms. If the goroutine calls C
// again and again, that happens within 20 µs of each call, and it needs another P after the call. The thread that looks
// for such calls then hardly sleeps, and threads change processors. That cost steps of a millisecond a tenth. See
// retake in runtime/proc.go of Go 1.26.
type turns struct {
	step time.Time // when the last step began
	last time.Time // when the last turn was given
}

// mostWithoutTurn leaves room for a short step more before the 10 ms are over. A turn after each step would be too
// often, because it wakes a thread. Between long steps the P is lost, but there are so few of them that it costs
// nothing, and a turn would cost more.
const mostWithoutTurn = 5 * time.Millisecond

// give gives a turn if the last step was short and the last turn is long ago. Only the goroutine that calls the model
// may call it.
func (t *turns) give() {
	now := time.Now()
	short := now.Sub(t.step) < mostWithoutTurn
	t.step = now
	if short && now.Sub(t.last) > mostWithoutTurn {
		t.last = now
		runtime.Gosched()
	}
}
