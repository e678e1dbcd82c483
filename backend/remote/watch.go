package remote

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"runner/backend"
)

// This file is about engines that come to run another model: after a restart, or behind a router where another replica
// answers. Nothing of another model may reach a client under the old name. The engine is asked again and again what it
// runs. While it is another model, all requests are refused.

const (
	// unseen is how long nothing may come from an engine before it is asked what it runs, before anything else. It takes
	// longer to start an engine with another model.
	unseen = time.Second
	// again is how often it is asked while requests run.
	again = 7 * time.Second
	// pause is the least time between two questions while it runs another model.
	pause = time.Second
	// relapse is how soon another model must come after the right one was back for the next return to be doubted.
	relapse = 10 * time.Minute
	// mostNeeded is how many right answers in a row are needed at most until the right model counts as back.
	mostNeeded = 64
)

// errOther says that the engine runs another model than before.
var errOther = fmt.Errorf("%w: %w", backend.ErrUnavailable, backend.ErrOtherModel)

// errSmaller says that the model must be loaded again, because its sequences are shorter now.
var errSmaller = errors.New("the engine has a smaller context now")

// changed reports whether an error says that the model is not the one that was opened.
func changed(err error) bool { return errors.Is(err, errOther) || errors.Is(err, errSmaller) }

// watch knows whether an engine still runs the model that was opened.
type watch struct {
	// seen is when the engine last sent a token, and verified when it last answered that it runs the model. next is when
	// it is asked again while requests run. All are in nanoseconds.
	seen, verified, next atomic.Int64
	// other says that it runs another model. changes counts how often that was found. Streams that were opened before are
	// then given up.
	other   atomic.Bool
	changes atomic.Int64

	// turn is held by the one who asks, and guards the rest.
	turn chan struct{}
	// answered is when the last answer came, and answer what came of it.
	answered time.Time
	answer   error
	// right counts right answers in a row since another model was found, and needed is how many it takes. back is when the
	// right model was back last.
	right, needed int
	back          time.Time
}

// verified returns an error if the engine cannot be reached or runs another model. It asks only if nothing came from
// the engine for a while. Otherwise it may ask in the background.
func (m *Model) verified(ctx context.Context) error {
	now := time.Now().UnixNano()
	if w := &m.watch; w.other.Load() || now-max(w.seen.Load(), w.verified.Load()) >= int64(unseen) {
		return m.verify(ctx)
	}
	m.verifyLater(now)
	return nil
}

// saw notes that the engine sent a token.
func (m *Model) saw() {
	now := time.Now().UnixNano()
	m.watch.seen.Store(now)
	m.verifyLater(now)
}

// verifyLater asks in the background what the engine runs, if it is time to.
func (m *Model) verifyLater(now int64) {
	w := &m.watch
	next := w.next.Load()
	if now < next || !w.next.CompareAndSwap(next, now+int64(again)) || w.other.Load() {
		return
	}
	m.streams.Go(func() {
		_ = m.verify(m.ctx) // if it cannot be reached, the streams notice
	})
}

// verify asks the engine what it runs. It returns an error if the engine cannot be reached or runs another model. Those
// who come while it asks get the same answer.
func (m *Model) verify(ctx context.Context) error {
	w := &m.watch
	came := time.Now()
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if w.answered.After(came) || w.other.Load() && time.Since(w.answered) < pause && errors.Is(w.answer, errOther) {
		return w.answer
	}
	err := within(ctx, m.patience.Describe, m.ask)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	err = m.judge(err)
	w.answered, w.answer = time.Now(), err
	return err
}

// ask asks the engine what it runs. The error is errOther or errSmaller if it has changed.
func (m *Model) ask(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var tokenizing sync.WaitGroup
	defer tokenizing.Wait()
	defer cancel()
	var theirs []backend.Token
	var failed error
	tokenizing.Go(func() { theirs, failed = m.engine.Encode(ctx, probe, false) }) // a request may wait for the answer
	d, err := Describe(ctx, m.engine)
	if err != nil {
		return err
	}
	if identity(&d) != identity(&m.about) || otherSize(d.Vocabulary, m.about.Vocabulary) {
		return errOther
	}
	ours, err := m.tokenize(nil, probe)
	if err != nil {
		return err
	}
	tokenizing.Wait()
	switch err := failed; {
	case err != nil:
		return fmt.Errorf("tokenizing a text: %w", err)
	case !slices.Equal(ours, theirs):
		return errOther
	case d.ContextSize < m.about.ContextSize:
		return errSmaller
	}
	return nil
}

// judge draws the conclusions from an answer. The caller has the turn.
func (m *Model) judge(err error) error {
	w := &m.watch
	switch {
	case errors.Is(err, errOther):
		m.found()
		w.right = 0
		return err
	case errors.Is(err, errSmaller):
		m.lose(err)
		return err
	case err != nil:
		return err
	}
	if w.other.Load() {
		if w.right++; w.right < w.needed {
			return errOther
		}
		w.back = time.Now()
		w.other.Store(false)
		m.warn("the engine at an address runs the model again that it ran before; requests are answered")
	}
	now := time.Now().UnixNano()
	w.verified.Store(now)
	w.next.Store(now + int64(again))
	return nil
}

// found says that the engine runs another model. All streams are given up. The caller has the turn.
func (m *Model) found() {
	w := &m.watch
	if w.other.Load() {
		return
	}
	// Behind a router with replicas of different models, the right answer may be luck. Then it takes more of them.
	if w.needed = min(max(1, 2*w.needed), mostNeeded); time.Since(w.back) >= relapse {
		w.needed = 1
	}
	w.right = 0
	w.other.Store(true)
	w.changes.Add(1)
	m.warn("the engine at an address runs another model; requests are refused until the old one is back or the runner " +
		"is started again")
	m.wake()
}

// named checks the name of the model in a message.
func (m *Model) named(name string) error {
	name = tidy(name, longestName)
	if name == "" || name == m.about.Model || slices.Contains(m.about.Names, name) {
		return nil
	}
	select {
	case m.watch.turn <- struct{}{}:
		defer func() { <-m.watch.turn }()
	case <-m.ctx.Done():
		return m.ctx.Err()
	}
	m.found()
	return errOther
}

// Other reports whether the engine runs another model than the one that was opened. It may be called from any
// goroutine.
func (m *Model) Other() bool { return m.watch.other.Load() }

// identity identifies the model that an engine runs, by what the engine says about it. The size of the vocabulary is
// left out, because some engines say it only in some states.
func identity(d *Description) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %d %d %q", d.Model, d.Path, d.Parameters, d.Bytes, d.Quantization))
	return hex.EncodeToString(sum[:])
}

// otherSize reports whether two vocabularies have different sizes. 0 is not known.
func otherSize(a, b int) bool { return a > 0 && b > 0 && a != b }

// Known remembers which model an engine ran when it was opened. Then another one is refused when the engine is opened
// the next time. It is safe for concurrent use. A nil Known knows nothing.
type Known struct{ identity atomic.Pointer[string] }

// Check returns an error that wraps [backend.ErrOtherModel] if the engine ran another model when it was opened.
func (k *Known) Check(d *Description) error {
	if k == nil {
		return nil
	}
	if was := k.identity.Load(); was != nil && *was != identity(d) {
		return errOther
	}
	return nil
}

// keep remembers the model, unless one is known.
func (k *Known) keep(d *Description) {
	if k != nil {
		is := identity(d)
		k.identity.CompareAndSwap(nil, &is)
	}
}
