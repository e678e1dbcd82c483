package child

import (
	"sync"
	"sync/atomic"
	"time"
)

// times says how long a process may make no progress.
type times struct {
	start time.Duration // until it answers its first frame; it may open the libraries of its devices before that
	load  time.Duration // while it loads a model
	least time.Duration // in a step at least, and in any other request about a sequence
	first time.Duration // in a step whose duration cannot be expected yet, and in the first one at most
	text  time.Duration // while it tokenizes a text; a long text has more time
}

var usualTimes = times{start: 2 * time.Minute, load: 2 * time.Minute, least: 5 * time.Second, first: time.Minute,
	text: 5 * time.Second}

// textRate is how many bytes of text an engine tokenizes in a second at least.
const textRate = 20 << 10

// forText returns how long a text of a number of bytes may take.
func (t *times) forText(bytes int) time.Duration {
	return t.text + time.Duration(bytes)*time.Second/textRate
}

const (
	tick = 250 * time.Millisecond
	// idleTicks is how many ticks without a request there are before they stop.
	idleTicks = 4
)

// watch kills a process that has a request and makes no progress, or that does not tokenize a text.
//
// It counts the time in its own ticks, each at most twice as long as it should be. So the time in which this
// process was stopped, or the machine slept, does not count as the engine's silence. On Linux and macOS the clock of
// the ticks stops in sleep, too (CLOCK_MONOTONIC, mach_absolute_time).
type watch struct {
	of   *conn
	hung atomic.Pointer[error] // why the process was killed

	mu      sync.Mutex
	request awaited // its patience is 0 if there is no request
	moves   uint64
	texts   map[*awaited]bool
	timer   *time.Timer // of the next tick
	ticks   bool
	last    time.Time
	idle    int
	ended   bool
}

// awaited is one answer.
type awaited struct {
	// patience is how long it may take, silent how long there was no progress, and lasts how long it has taken.
	patience, silent, lasts time.Duration
}

// begin starts to watch a request.
func (w *watch) begin(patience time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.request, w.moves = awaited{patience: patience}, w.of.moves.Load()
	w.rouse()
}

// end stops to watch the request. It returns how long the request has taken at most, without sleep.
func (w *watch) end() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.request.patience = 0
	return w.request.lasts + 2*tick
}

// beginText starts to watch a text. Texts are tokenized while other requests go on.
func (w *watch) beginText(patience time.Duration) *awaited {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := &awaited{patience: patience}
	if w.texts == nil {
		w.texts = map[*awaited]bool{}
	}
	w.texts[t] = true
	w.rouse()
	return t
}

// endText stops to watch a text.
func (w *watch) endText(t *awaited) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.texts, t)
}

// rouse starts the ticks, unless they go on.
func (w *watch) rouse() {
	if w.ticks || w.ended {
		return
	}
	w.ticks, w.last, w.idle = true, time.Now(), 0
	if w.timer == nil {
		w.timer = time.AfterFunc(tick, w.tick)
	} else {
		w.timer.Reset(tick)
	}
}

// stop ends the ticks.
func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended = true; w.timer != nil {
		w.timer.Stop()
	}
}

// tick is called by the timer.
func (w *watch) tick() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	passed := now.Sub(w.last)
	w.last = now
	if w.ticks = !w.ended && w.look(passed); w.ticks {
		w.timer.Reset(tick)
	}
}

// look looks at the process after some time has passed. It reports whether there is to be another tick.
func (w *watch) look(passed time.Duration) bool {
	if w.request.patience == 0 && len(w.texts) == 0 {
		w.idle++
		return w.idle < idleTicks
	}
	w.idle = 0
	passed = min(passed, 2*tick)
	if n := w.of.moves.Load(); n != w.moves {
		w.moves, w.request.silent = n, 0
	}
	if w.request.after(passed) {
		return w.kill(errHang)
	}
	for t := range w.texts {
		if t.after(passed) {
			return w.kill(errTextHang)
		}
	}
	return true
}

// after adds some time without progress and reports whether it was too much.
func (w *awaited) after(passed time.Duration) bool {
	w.silent += passed
	w.lasts += passed
	return w.patience > 0 && w.silent > w.patience
}

// kill ends the process.
func (w *watch) kill(why error) (more bool) {
	w.hung.Store(&why)
	w.of.proc.end()
	return false
}

// A first step reads weights from a disk at coldRate bytes a second or more, and computes as fast for coldTokens
// tokens.
const (
	coldRate   = 100e6
	coldTokens = 64
)

// pace expects how long a step takes, from the steps before it. Steps with about as many tokens are alike.
type pace struct {
	times
	// parts is how many times a step reports progress at least, each time after about as much work; 0 is never.
	parts int
	// weights is the size of the model's weights in bytes; 0 is unknown.
	weights int64
	// took has the mean duration of steps with up to 2^i tokens; 0 is unknown.
	took [32]time.Duration
}

func class(tokens int) int {
	i := 0
	for ; tokens > 1<<i; i++ {
	}
	return i
}

// note remembers a step.
func (p *pace) note(tokens int, took time.Duration) {
	at := &p.took[class(tokens)]
	if *at == 0 {
		*at = took
	}
	*at += (took - *at) / 8
}

// patience returns how long a step may make no progress: eight times as long as it should take, or each of its parts,
// but at least least. A step with fewer tokens than any before should take no longer than those. The first step should
// take no longer than reading all weights from a slow disk takes, once for every coldTokens tokens.
func (p *pace) patience(tokens int) time.Duration {
	parts := time.Duration(max(1, p.parts))
	i := class(tokens)
	for k := i; k >= 0; k-- {
		if p.took[k] > 0 {
			return max(p.least, 8*p.took[k]<<(i-k)/parts) // at most as long for each token
		}
	}
	expected := time.Duration(0)
	for _, took := range p.took[i:] {
		if expected = took; took > 0 {
			break
		}
	}
	if expected == 0 && p.parts > 0 && p.weights > 0 {
		expected = time.Duration(float64(p.weights) / coldRate * float64(time.Second))
		expected *= time.Duration(1 + tokens/coldTokens)
	}
	if expected == 0 {
		return p.first
	}
	return min(p.first, max(p.least, 8*expected/parts))
}
