package wiretest

import (
	"sync/atomic"
	"testing"

	"runner/backend/fake"
	"runner/runner"
)

// Weights are those of a model whose file is File. Their digest is Sum as soon as Known is set.
type Weights struct {
	File, Sum string
	Known     atomic.Bool
}

// Key implements [runner.Weights].
func (w *Weights) Key(string) string { return w.File }

// Digest implements [runner.Weights].
func (w *Weights) Digest() string {
	if w.Known.Load() {
		return w.Sum
	}
	return ""
}

// Touched implements [runner.Weights].
func (w *Weights) Touched() bool { return false }

// Close implements [runner.Weights].
func (w *Weights) Close() error { return nil }

// NewWeighed is New for a model of these weights.
func NewWeighed(t testing.TB, w *Weights, replies ...fake.Reply) *Models {
	t.Helper()
	return NewRunner(t, fake.Config{}, runner.Config{Weights: w}, replies...)
}
