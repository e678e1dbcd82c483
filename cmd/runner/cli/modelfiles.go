package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"runner/models"
	"runner/server/pool"
)

// modelFiles remembers the files of a server's models as they were when each was loaded first. A model's weights do not
// change while the server runs: a name that leads to others is refused.
type modelFiles struct {
	// mapped is set if the engine reads the weights from the files while it computes.
	mapped bool
	log    *slog.Logger
	// hashing computes digests, until the pool is closed.
	hashing sync.WaitGroup

	mu sync.Mutex
	// first has the files of each model when it was loaded first, and loaded those of the models in memory.
	first, loaded map[string]*models.Snapshot
}

// ownWeights are the files of a model that a command loads once. They implement [runner.Weights].
type ownWeights struct {
	*models.Snapshot
	// stop ends hashing, which computes their digest.
	stop    func()
	hashing sync.WaitGroup
}

// Close implements [runner.Weights].
func (w *ownWeights) Close() error {
	w.stop()
	w.hashing.Wait()
	return w.Snapshot.Close()
}

// takeFiles opens the files of a model, which users call name.
func takeFiles(name string, m models.Model) (*models.Snapshot, error) {
	s, err := m.Snapshot()
	if err != nil {
		return nil, Input("the files of model %q cannot be read", name).From(err).Hint("check the file and its permissions")
	}
	return s, nil
}

// take opens a model's files before the model is loaded. The error wraps [pool.ErrChanged] if the model was loaded
// before and they do not hold any more what they held then.
func (f *modelFiles) take(ctx context.Context, name string, m models.Model) (*models.Snapshot, error) {
	f.mu.Lock()
	first := f.first[name]
	f.mu.Unlock()
	now, err := takeFiles(name, m)
	if err != nil {
		return nil, err
	}
	if first == nil {
		return now, nil
	}
	if err := changed(first.Continue(ctx, now, false)); err != nil {
		return nil, errors.Join(err, now.Close())
	}
	return now, nil
}

// opened remembers the files that a model was loaded from. The digests of large files are computed in the background,
// slowly, until ctx ends.
func (f *modelFiles) opened(ctx context.Context, name string, s *models.Snapshot) {
	f.mu.Lock()
	f.loaded[name] = s
	if f.first[name] == nil {
		f.first[name] = s
	}
	f.mu.Unlock()
	hash(ctx, &f.hashing, name, s, f.log)
}

// check implements [pool.Config]'s Check.
func (f *modelFiles) check(ctx context.Context, name string) error {
	f.mu.Lock()
	loaded := f.loaded[name]
	f.mu.Unlock()
	if loaded == nil || !f.mapped || !loaded.Touched() {
		return nil
	}
	return changed(loaded.Recheck(ctx))
}

// changed returns the error of a comparison for the pool.
func changed(err error) error {
	if errors.Is(err, models.ErrChanged) {
		return fmt.Errorf("%w: %w", pool.ErrChanged, err)
	}
	return err
}

// hashedAtOnce is the maximum size in bytes of files whose digests are computed while the model is loaded. This takes
// some hundredths of a second.
const hashedAtOnce = 64 << 20

// hash computes the digest of a model's files, if it is not known: of large ones in the background, slowly, until ctx
// ends. It warns if the file has a name that says something else. The caller ends ctx and waits for background.
func hash(ctx context.Context, background *sync.WaitGroup, name string, s *models.Snapshot, log *slog.Logger) {
	small := s.Size() <= hashedAtOnce
	compute := func() {
		if s.Digest() != "" {
			return
		}
		if err := s.Hash(ctx, !small); err != nil {
			if ctx.Err() == nil {
				log.Warn("cannot compute the digest of a model's files", "model", name, "error", err)
			}
			return
		}
		if claimed := s.Claimed(); claimed != "" && claimed != s.Digest() {
			log.Warn("a model's file does not hold what its name in the cache claims", "model", name,
				"claimed", claimed, "digest", s.Digest())
		}
	}
	if small {
		compute()
		return
	}
	background.Go(compute)
}
