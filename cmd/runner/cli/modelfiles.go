package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"runner/generation"
	"runner/models"
	"runner/server/pool"
)

// modelFiles remembers the state of the models' files at the time of loading, to detect later changes.
type modelFiles struct {
	// mapped is set if the engine reads the weights from the files while it computes.
	mapped bool
	log    *slog.Logger

	// repair restores a file that the program itself has written. Models whose files belong to the user have no entry.
	repair map[string]func(context.Context) error

	mu     sync.Mutex
	loaded map[string]*models.Snapshot
	// compared has the models that will be loaded again and whose files are known to be unchanged.
	compared map[string]bool
}

// opened remembers the files that a model was loaded from, unless they are known to be unchanged. The digests of large
// files are computed in the background, slowly, until ctx ends.
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
			f.log.Warn("cannot read a model's files to compute their digest", "model", name, "error", err)
		}
	}
	if now.Size() <= hashedAtOnce {
		hash()
		return
	}
	go hash()
}

// hashedAtOnce is the maximum size in bytes of files whose digests are computed while the model is loaded. This takes
// some hundredths of a second.
const hashedAtOnce = 64 << 20

// check implements [pool.Config]'s Check.
func (f *modelFiles) check(ctx context.Context, name string, failure error) error {
	f.mu.Lock()
	was := f.loaded[name]
	f.mu.Unlock()
	if was == nil {
		return nil
	}
	if !f.mapped && failure == nil || !was.Touched() && !errors.Is(failure, generation.ErrBadLogits) &&
		!errors.Is(failure, pool.ErrChanged) {
		return nil // the weights are unchanged, or are not the reason of the failure
	}
	if put := f.repair[name]; put != nil && failure != nil {
		return put(ctx) // it compares the digest itself
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
