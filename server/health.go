package server

import (
	"context"
	"errors"
	"sync"
	"time"

	"runner/generation"
	"runner/server/pool"
	"runner/server/wire"
)

// The times of checking the models.
const (
	// probeEvery is how often loaded models compute a step as a test, and probeTimeout how long that may take.
	probeEvery   = 30 * time.Second
	probeTimeout = time.Minute
)

// health says whether the server works: its first model was loaded, and the last test step of each model succeeded.
type health struct {
	server *Server
	// ready says that the first model has computed a step. Only watch uses it.
	ready bool

	mu     sync.Mutex
	status string
}

// The states of a server's health.
const (
	healthLoading  = "loading"
	healthOK       = "ok"
	healthFailing  = "failing"
	healthStopping = "stopping"
)

func newHealth(s *Server) *health { return &health{server: s, status: healthLoading} }

func (h *health) get() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.status
}

// now returns the status and, if a model fails, the code of the reason. It knows of failures before the next check.
func (h *health) now() (status, reason string) {
	status = h.get()
	if status != healthOK && status != healthFailing {
		return status, ""
	}
	for _, c := range h.server.cards {
		switch err := h.server.cfg.Pool.Failure(c.Name); {
		case errors.Is(err, pool.ErrChanged):
			return healthFailing, wire.CodeModelChanged
		case err != nil:
			status, reason = healthFailing, wire.CodeModelUnusable
		default:
			r := h.server.cfg.Pool.Loaded(c.Name)
			if r == nil {
				continue
			}
			switch e := r.Stats().Remote; {
			case e.Other:
				return healthFailing, wire.CodeModelChanged
			case e.Down:
				status, reason = healthFailing, wire.CodeUnavailable
			}
		}
	}
	return status, reason
}

// set changes the status. After healthStopping it does nothing.
func (h *health) set(status string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.status != status && h.status != healthStopping {
		h.server.log.Info("health", "was", h.status, "is", status)
		h.status = status
	}
}

func (h *health) stop() { h.set(healthStopping) }

// watch loads the first model and tests the loaded models from time to time, until ctx ends.
func (h *health) watch(ctx context.Context) {
	ctx = wire.WithPrincipal(ctx, h.server.local())
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	h.check(ctx)
	for {
		select {
		case <-tick.C:
			h.check(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// check tests every model that is in memory. It loads the first one until that has computed a step once.
func (h *health) check(ctx context.Context) {
	status := healthOK
	for i, c := range h.server.cards {
		err := h.probe(ctx, c.Name, i == 0 && !h.ready)
		switch {
		case err == nil:
			h.ready = h.ready || i == 0
		case ctx.Err() != nil:
			return
		default:
			h.server.logFailure("a model cannot step", c.Name, err)
			status = healthFailing
		}
	}
	h.set(status)
}

// probe tests a model if it is in memory or if load is set. It loads a model that has failed again. A test does not
// count as use, so an idle model is still unloaded.
func (h *health) probe(ctx context.Context, name string, load bool) error {
	h.server.cfg.Pool.Inspect(ctx, name)
	if load || h.server.cfg.Pool.Failure(name) != nil {
		m, err := h.server.Use(ctx, name)
		if err != nil {
			return err
		}
		defer m.Release()
	}
	r := h.server.cfg.Pool.Loaded(name)
	if r == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if err := r.Probe(ctx); !errors.Is(err, generation.ErrClosed) {
		return err
	}
	return nil // it was unloaded in the meantime
}
