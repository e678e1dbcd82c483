//go:build unix

package tracing_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"runner/generation"
	"runner/reasoning"
	"runner/reasoning/trace"
	"runner/reasoning/trace/store"
)

// weights are the weights of a model, whose digest comes later.
type weights struct {
	digest  atomic.Pointer[string]
	touched atomic.Bool
}

func (w *weights) Key(header string) string { return "file of " + header }
func (w *weights) Touched() bool            { return w.touched.Load() }
func (w *weights) Close() error             { return nil }

func (w *weights) Digest() string {
	if d := w.digest.Load(); d != nil {
		return *d
	}
	return ""
}

// TestTraceNamesTheWeights checks that a trace has the digest of the model's contents, also if that comes during the
// run, and that the trace says so if it is not known.
func TestTraceNamesTheWeights(t *testing.T) {
	digest := "d1"
	for _, c := range []struct {
		name       string
		begin, end func(*weights)
		begun      string
		known      string
	}{
		{"known", func(w *weights) { w.digest.Store(&digest) }, func(*weights) {}, digest, digest},
		{"known later", func(*weights) {}, func(w *weights) { w.digest.Store(&digest) }, "", digest},
		{"unknown", func(*weights) {}, func(*weights) {}, "", ""},
		{"written to", func(w *weights) { w.digest.Store(&digest) }, func(w *weights) { w.touched.Store(true) }, digest, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &weights{}
			b := newSlowBench(t, store.Config{}, 0, w)
			c.begin(w)
			req := request(asks)
			var events []reasoning.Event
			for e, err := range b.Generate(t.Context(), req, b.Tracer("key-1", "a test", "run_1")) {
				if err != nil {
					t.Fatal(err)
				}
				if e.Kind == reasoning.Started {
					c.end(w)
				}
				events = append(events, e)
			}
			records := b.records(t, traceOf(t, events))
			begin, end := records[0].Begin, records[len(records)-1].End
			if begin.ModelKey != b.Info().Key || begin.ModelKey == "" || begin.ModelDigest != c.begun {
				t.Errorf("it begins with the key %q and the digest %q", begin.ModelKey, begin.ModelDigest)
			}
			if end.ModelDigest != c.known || end.ModelUnknown != (c.known == "") {
				t.Errorf("it ends with %+v", end)
			}
			list, err := b.store.List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			listed := c.known
			if c.begun != "" {
				listed = c.begun
			}
			if !slices.ContainsFunc(list, func(e store.Entry) bool { return e.Model == listed && !e.Unattested }) {
				t.Errorf("the list has %+v", list)
			}
			if report, err := b.store.Verify(t.Context(), nil); err != nil || len(report.Problems) > 0 {
				t.Errorf("the store says %+v, %v", report, err)
			}
		})
	}
}

// TestTraceOfChangedWeightsNamesNone checks that a trace names no weights if the run ended because its model's files
// hold something else now.
func TestTraceOfChangedWeightsNamesNone(t *testing.T) {
	w, digest := &weights{}, "d1"
	w.digest.Store(&digest)
	b := newSlowBench(t, store.Config{}, 0, w)
	recorder, err := b.Tracer("key-1", "a test", "run_1").Trace(context.Background(), &generation.TracedRun{
		Request: &generation.Request{}, Model: "m", Key: "k", Digest: w.Digest})
	if err != nil {
		t.Fatal(err)
	}
	id, err := recorder.End(generation.ErrChanged)
	if err != nil {
		t.Fatal(err)
	}
	records := b.records(t, id)
	if end := records[len(records)-1].End; end.Status != trace.StatusFailed || end.ModelDigest != "" || !end.ModelUnknown {
		t.Errorf("it ends with %+v", end)
	}
}
