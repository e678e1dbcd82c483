package wiretest

import (
	"context"
	"iter"

	"runner/generation"
	"runner/reasoning"
	"runner/server/wire"
)

// Fake is a model without an engine: a function carries out its runs. It is also a [wire.Models] that has only this
// model and lets everybody use it.
type Fake struct {
	// Model is what a test needs besides runs; nil if it needs nothing.
	wire.Model
	// Run carries out a request.
	Run func(ctx context.Context, req generation.Request) iter.Seq2[reasoning.Event, error]
}

// Use implements [wire.Models].
func (f *Fake) Use(context.Context, string) (wire.Model, error) { return f, nil }

// Unload implements [wire.Models]: the model stays.
func (f *Fake) Unload(context.Context, string) error { return nil }

// Find implements [wire.Models].
func (f *Fake) Find(context.Context, string) (wire.Card, bool) { return f.Card(), true }

// List implements [wire.Models].
func (f *Fake) List(context.Context) []wire.Card { return []wire.Card{f.Card()} }

// Card implements [wire.Model].
func (f *Fake) Card() wire.Card { return wire.Card{Name: Name, Digest: f.Info().Digest} }

// Info implements [wire.Model].
func (f *Fake) Info() generation.ModelInfo {
	return generation.ModelInfo{Name: Name, ContextSize: 1024, Digest: "0123456789abcdef"}
}

// Generate implements [wire.Model].
func (f *Fake) Generate(ctx context.Context, req generation.Request) iter.Seq2[reasoning.Event, error] {
	return f.Run(ctx, req)
}

// Release implements [wire.Model].
func (f *Fake) Release() {}
