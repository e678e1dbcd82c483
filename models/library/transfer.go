package library

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"runner/models/hub"
	"runner/models/hub/download"
	"runner/models/installed"
	"runner/models/names"
	"runner/models/pull"
)

// Stage is what a pull is doing.
type Stage int

// The stages of a pull, in their order.
const (
	// Asking: the hub is asked for the files.
	Asking Stage = iota
	// Fetching: bytes come. Progress has a file.
	Fetching
	// Checking: the bytes are here, and the last of them are checked and written.
	Checking
	// Linking: the snapshot gets its entries.
	Linking
)

// Progress is a step of a pull.
type Progress struct {
	Stage Stage
	// Etag is the hash of the file that is fetched: a SHA-256 with 64 digits, else git's SHA-1. It is empty in the other
	// stages.
	Etag string
	// Done and Total are bytes of the file.
	Done, Total int64
}

// transfer is one pull, for all clients that wait for it.
type transfer struct {
	key string
	// repos are the repositories that it may write to, in lower case.
	repos  []string
	cancel context.CancelFunc
	// waiting counts the clients. It belongs to the library's lock.
	waiting int
	done    chan struct{}
	// name and err are the result. They are set before done is closed.
	name string
	err  error

	mu sync.Mutex
	// plan is nil until the hub has answered. files are where its files are. moved is closed and replaced at each change.
	plan  *pull.Plan
	files []download.Progress
	moved chan struct{}
}

// mayWrite reports whether the transfer may write to a repository.
func (t *transfer) mayWrite(repo string) bool { return slices.Contains(t.repos, strings.ToLower(repo)) }

// Pull brings the model that a name means into the cache, and returns the name that it has there. Each call reports the
// steps of the transfer that it shares; what is slow to report misses steps. An error of report ends the call.
//
// When ctx ends, or Pull returns for another reason, the transfer goes on if others wait for it. Errors are ctx's
// cause, that of report, [ErrUnknown], [ErrBusy], that of [Library.Close], and those of package pull.
func (l *Library) Pull(ctx context.Context, name string, report func(Progress) error) (string, error) {
	n, err := Parse(name)
	if err != nil {
		return "", err
	}
	t, err := l.join(n)
	if err != nil {
		return "", err
	}
	defer l.leave(t)
	return t.follow(ctx, report)
}

// join returns the transfer of a name, and begins it if there is none.
func (l *Library) join(n names.Name) (*transfer, error) {
	repos, _ := n.OnHub()
	if len(repos) == 0 {
		if near := names.Suggest(n.String(), 3); len(near) > 0 {
			return nil, fmt.Errorf("%w; similar names are %s", ErrUnknown, strings.Join(near, ", "))
		}
		return nil, ErrUnknown
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	key := strings.ToLower(repos[0] + ":" + n.Selector)
	if t := l.transfers[key]; t != nil {
		t.waiting++
		return t, nil
	}
	switch {
	case l.stop.Err() != nil:
		return nil, context.Cause(l.stop)
	case len(l.active) >= l.cfg.Pulls:
		return nil, ErrBusy
	}
	ctx, cancel := context.WithCancel(l.stop)
	t := &transfer{key: key, cancel: cancel, waiting: 1, done: make(chan struct{}), moved: make(chan struct{})}
	for _, r := range repos {
		t.repos = append(t.repos, strings.ToLower(r))
	}
	l.transfers[key] = t
	l.active = append(l.active, t)
	l.running.Go(func() {
		t.name, t.err = l.run(ctx, t, n)
		cancel()
		l.mu.Lock()
		defer l.mu.Unlock()
		l.drop(t)
		l.active = slices.DeleteFunc(l.active, func(other *transfer) bool { return other == t })
		close(t.done)
	})
	return t, nil
}

// leave says that a client no longer waits. The last one ends the transfer.
func (l *Library) leave(t *transfer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.waiting--; t.waiting == 0 {
		t.cancel()
		l.drop(t) // whoever comes now begins another one, which waits for the locks of this one
	}
}

// drop makes a transfer one that cannot be joined. The caller holds the lock.
func (l *Library) drop(t *transfer) {
	if l.transfers[t.key] == t {
		delete(l.transfers, t.key)
	}
}

// run does the transfer.
func (l *Library) run(ctx context.Context, t *transfer, n names.Name) (string, error) {
	client, err := l.cfg.Client()
	if err != nil {
		return "", err
	}
	memory := int64(0)
	if l.cfg.Memory != nil {
		memory = l.cfg.Memory()
	}
	plan, err := pull.NewPlan(ctx, client, l.cfg.Cache, n, memory)
	if e := (*hub.Error)(nil); errors.As(err, &e) && (e.Kind == hub.Offline || e.Temporary) {
		if m, ok := installed.Whole(l.cfg.Cache, n); ok {
			l.cfg.Log.Warn("a pulled model is here, but the hub does not say whether it is the newest", "error", err)
			return m.Spelled(), nil
		}
	}
	if err == nil {
		t.begin(plan)
		_, err = plan.Run(ctx, func(p download.Progress) {
			if p.Retry != nil {
				l.cfg.Log.Warn("the hub is asked again for a part of a model", "repository", plan.ID, "error", p.Retry,
					"wait_seconds", p.Wait.Seconds())
			}
			t.update(p)
		})
	}
	if l.stop.Err() != nil && errors.Is(err, context.Canceled) {
		err = context.Cause(l.stop)
	}
	if err != nil {
		return "", err
	}
	return plan.Model.Spelled(), nil
}

// begin sets the files of a plan.
func (t *transfer) begin(plan *pull.Plan) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.plan = plan
	for _, i := range plan.Items {
		t.files = append(t.files, download.Progress{File: i.Path, State: download.Waiting, Done: i.Have, Total: i.Size})
	}
	t.move()
}

// update sets the progress of a file.
func (t *transfer) update(p download.Progress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.files[slices.IndexFunc(t.files, func(f download.Progress) bool { return f.File == p.File })] = p
	t.move()
}

// move wakes the clients. The caller holds the lock.
func (t *transfer) move() {
	close(t.moved)
	t.moved = make(chan struct{})
}

// look returns the state, and a channel that is closed when it changes.
func (t *transfer) look() (plan *pull.Plan, files []download.Progress, moved <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.plan, slices.Clone(t.files), t.moved
}

// follow reports the steps of a transfer until it ends or ctx does.
func (t *transfer) follow(ctx context.Context, report func(Progress) error) (string, error) {
	f := follower{report: report}
	if err := report(Progress{}); err != nil {
		return "", err
	}
	for {
		plan, files, moved := t.look()
		if err := f.tell(plan, files); err != nil {
			return "", err
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-t.done:
			if t.err != nil {
				return "", t.err
			}
			plan, files, _ = t.look()
			return t.name, f.tell(plan, files)
		}
	}
}

// follower is what one client was told, of each file of the plan.
type follower struct {
	report func(Progress) error
	told   []Progress
	stage  Stage
}

// tell reports what is new.
func (f *follower) tell(plan *pull.Plan, files []download.Progress) error {
	if plan == nil {
		return nil
	}
	if f.told == nil {
		f.told = make([]Progress, len(files))
	}
	stage := Linking
	for i, p := range files {
		switch p.State {
		case download.Done, download.There:
		case download.Finishing:
			stage = min(stage, Checking)
		default:
			stage = Fetching
		}
		now := Progress{Stage: Fetching, Etag: plan.Items[i].Etag, Done: p.Done, Total: p.Total}
		if f.told[i] == now {
			continue
		}
		f.told[i] = now
		if err := f.report(now); err != nil {
			return err
		}
	}
	for ; f.stage < stage; f.stage++ {
		if next := f.stage + 1; next > Fetching {
			if err := f.report(Progress{Stage: next}); err != nil {
				return err
			}
		}
	}
	return nil
}
