package room

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"runner/cmd/runner/cli"
	"runner/cmd/runner/flags"
	"runner/generation"
	"runner/reasoning"
	"runner/reasoning/trace"
	"runner/reasoning/trace/store"
	"runner/runner/tracing"
)

// recorder records the runs of a command.
type recorder struct {
	app  *cli.App
	what cli.Recorded

	// The flags set these. age is negative if no trace is too old.
	on              bool
	dir             string
	maxTrace, total int64
	age             time.Duration

	// The rest is set when the recorder is open. log is nil for a command that says what became of each run.
	store   *lateStore
	traces  *tracing.Traces
	log     *slog.Logger
	stop    context.CancelFunc
	pruning sync.WaitGroup

	mu     sync.Mutex
	stored string
	failed error
}

// recordFlag is the flag that has all runs of a command recorded. Another room may have it for its runs under serve.
const recordFlag = "trace"

func newRecorder(a *cli.App, what cli.Recorded) (cli.Recorder, flags.Table) {
	on := []string{recordFlag}
	if what.Asked {
		on = []string{"traces", recordFlag}
	}
	what.Sealed = cmp.Or(what.Sealed, &cli.Sealing{})
	r := &recorder{app: a, what: what}
	keys, all := flags.Needs(slices.Concat(on, what.Sealing)...), flags.Needs(on...)
	return r, flags.List(
		flags.Switch(on[0], &r.on, what.Usage),
		what.Sealed.ToFlag(keys),
		flags.Text("trace-store", &r.dir, "`FOLDER` of the traces (default: in the data folder)", all),
		what.Sealed.Keys.FileFlag(keys),
		flags.Size("trace-max", &r.maxTrace, store.DefaultMaxTrace, 1,
			"maximum size of a trace in `BYTES`; a longer one is cut off there", all),
		flags.Size("trace-total", &r.total, store.DefaultMaxTotal, 1,
			"maximum size of all traces in `BYTES`; beyond it none is stored until some are erased", all),
		flags.Age("trace-age", &r.age, time.Nanosecond, "`AGE` at which traces are erased, as in 30d (default: never)", all))
}

// tracesFolder returns the folder of the traces: given, or the default.
func tracesFolder(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	data, err := cli.DataFolder()
	return filepath.Join(data, "traces"), err
}

// Flag implements [cli.Recorder].
func (r *recorder) Flag() string { return "--" + recordFlag }

// On implements [cli.Recorder].
func (r *recorder) On() bool { return r.on }

// Open implements [cli.Recorder]. A store that cannot be opened now is not an error.
func (r *recorder) Open(log *slog.Logger, rooms bool) error {
	to, err := r.what.Sealed.Recipients(r.app)
	if err != nil {
		return err
	}
	dir, err := tracesFolder(r.dir)
	if err != nil {
		return err
	}
	r.store = newLateStore(dir, store.Config{Recipients: to, MaxTrace: r.maxTrace, MaxTotal: r.total,
		MaxAge: max(r.age, 0)})
	if log == nil {
		r.traces = tracing.New(r.store, tracing.Config{Stored: r.keep, Report: r.fail})
		return nil
	}
	r.log = log
	r.traces = tracing.New(r.store, tracing.Config{Report: func(err error) {
		log.Error("the trace of a run is missing or incomplete", "error", err)
	}})
	r.begin(to, rooms)
	return nil
}

// begin opens the store of a command that runs for long. It starts to erase traces that get too old.
func (r *recorder) begin(to []trace.Recipient, rooms bool) {
	ids := make([]string, len(to))
	for i, key := range to {
		ids[i] = key.ID()
	}
	if _, err := r.store.open(); err != nil {
		r.log.Warn("no trace can be stored now; requests are answered without them, and opening the store is tried again",
			"error", err)
	}
	if r.on && r.what.Asked {
		r.log.Info("keeping the traces that requests ask for", "sealed_to", ids)
	}
	if rooms || !r.what.Asked {
		r.log.Info("keeping a trace of each run in the space", "sealed_to", ids)
	}
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	if r.age > 0 {
		r.pruning.Go(func() { r.prune(ctx, max(time.Second, min(r.age, pruneEvery))) })
	}
}

// pruneEvery is the maximum time between two removals of old traces.
const pruneEvery = time.Hour

func (r *recorder) prune(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		switch n, err := r.store.prune(ctx); {
		case err != nil && ctx.Err() == nil:
			r.log.Error("cannot erase old traces", "error", err)
		case n > 0:
			r.log.Info("erased old traces", "traces", n)
		}
	}
}

// Tracer implements [wire.Traces].
func (r *recorder) Tracer(principal, how, run string) generation.Observer {
	if r.traces == nil {
		return generation.Unobserved{}
	}
	return r.traces.Tracer(principal, how, run)
}

func (r *recorder) keep(id trace.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stored = id.String()
}

func (r *recorder) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = errors.Join(r.failed, err)
}

// Tell implements [cli.Recorder]. If the run has a result, its warnings have already reported a known [store.Error].
func (r *recorder) Tell(result *reasoning.Result, say func(line string)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stored != "" {
		say("trace " + r.stored)
	}
	if known := (*store.Error)(nil); r.failed != nil && (result == nil || !errors.As(r.failed, &known)) {
		r.app.Complain("warning: " + strings.Join(strings.Fields(r.failed.Error()), " "))
	}
	r.stored, r.failed = "", nil
}

// Close implements [cli.Recorder].
func (r *recorder) Close() error {
	if r.store == nil {
		return nil
	}
	if r.stop != nil {
		r.stop()
		r.pruning.Wait()
	}
	return r.store.Close()
}
