package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"runner/models"
	"runner/runner"
	"runner/server/pool"
)

// modelFiles knows what the files of the loaded models were when they were loaded.
type modelFiles struct {
	// mapped says that the engine reads the weights from the files while it computes.
	mapped bool
	log    *slog.Logger

	// repair puts back what the program itself has put into a file; nil for files of the user's.
	repair map[string]func(context.Context) error

	mu     sync.Mutex
	loaded map[string]*models.Snapshot
	// compared are the models that are loaded again with files that are the same as at first.
	compared map[string]bool
}

// opened notes what a model was loaded from, unless it is known to be the same as before. The digests are computed
// until ctx ends, those of long files aside and gently.
func (f *modelFiles) opened(ctx context.Context, name string, now *models.Snapshot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.compared[name] {
		delete(f.compared, name)
		return
	}
	f.loaded[name] = now
	hash := func() {
		if err := now.Hash(ctx, now.Size() > hashedAtOnce); err != nil && ctx.Err() == nil {
			f.log.Warn("a model's files cannot be read for their digest", "model", name, "error", err)
		}
	}
	if now.Size() <= hashedAtOnce {
		hash()
		return
	}
	go hash()
}

// hashedAtOnce is how long files may be whose digests are computed while the model is loaded: they take some
// hundredths of a second.
const hashedAtOnce = 64 << 20

// check is for [pool.Config].
func (f *modelFiles) check(ctx context.Context, name string, failure error) error {
	f.mu.Lock()
	was := f.loaded[name]
	f.mu.Unlock()
	if was == nil {
		return nil
	}
	if !f.mapped && failure == nil || !was.Touched() && !errors.Is(failure, runner.ErrBadLogits) &&
		!errors.Is(failure, pool.ErrChanged) {
		return nil // the engine has what it had, or has failed for a reason of its own
	}
	if put := f.repair[name]; put != nil && failure != nil {
		return put(ctx) // which looks at the digest itself
	}
	err := was.Compare(ctx)
	if errors.Is(err, models.ErrChanged) {
		return fmt.Errorf("%w: %w", pool.ErrChanged, err)
	}
	if err == nil && failure != nil {
		f.mu.Lock()
		f.compared[name] = true
		f.mu.Unlock()
	}
	return err
}
