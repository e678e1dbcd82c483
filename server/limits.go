package server

import (
	"sync"
	"time"

	"runner/server/keys"
)

// allowance is a bucket that refills steadily up to a minute's worth. What is spent is known only afterwards, so it may go below zero, and
// then nothing is allowed until it has recovered.
type allowance struct {
	perMinute float64
	level     float64
	at        time.Time
}

func newAllowance(perMinute int, now time.Time) allowance {
	return allowance{perMinute: float64(perMinute), level: float64(perMinute), at: now}
}

// wait returns how long it takes until the bucket holds need; 0 is now. A bucket without a limit always does.
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

// limits are the allowances of all keys. Its methods may be called by several goroutines at once.
type limits struct {
	clock func() time.Time

	mu   sync.Mutex
	keys map[string]*keyLimits
}

type keyLimits struct{ requests, tokens allowance }

func newLimits(clock func() time.Time) *limits {
	return &limits{clock: clock, keys: map[string]*keyLimits{}}
}

// admit counts a request of a key, or returns how long it has to wait and for what.
func (l *limits) admit(k *keys.Key) (wait time.Duration, what string) {
	if k == nil || k.RequestsPerMinute <= 0 && k.TokensPerMinute <= 0 {
		return 0, ""
	}
	now := l.clock()
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.keys[k.ID]
	if of == nil {
		of = &keyLimits{newAllowance(k.RequestsPerMinute, now), newAllowance(k.TokensPerMinute, now)}
		l.keys[k.ID] = of
	}
	if wait = of.tokens.wait(now, 1); wait > 0 {
		return wait, "tokens"
	}
	if wait = of.requests.wait(now, 1); wait > 0 {
		return wait, "requests"
	}
	of.requests.level--
	return 0, ""
}

// spend counts tokens that a key has used.
func (l *limits) spend(id string, tokens int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if of := l.keys[id]; of != nil {
		of.tokens.level -= float64(tokens)
	}
}
