package openai

import (
	"bufio"
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"runner/generation"
	"runner/reasoning"
	"runner/server/wire"
	"runner/server/wiretest"
)

// runs is a model whose runs are a function's.
func runs(t testing.TB,
	run func(context.Context, generation.Request,
		generation.Observer) iter.Seq2[reasoning.Event, error]) *wiretest.Models {
	t.Helper()
	return wiretest.Of(t, &wiretest.Fake{Run: run})
}

// short returns a run of n answer deltas.
func short(n int) iter.Seq2[reasoning.Event, error] {
	return func(yield func(reasoning.Event, error) bool) {
		if !yield(reasoning.Event{Kind: reasoning.Started, Info: &reasoning.Info{}}, nil) {
			return
		}
		for range n {
			if !yield(reasoning.Event{Kind: reasoning.SegmentDelta, Segment: reasoning.Answer, Text: " word"}, nil) {
				return
			}
		}
		yield(reasoning.Event{Kind: reasoning.Done, Result: &reasoning.Result{Finish: reasoning.FinishStop}}, nil)
	}
}

// serve returns the format over a model, for everybody.
func serve(m wire.Models) http.Handler { return wiretest.Handler(New(m, Config{}), wiretest.Anyone()) }

// post sends a chat completion to a model.
func post(m wire.Models, fields string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	req := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(body("q", fields)))
	serve(m).ServeHTTP(w, req)
	return w
}

// Choices that wait for each other's places finish.
func TestChoicesDoNotWaitForEachOther(t *testing.T) {
	var place sync.Mutex
	m := runs(t, func(context.Context, generation.Request, generation.Observer) iter.Seq2[reasoning.Event, error] {
		return func(yield func(reasoning.Event, error) bool) {
			place.Lock()
			defer place.Unlock()
			short(3)(yield)
		}
	})
	for _, stream := range []string{`"n":4`, `"n":4,"stream":true`} {
		w := post(m, stream)
		if n := strings.Count(w.Body.String(), `"finish_reason":"stop"`); w.Code != http.StatusOK || n != 4 {
			t.Errorf("%s: %d, %d choices are finished", stream, w.Code, n)
		}
	}
}

// If a choice fails before all have started, the response is an error with a status, and the other choices end.
func TestOneChoiceFails(t *testing.T) {
	full := &wire.Error{Status: http.StatusTooManyRequests, Code: wire.CodeQueue, Message: "later"}
	for _, c := range []struct {
		late   bool
		status int
	}{{false, http.StatusTooManyRequests}, {true, http.StatusOK}} {
		var mu sync.Mutex
		begun, ended := 0, 0
		var others sync.WaitGroup // those that have started before the last one starts
		others.Add(2)
		m := runs(t, func(ctx context.Context, _ generation.Request,
			_ generation.Observer) iter.Seq2[reasoning.Event, error] {
			return func(yield func(reasoning.Event, error) bool) {
				mu.Lock()
				begun++
				last := begun == 3
				mu.Unlock()
				defer func() {
					mu.Lock()
					ended++
					mu.Unlock()
				}()
				if last && !c.late {
					yield(reasoning.Event{}, full)
					return
				}
				if last {
					others.Wait()
				}
				if !yield(reasoning.Event{Kind: reasoning.Started, Info: &reasoning.Info{}}, nil) {
					return
				}
				if last {
					yield(reasoning.Event{}, full)
					return
				}
				others.Done()
				<-ctx.Done()
				yield(reasoning.Event{}, context.Cause(ctx))
			}
		})
		w := post(m, `"n":3,"stream":true`)
		if w.Code != c.status || ended != 3 || !strings.Contains(w.Body.String(), `"code":"queue_full"`) {
			t.Errorf("late %v: %d after %d runs ended: %s", c.late, w.Code, ended, w.Body)
		}
		if c.late && !strings.HasSuffix(w.Body.String(), "data: [DONE]\n\n") {
			t.Errorf("the stream ends with %q", w.Body)
		}
	}
}

// A run's panic is raised in the handler's goroutine, where a server can handle it.
func TestPanics(t *testing.T) {
	m := runs(t, func(context.Context, generation.Request, generation.Observer) iter.Seq2[reasoning.Event, error] {
		panic("mistake")
	})
	for _, fields := range []string{`"n":1`, `"n":3`} {
		func() {
			defer func() {
				if p := recover(); p != "mistake" {
					t.Errorf("%s: recovered %v", fields, p)
				}
			}()
			post(m, fields)
		}()
	}
}

// If a client is gone, the run whose frames it does not read ends.
func TestGoneClientEndsTheRun(t *testing.T) {
	pushed := 0
	m := runs(t, func(_ context.Context, _ generation.Request, o generation.Observer) iter.Seq2[reasoning.Event, error] {
		return func(yield func(reasoning.Event, error) bool) {
			short(1000)(func(e reasoning.Event, err error) bool {
				pushed++
				more := yield(e, err)
				o.Idle() // the next event is not at hand
				return more
			})
		}
	})
	req := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(body("q", `"stream":true`)))
	serve(m).ServeHTTP(&gone{header: http.Header{}}, req)
	if pushed > 2 {
		t.Errorf("%d events were made for nobody", pushed)
	}
}

// gone is a closed connection.
type gone struct{ header http.Header }

func (g *gone) Header() http.Header       { return g.header }
func (g *gone) WriteHeader(int)           {}
func (g *gone) Write([]byte) (int, error) { return 0, errors.New("connection reset") }
func (g *gone) Flush()                    {}

// BenchmarkStream measures one streamed token, from the event to the client's socket, including the client's reading.
func BenchmarkStream(b *testing.B) {
	n := 0
	m := runs(b, func(context.Context, generation.Request, generation.Observer) iter.Seq2[reasoning.Event, error] {
		return short(n)
	})
	s := httptest.NewServer(serve(m))
	defer s.Close()
	n = b.N
	b.ReportAllocs()
	resp, err := http.Post(s.URL, "application/json", strings.NewReader(body("q", `"stream":true`)))
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, bufio.NewReader(resp.Body)); err != nil {
		b.Fatal(err)
	}
}

// After a run panics in the middle of a stream, nothing writes to its connection.
func TestNothingIsWrittenAfterAPanic(t *testing.T) {
	for choices, fields := range map[int32]string{1: `"stream":true`, 3: `"n":3,"stream":true`} {
		var started atomic.Int32
		m := runs(t, func(ctx context.Context, _ generation.Request,
			_ generation.Observer) iter.Seq2[reasoning.Event, error] {
			return func(yield func(reasoning.Event, error) bool) {
				yield(reasoning.Event{Kind: reasoning.Started, Info: &reasoning.Info{}}, nil)
				if started.Add(1) == choices {
					panic("mistake")
				}
				<-ctx.Done()
			}
		})
		synctest.Test(t, func(t *testing.T) {
			w := httptest.NewRecorder()
			func() {
				defer func() {
					if p := recover(); p != "mistake" {
						t.Errorf("%s: recovered %v", fields, p)
					}
				}()
				req := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(body("q", fields)))
				serve(m).ServeHTTP(w, req)
			}()
			written := w.Body.Len()
			time.Sleep(time.Minute)
			synctest.Wait()
			if !w.Flushed || w.Body.Len() != written {
				t.Errorf("%s: %q", fields, w.Body)
			}
		})
	}
}
