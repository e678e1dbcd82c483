package llamacpp

import (
	"runtime"
	"time"
)

// turns lets other goroutines run between the steps of a model.
//
// Go's runtime takes its right to run (P) from a goroutine that has not paused for 10 ms. If the goroutine calls C
// again and again, that happens within 20 µs of each call, and it needs another P after the call. The thread that looks
// for such calls then hardly sleeps, and threads change processors. That cost steps of a millisecond a tenth. See retake
// in runtime/proc.go of Go 1.26.
type turns struct{ last time.Time }

// mostWithoutTurn is less than 10 ms by more than a short step. Steps that are longer lose their P, but they are so few
// that it costs nothing. After each step is too often: a turn wakes a thread.
const mostWithoutTurn = 5 * time.Millisecond

// give gives a turn if the last one is long ago. Only the goroutine that calls the model may call it.
func (t *turns) give() {
	if now := time.Now(); now.Sub(t.last) > mostWithoutTurn {
		t.last = now
		runtime.Gosched()
	}
}
