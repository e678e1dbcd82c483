package cli

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"runner/runner/tracing"
)

// keptTraces is where a command that runs on and on keeps the traces of its runs; nil keeps none.
type keptTraces struct {
	store   *lateStore
	traces  *tracing.Traces
	log     *slog.Logger
	stop    context.CancelFunc
	pruning sync.WaitGroup
}

// pruneEvery is the longest that a trace outlives its age.
const pruneEvery = time.Hour

// keepTraces opens the store of traces, if flags ask for one, and erases from it what gets too old.
func (a *app) keepTraces(o *recordOptions, log *slog.Logger) (*keptTraces, error) {
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
		log.Warn("no traces can be stored now; requests are answered without, and the store is tried again", "error", err)
	}
	if o.on && o.flag == "traces" {
		log.Info("keeping the traces that requests ask for", "sealed_to", ids)
	}
	if o.space || o.flag == "trace" {
		log.Info("keeping a trace of each run in the space", "sealed_to", ids)
	}
	ctx, stop := context.WithCancel(context.Background())
	k := &keptTraces{store: s, log: log, stop: stop}
	k.traces = tracing.New(s, tracing.Config{Report: func(err error) {
		log.Error("no whole trace of a run is stored",
			"error", err)
	}})
	if age := o.age.Duration; age > 0 {
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
			k.log.Error("old traces cannot be erased", "error", err)
		case n > 0:
			k.log.Info("erased old traces", "traces", n)
		}
	}
}

// close closes the store. All runs have ended.
func (k *keptTraces) close() error {
	if k == nil {
		return nil
	}
	k.stop()
	k.pruning.Wait()
	return k.store.Close()
}
