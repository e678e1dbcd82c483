package server

import (
	"context"
	"errors"
	"sync"
	"time"

	"runner/generation"
	"runner/server/wire"
)

// The times of checking the models.
const (
	// probeEvery is how often loaded models compute a step as a test, and probeTimeout how long that may take. While a
	// model fails, all are tested every retryEvery, so that the server is healthy again as soon as its requests are
	// answered.
	probeEvery   = 30 * time.Second
	retryEvery   = time.Second
	probeTimeout = time.Minute
)

// health says whether requests are answered. It asks what they ask, the pool and the models, and it has the results of
// test steps.
type health struct {
	server *Server
	// ready says that the first model has computed a step. Only watch uses it.
	ready bool
	// suspected holds an item if a run failed in a way that may be the model's fault.
	suspected chan struct{}

	mu sync.Mutex
	// checked says that the models were tested once. is is the status that was logged last.
	checked bool
	is      string
	// failed are the models whose last test failed.
	failed map[string]failedTest
}

// failedTest is the last test of a model, which failed. It says nothing any more once the model has computed a step
// since, or was loaded again.
type failedTest struct {
	of    wire.Loaded // nil if it could not be loaded
	steps int64
	why   string // a code
}

// The states of a server's health.
const (
	healthLoading  = "loading"
	healthOK       = "ok"
	healthFailing  = "failing"
	healthStopping = "stopping"
)

func newHealth(s *Server) *health {
	return &health{server: s, is: healthLoading, suspected: make(chan struct{}, 1), failed: map[string]failedTest{}}
}

// get returns the status.
func (h *health) get() string {
	status, _ := h.now()
	return status
}

// now returns the status and, if a model fails, the code of the reason, which is that of the errors of its requests.
func (h *health) now() (status, reason string) {
	if h.server.drain.stopping() {
		return healthStopping, ""
	}
	h.mu.Lock()
	checked := h.checked
	h.mu.Unlock()
	if !checked {
		return healthLoading, ""
	}
	status = healthOK
	for _, c := range h.server.cards {
		if why := h.failure(c.Name); why != "" && reason != wire.CodeModelChanged {
			status, reason = healthFailing, why
		}
	}
	return status, reason
}

// failure returns the code of the error that requests for a model get, or an empty text.
func (h *health) failure(name string) (code string) {
	if err := h.server.cfg.Pool.Failure(name); err != nil {
		return withoutModel(err).Code
	}
	r := h.server.cfg.Pool.Loaded(name)
	if r == nil {
		return "" // it is idle, and is loaded for the next request
	}
	stats := r.Stats()
	switch {
	case stats.Remote.Other:
		return wire.CodeModelChanged
	case stats.Remote.Down:
		return wire.CodeUnavailable
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if test, ok := h.failed[name]; ok && test.of == r && test.steps == stats.Steps {
		return test.why
	}
	return ""
}

// suspect has the models checked soon.
func (h *health) suspect() {
	select {
	case h.suspected <- struct{}{}:
	default:
	}
}

// watch loads the first model and tests the loaded models from time to time, until ctx ends.
func (h *health) watch(ctx context.Context) {
	ctx = wire.WithPrincipal(ctx, h.server.local())
	for {
		h.check(ctx)
		every := probeEvery
		if h.get() != healthOK {
			every = retryEvery
		}
		select {
		case <-time.After(every):
			continue
		case <-h.suspected:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(suspectEvery): // runs that fail one after the other do not load the models with tests
		case <-ctx.Done():
			return
		}
	}
}

// suspectEvery is the minimum time between two checks.
const suspectEvery = 100 * time.Millisecond

// check tests every model that is in memory or fails. It loads the first one until that has computed a step once.
func (h *health) check(ctx context.Context) {
	for i, c := range h.server.cards {
		loaded, steps, err := h.probe(ctx, c.Name, i == 0 && !h.ready)
		if ctx.Err() != nil {
			return
		}
		h.ready = h.ready || i == 0 && err == nil
		h.note(c.Name, loaded, steps, err)
	}
	h.mu.Lock()
	h.checked = true
	h.mu.Unlock()
	h.log(h.get())
}

// note records the result of a test, and logs a failure that is new.
func (h *health) note(name string, loaded wire.Loaded, steps int64, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		delete(h.failed, name)
		return
	}
	test := failedTest{loaded, steps, withoutModel(err).Code}
	if last, ok := h.failed[name]; !ok || last.of != test.of || last.why != test.why {
		h.server.logFailure("a model cannot step", name, err)
	}
	h.failed[name] = test
}

// log logs a status that is new.
func (h *health) log(status string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.is != status {
		h.server.log.Info("health", "was", h.is, "is", status)
		h.is = status
	}
}

// probe tests a model if it is in memory or if load is set. It loads a model that has failed or could not be loaded
// again. A test does not count as use, so an idle model is still unloaded. It returns what it tested and after how many
// steps.
func (h *health) probe(ctx context.Context, name string, load bool) (r wire.Loaded, steps int64, err error) {
	h.server.cfg.Pool.Inspect(ctx, name)
	if failure := h.server.cfg.Pool.Failure(name); load || failure != nil && !isPools(failure) {
		_, release, err := h.server.cfg.Pool.Use(ctx, name)
		if err != nil {
			return nil, 0, err
		}
		defer release()
	}
	if r = h.server.cfg.Pool.Loaded(name); r == nil {
		return nil, 0, nil
	}
	steps = r.Stats().Steps
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if err := r.Probe(ctx); !errors.Is(err, generation.ErrClosed) {
		return r, steps, err
	}
	return nil, 0, nil // it was unloaded in the meantime
}
