package server

import (
	"sync"
	"sync/atomic"
	"time"

	"runner/server/keys"
)

// allowance is a token bucket that refills steadily and holds the amount of one minute. The cost of a run is only known
// at its end, so the level may become negative; then nothing is allowed until it is positive again.
type allowance struct {
	perMinute float64
	level     float64
	at        time.Time
}

func newAllowance(perMinute int, now time.Time) allowance {
	return allowance{perMinute: float64(perMinute), level: float64(perMinute), at: now}
}

// wait returns how long it takes until the bucket holds need; 0 if it does now or has no limit.
func (a *allowance) wait(now time.Time, need float64) time.Duration {
	if a.perMinute <= 0 {
		return 0
	}
	a.level = min(a.perMinute, a.level+a.perMinute*now.Sub(a.at).Minutes())
	a.at = now
	if a.level >= need {
		return 0
	}
	return max(time.Millisecond, time.Duration((need-a.level)/a.perMinute*float64(time.Minute)))
}

// change sets another limit, which applies from now on.
func (a *allowance) change(perMinute int) {
	per := float64(perMinute)
	switch {
	case a.perMinute <= 0:
		a.level = per
	case per != a.perMinute:
		a.level = min(per, a.level+max(0, per-a.perMinute))
	}
	a.perMinute = per
}

// limits holds the allowances of all keys. Its methods may be called by several goroutines at once.
type limits struct {
	clock func() time.Time

	mu   sync.Mutex
	keys map[string]*keyLimits
}

// keyLimits holds what a key may still ask for. runs are its current runs.
type keyLimits struct {
	requests, tokens allowance
	runs             map[*charge]struct{}
}

// charge is what a current run takes from its key's tokens: its prompt, and the tokens that it has generated or
// asks for, whichever is more.
type charge struct {
	prompt, asked int
	generated     atomic.Int64
	over          bool
}

func (c *charge) tokens() int { return c.prompt + max(c.asked, int(c.generated.Load())) }

func newLimits(clock func() time.Time) *limits {
	return &limits{clock: clock, keys: map[string]*keyLimits{}}
}

// admit counts a request of a key, or returns how long the key must wait.
func (l *limits) admit(k *keys.Key) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock()
	of := l.keys[k.ID]
	if of == nil {
		of = &keyLimits{newAllowance(k.RequestsPerMinute, now), newAllowance(k.TokensPerMinute, now), map[*charge]struct{}{}}
		l.keys[k.ID] = of
	}
	of.requests.change(k.RequestsPerMinute)
	of.tokens.change(k.TokensPerMinute)
	if wait = of.requests.wait(now, 1); wait == 0 {
		of.requests.level--
	}
	return wait
}

// spent returns how long a key must wait before it may start a run; 0 if it may now.
func (l *limits) spent(id string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wait(l.keys[id])
}

// wait returns how long a key must wait for tokens that its current runs cannot use. What these will leave over is not
// known until they end, so it then returns a second.
func (l *limits) wait(of *keyLimits) time.Duration {
	if of == nil || of.tokens.perMinute <= 0 {
		return 0
	}
	if wait := of.tokens.wait(l.clock(), 1); wait > 0 {
		return wait
	}
	left := of.tokens.level
	for c := range of.runs {
		left -= float64(c.tokens())
	}
	if left < 1 {
		return time.Second
	}
	return 0
}

// begin counts a run of a key. If the key must wait and the run is the first of its request, it returns how long
// instead. Later runs of a request never wait.
func (l *limits) begin(id string, first bool, c *charge) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.keys[id]
	if of == nil || c.over {
		return 0
	}
	if first {
		wait = l.wait(of)
	}
	if wait == 0 {
		of.runs[c] = struct{}{}
	}
	return wait
}

// end counts the tokens that a run of a key has used. It may be called before begin.
func (l *limits) end(id string, c *charge, tokens int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.over = true
	if of := l.keys[id]; of != nil {
		delete(of.runs, c)
		of.tokens.level -= float64(tokens)
	}
}
