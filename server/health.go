package server

import (
	"context"
	"sync"
	"time"

	"runner/server/wire"
)

// The times of looking after the models.
const (
	// probeEvery is how often a loaded model is stepped when nobody else does, and probeTimeout how long that may take.
	probeEvery   = 30 * time.Second
	probeTimeout = time.Minute
)

// health says whether the server can answer: its first model was loaded, and stepped when it was last tried.
type health struct {
	server *Server

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

// set goes to another state. Nothing leads out of stopping.
func (h *health) set(status string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.status != status && h.status != healthStopping {
		h.server.log.Info("health", "was", h.status, "is", status)
		h.status = status
	}
}

func (h *health) stop() { h.set(healthStopping) }

// watch loads the first model and steps what is loaded now and then, until ctx ends.
func (h *health) watch(ctx context.Context) {
	ctx = wire.WithPrincipal(ctx, local)
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	h.check(ctx, true)
	for {
		select {
		case <-tick.C:
			h.check(ctx, false)
		case <-ctx.Done():
			return
		}
	}
}

// check steps every loaded model; first loads the default one before.
func (h *health) check(ctx context.Context, first bool) {
	status := healthOK
	for i, c := range h.server.cards {
		if !(first && i == 0) && h.server.cfg.Pool.Loaded(c.Name) == nil {
			continue
		}
		if err := h.probe(ctx, c.Name); err != nil {
			if ctx.Err() != nil {
				return
			}
			h.server.log.Error("a model cannot step", "model", c.Name, "error", err)
			status = healthFailing
		}
	}
	h.set(status)
}

func (h *health) probe(ctx context.Context, name string) error {
	m, err := h.server.Use(ctx, name)
	if err != nil {
		return err
	}
	defer m.Release()
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return m.Runner().Probe(ctx)
}
