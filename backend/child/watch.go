package child

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// startTime is how long a process may take to answer its first frame.
	startTime = 30 * time.Second
	// loadTime is how long a process may load without reporting progress.
	loadTime = 2 * time.Minute
	// leastTime is the shortest silence that counts as a hang.
	leastTime = 5 * time.Second
	// firstTime is the same for a step whose duration cannot be expected yet.
	firstTime = time.Minute
	// textTime is how long a process may answer no text although it has some to tokenize.
	textTime = 30 * time.Second

	tick = 250 * time.Millisecond
)

// watch kills a process that has a request and makes no progress.
//
// It counts the time in its own ticks, each at most twice as long as it should be. So the time in which this
// process was stopped, or the machine slept, does not count as the engine's silence.
type watch struct {
	of   *conn
	hung atomic.Bool

	mu       sync.Mutex
	patience time.Duration // 0 if there is no request
	silent   time.Duration
	moves    uint64
	texts    int           // that wait for their tokens
	mute     time.Duration // since a text was answered, or since there is one
	wake     chan struct{}
	ended    bool
}

// begin starts to watch a request.
func (w *watch) begin(patience time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.patience, w.silent, w.moves = patience, 0, w.of.moves.Load()
	w.wakeUp()
}

// wakeUp lets run look again. The caller holds the lock.
func (w *watch) wakeUp() {
	if w.wake != nil {
		close(w.wake)
		w.wake = nil
	}
}

// text notes a text that waits for its tokens.
func (w *watch) text() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.texts == 0 {
		w.mute = 0
	}
	w.texts++
	w.wakeUp()
}

// answered notes that a text has its tokens.
func (w *watch) answered() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts, w.mute = w.texts-1, 0
}

// end stops to watch the request.
func (w *watch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.patience = 0
}

// stop ends run.
func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.wakeUp()
}

// run looks at the process until stop is called or the process is gone.
func (w *watch) run() {
	t := time.NewTicker(tick)
	defer t.Stop()
	last, idle := time.Now(), 0
	for {
		select {
		case <-t.C:
		case <-w.of.dead:
			return
		}
		now := time.Now()
		passed := min(now.Sub(last), 2*tick)
		last = now
		sleep, ended := w.look(passed, &idle)
		if ended {
			return
		}
		if sleep == nil {
			continue
		}
		t.Stop()
		select {
		case <-sleep:
		case <-w.of.dead:
			return
		}
		t.Reset(tick)
		last, idle = time.Now(), 0
	}
}

// look looks at the process after some time has passed. After a second without a request it returns a channel that is
// closed when there is one.
func (w *watch) look(passed time.Duration, idle *int) (sleep <-chan struct{}, ended bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return nil, true
	}
	if w.texts > 0 {
		if w.mute += passed; w.mute > textTime {
			return nil, w.hang()
		}
	}
	if w.patience == 0 {
		if w.texts > 0 {
			return nil, false
		}
		if *idle++; *idle < 4 {
			return nil, false
		}
		if w.wake == nil {
			w.wake = make(chan struct{})
		}
		return w.wake, false
	}
	*idle = 0
	if n := w.of.moves.Load(); n != w.moves {
		w.moves, w.silent = n, 0
		return nil, false
	}
	if w.silent += passed; w.silent > w.patience {
		return nil, w.hang()
	}
	return nil, false
}

// hang ends the process and reports true.
func (w *watch) hang() bool {
	w.hung.Store(true)
	w.of.proc.end()
	return true
}

// pace expects how long a step takes, from the steps before it. Steps with about as many tokens are alike.
type pace struct {
	least, first time.Duration // leastTime and firstTime, except in tests
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

// patience returns how long a step may make no progress: eight times as long as it should take, but at least leastTime.
func (p *pace) patience(tokens int) time.Duration {
	i := class(tokens)
	for k := i; k >= 0; k-- {
		if p.took[k] > 0 {
			return max(p.least, 8*p.took[k]<<(i-k)) // at most as long for each token
		}
	}
	return p.first
}
