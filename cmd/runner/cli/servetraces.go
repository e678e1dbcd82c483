package cli

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"runner/runner/tracing"
	"runner/server/wire"
)

// keptTraces stores the traces of a long-running command. A nil *keptTraces stores none.
type keptTraces struct {
	store   *lateStore
	traces  *tracing.Traces
	log     *slog.Logger
	stop    context.CancelFunc
	pruning sync.WaitGroup
}

// pruneEvery is the maximum time between two removals of old traces.
const pruneEvery = time.Hour

// keepTraces opens the trace store if the flags ask for one. It starts to erase traces that get too old.
func (a *App) keepTraces(o *recordOptions, log *slog.Logger) (*keptTraces, error) {
	if !o.recording() {
		return nil, nil
	}
	s, to, err := a.openRecords(o)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(to))
	for i, r := range to {
		ids[i] = r.ID()
	}
	if _, err := s.open(); err != nil {
		log.Warn("no trace can be stored now; requests are answered without them, and opening the store is tried again",
			"error", err)
	}
	if o.on && o.flag == "traces" {
		log.Info("keeping the traces that requests ask for", "sealed_to", ids)
	}
	if o.rooms || o.flag == "trace" {
		log.Info("keeping a trace of each run in the space", "sealed_to", ids)
	}
	ctx, stop := context.WithCancel(context.Background())
	k := &keptTraces{store: s, log: log, stop: stop}
	k.traces = tracing.New(s, tracing.Config{Report: func(err error) {
		log.Error("the trace of a run is missing or incomplete", "error", err)
	}})
	if age := o.age; age > 0 {
		k.pruning.Go(func() { k.prune(ctx, max(time.Second, min(age, pruneEvery))) })
	}
	return k, nil
}

func (k *keptTraces) prune(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		switch n, err := k.store.prune(ctx); {
		case err != nil && ctx.Err() == nil:
			k.log.Error("cannot erase old traces", "error", err)
		case n > 0:
			k.log.Info("erased old traces", "traces", n)
		}
	}
}

// recorder returns what records the runs of a wire format, or nil if they are not recorded. The nil is that of the
// interface, which does not hold a nil pointer.
func (k *keptTraces) recorder(on bool) wire.Traces {
	if k == nil || !on {
		return nil
	}
	return k.traces
}

// close closes the store. Call it after all runs have ended.
func (k *keptTraces) close() error {
	if k == nil {
		return nil
	}
	k.stop()
	k.pruning.Wait()
	return k.store.Close()
}
