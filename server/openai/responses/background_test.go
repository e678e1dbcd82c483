package responses

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"runner/backend"
	"runner/backend/fake"
	"runner/generation"
	"runner/reasoning"
	"runner/server/wire"
	"runner/server/wiretest"
	"runner/testenv"
)

// until polls a response until it has a status.
func (f *fixture) until(t testing.TB, id any, status string) object {
	t.Helper()
	for range 2000 {
		if got := f.get(t, fmt.Sprint("/v1/responses/", id)); got["status"] == status {
			return got
		}
		time.Sleep(2 * time.Millisecond)
	}
	t.Fatalf("response %v never was %s", id, status)
	return nil
}

// idle waits until nothing runs in the background.
func (f *fixture) idle(t testing.TB) {
	t.Helper()
	for range 2000 {
		f.mu.Lock()
		n := len(f.active)
		f.mu.Unlock()
		if n == 0 {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
	t.Fatal("something is still made in the background")
}

func TestBackground(t *testing.T) {
	f := start(t, Config{}, slowly(time.Millisecond))
	made := f.post(t, body(t, object{"background": true, "reasoning": "full", "seed": 1}))
	if made["status"] != statusQueued || made["background"] != true || len(made["output"].([]any)) != 0 ||
		made["usage"] != nil {
		t.Errorf("response %v", made)
	}
	got := f.until(t, made["id"], statusCompleted)
	plain := f.post(t, body(t, object{"reasoning": "full", "seed": 1}))
	got["background"] = false
	if a, b := withoutIDs(t, got), withoutIDs(t, plain); a != b {
		t.Errorf("in the background\n%s\nin the foreground\n%s", a, b)
	}
	// It continues like any other.
	f.post(t, body(t, object{"previous_response_id": made["id"]}))
	// Cancelling a finished response changes nothing.
	status, again := f.do(t, "POST", fmt.Sprint("/v1/responses/", made["id"], "/cancel"), "")
	if status != 200 || decode(t, again)["status"] != statusCompleted {
		t.Errorf("cancelled: %d %s", status, again)
	}
	f.refused(t, "GET", fmt.Sprint("/v1/responses/", made["id"], "?stream=true"), "", 400)
}

// The events of a background run can be read again from any number, during the run and afterwards.
func TestReplay(t *testing.T) {
	f := start(t, Config{}, slowly(time.Millisecond))
	for _, visibility := range []string{"none", "full"} {
		events := f.stream(t, "POST", "/v1/responses",
			body(t, object{"background": true, "stream": true, "reasoning": visibility}))
		_, last := fold(t, events)
		if got := types(events); !strings.HasPrefix(got, "created\nqueued\nin_progress\n") {
			t.Errorf("events %s", got)
		}
		path := fmt.Sprint("/v1/responses/", last["id"], "?stream=true")
		if again := f.stream(t, "GET", path, ""); encode(t, again) != encode(t, events) {
			t.Errorf("replayed %s, want %s", encode(t, again), encode(t, events))
		}
		for _, n := range []int{0, 3, len(events) - 2, len(events) - 1, len(events) + 5} {
			rest := f.stream(t, "GET", fmt.Sprint(path, "&starting_after=", n), "")
			if want := events[min(n+1, len(events)):]; encode(t, append([]object{}, rest...)) != encode(t,
				append([]object{}, want...)) {
				t.Errorf("after %d: %d events, want %d", n, len(rest), len(want))
			}
		}
		for _, n := range []string{"-1", "x"} {
			f.refused(t, "GET", path+"&starting_after="+n, "", 400)
		}
	}
}

// If events no longer fit, an error event says so, and the newest events stay.
func TestReplayIsBounded(t *testing.T) {
	f := start(t, Config{Store: StoreLimits{Events: 4000}}, fake.Config{})
	made := f.post(t, body(t, object{"background": true, "stream": false}))
	_ = f.until(t, made["id"], statusCompleted)
	events := f.stream(t, "POST", "/v1/responses",
		body(t, object{"background": true, "stream": true, "instructions": strings.Repeat("word ", 100)}))
	id := ""
	for _, e := range events {
		if r, ok := e["response"].(object); ok {
			id = r["id"].(string)
		}
	}
	if id == "" {
		id = f.newest(t)
	}
	gone := f.stream(t, "GET", "/v1/responses/"+id+"?stream=true", "")
	if len(gone) != 1 || gone[0]["type"] != "error" || gone[0]["code"] != "events_gone" {
		t.Errorf("events %v", gone)
	}
	rec := f.store.get("local", id)
	<-rec.run.done
	log := rec.run.log
	if log.bytes > 4000 || log.first == 0 {
		t.Errorf("%d bytes are kept from %d on", log.bytes, log.first)
	}
	rest := f.stream(t, "GET", fmt.Sprint("/v1/responses/", id, "?stream=true&starting_after=", log.first-1), "")
	if len(rest) != len(log.frames) || rest[len(rest)-1]["type"] != "response.completed" {
		t.Errorf("%d events are left of %d", len(rest), len(log.frames))
	}
}

// newest returns the id of the response that was used last.
func (f *fixture) newest(t testing.TB) string {
	t.Helper()
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	return f.store.shelves["local"].order.Back().Value.(*record).id
}

func TestCancel(t *testing.T) {
	f := start(t, Config{}, slowly(5*time.Millisecond))
	made := f.post(t, body(t, object{"background": true, "reasoning": "full"}))
	f.until(t, made["id"], statusInProgress)
	status, got := f.do(t, "POST", fmt.Sprint("/v1/responses/", made["id"], "/cancel"), "")
	o := decode(t, got)
	if status != 200 || o["status"] != statusCancelled || o["error"] != nil || o["completed_at"] != nil {
		t.Errorf("%d %s", status, got)
	}
	f.refused(t, "POST", "/v1/responses", body(t, object{"previous_response_id": made["id"]}), 400)
	// Deleting a response ends its run too, and it does not come back.
	made = f.post(t, body(t, object{"background": true}))
	rec := f.store.get("local", made["id"].(string))
	if status, _ := f.do(t, "DELETE", fmt.Sprint("/v1/responses/", made["id"]), ""); status != 200 {
		t.Errorf("status %d", status)
	}
	<-rec.run.done
	f.refused(t, "GET", fmt.Sprint("/v1/responses/", made["id"]), "", http.StatusNotFound)
}

// The number of background runs is limited. Invalid requests are refused at once.
func TestBackgroundLimits(t *testing.T) {
	f := start(t, Config{Background: 2}, slowly(5*time.Millisecond))
	f.refused(t, "POST", "/v1/responses", body(t, object{"background": true, "input": strings.Repeat("word ", 9000)}), 400)
	f.idle(t) // a refused request gives its place back only after its answer
	var ids []any
	for range 2 {
		ids = append(ids, f.post(t, body(t, object{"background": true}))["id"])
	}
	e := f.refused(t, "POST", "/v1/responses", body(t, object{"background": true}), http.StatusTooManyRequests)
	if e["param"] != "background" {
		t.Errorf("error %v", e)
	}
	for _, id := range ids {
		f.until(t, id, statusCompleted)
		<-f.store.get("local", id.(string)).run.done
	}
	f.post(t, body(t, object{"background": true}))
}

// A key has a share of the background runs and cannot keep others out.
func TestBackgroundIsShared(t *testing.T) {
	f := start(t, Config{Background: 4}, slowly(5*time.Millisecond))
	keys := map[string]*fixture{}
	for _, id := range []string{"a", "b"} {
		p := wiretest.Anyone()
		p.ID = id
		keys[id] = f.as(t, p)
	}
	made := keys["a"].post(t, body(t, object{"background": true}))
	e := keys["a"].refused(t, "POST", "/v1/responses", body(t, object{"background": true}), http.StatusTooManyRequests)
	if e["param"] != "background" {
		t.Errorf("error %v", e)
	}
	keys["b"].post(t, body(t, object{"background": true}))
	keys["a"].until(t, made["id"], statusCompleted)
	f.idle(t)
	keys["a"].post(t, body(t, object{"background": true}))
	f.idle(t)
	if len(f.of) != 0 {
		t.Errorf("still counted: %v", f.of)
	}
}

// A background run outlives its client and its stream.
func TestBackgroundOutlivesItsClient(t *testing.T) {
	f := start(t, Config{}, slowly(5*time.Millisecond))
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.server.URL+"/v1/responses",
		strings.NewReader(body(t, object{"background": true, "stream": true})))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := f.server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = resp.Body.Read(make([]byte, 64))
	id := f.newest(t)
	cancel()
	resp.Body.Close()
	if got := f.until(t, id, statusCompleted); partText(item(got, 0), "content", 0) != answer {
		t.Errorf("response %v", got)
	}
}

// A foreground run ends with its client and is stored as cancelled.
func TestForegroundEndsWithItsClient(t *testing.T) {
	f := start(t, Config{}, slowly(20*time.Millisecond))
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.server.URL+"/v1/responses",
		strings.NewReader(body(t, object{"stream": true, "reasoning": "full"})))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := f.server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 8192)
	n, _ := resp.Body.Read(buf)
	_, after, _ := strings.Cut(string(buf[:n]), `"id":"`)
	id, _, _ := strings.Cut(after, `"`)
	if !strings.HasPrefix(id, "resp_") {
		t.Fatalf("no id in %s", buf[:n])
	}
	cancel()
	resp.Body.Close()
	for range 1000 {
		if rec := f.store.get("local", id); rec != nil {
			if rec.response.Status != statusCancelled {
				t.Errorf("status %s", rec.response.Status)
			}
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
	t.Error("it is not stored")
}

// Close waits for background runs, ends them at its deadline, and allows no new ones.
func TestClose(t *testing.T) {
	f := start(t, Config{}, slowly(2*time.Millisecond))
	made := f.post(t, body(t, object{"background": true}))
	f.Close(t.Context())
	if got := f.get(t, fmt.Sprint("/v1/responses/", made["id"])); got["status"] != statusCompleted {
		t.Errorf("response %v", got)
	}
	f.refused(t, "POST", "/v1/responses", body(t, object{"background": true}), http.StatusServiceUnavailable)

	f = start(t, Config{}, slowly(50*time.Millisecond))
	made = f.post(t, body(t, object{"background": true}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f.Close(ctx)
	got := f.get(t, fmt.Sprint("/v1/responses/", made["id"]))
	if got["status"] != statusFailed || got["error"].(object)["code"] != "server_error" {
		t.Errorf("response %v", got)
	}
}

// If a model breaks during a response, the response fails and keeps what there is.
func TestFailure(t *testing.T) {
	broken := fake.Config{Fail: func(step int, _ []backend.Input) error {
		if step > 25 {
			return fmt.Errorf("cut: %w", backend.ErrBroken)
		}
		return nil
	}}
	f := start(t, Config{}, broken)
	output, last := fold(t, f.stream(t, "POST", "/v1/responses", body(t, object{"stream": true, "reasoning": "full"})))
	if last["status"] != statusFailed || last["error"].(object)["code"] != "server_error" || len(output) == 0 {
		t.Errorf("response %v", last)
	}
	if got := f.get(t, fmt.Sprint("/v1/responses/", last["id"])); got["status"] != statusFailed {
		t.Errorf("stored %v", got)
	}
	f.refused(t, "POST", "/v1/responses", body(t, nil), http.StatusInternalServerError)
}

// Background runs, abandoned streams and readers of events leave no goroutine, no sequence, and no more memory than
// the store's limit.
func TestNothingLeaks(t *testing.T) {
	testenv.SkipRaced(t)
	f := start(t, Config{Store: StoreLimits{Responses: 8}}, slowly(200*time.Microsecond))
	round := func() {
		done := make(chan struct{})
		for i := range 8 {
			go func() {
				defer func() { done <- struct{}{} }()
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*4*time.Millisecond)
				defer cancel()
				more := object{"stream": i%2 == 0, "background": i%3 == 0, "reasoning": []string{"none", "full", "summary"}[i%3]}
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.server.URL+"/v1/responses",
					strings.NewReader(body(t, more)))
				if err != nil {
					t.Error(err)
					return
				}
				resp, err := f.server.Client().Do(req)
				if err != nil {
					return // cut off, as intended
				}
				defer resp.Body.Close()
				for {
					if _, err := resp.Body.Read(make([]byte, 256)); err != nil {
						return
					}
				}
			}()
		}
		for range 8 {
			<-done
		}
	}
	settle := func() (goroutines int, memory uint64) {
		f.idle(t)
		f.server.Client().CloseIdleConnections()
		time.Sleep(50 * time.Millisecond)
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return runtime.NumGoroutine(), m.HeapAlloc
	}
	for range 5 {
		round()
	}
	goroutines, memory := settle()
	for range 25 {
		round()
	}
	after, grown := settle()
	if after > goroutines+2 {
		t.Errorf("%d goroutines, before %d", after, goroutines)
	}
	if grown > memory+(4<<20) {
		t.Errorf("%d bytes, before %d", grown, memory)
	}
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	if n := f.store.shelves["local"].order.Len(); n > 8 {
		t.Errorf("%d responses are stored", n)
	}
}

// fragile are models whose runs panic, at once or after their first events.
type fragile struct {
	wire.Models
	after int
}

type fragileModel struct {
	wire.Model
	after int
}

func (f fragile) Use(ctx context.Context, name string) (wire.Model, error) {
	m, err := f.Models.Use(ctx, name)
	return fragileModel{m, f.after}, err
}

func (m fragileModel) Generate(ctx context.Context, req generation.Request,
	o generation.Observer) iter.Seq2[reasoning.Event, error] {
	return func(yield func(reasoning.Event, error) bool) {
		n := 0
		for e, err := range m.Model.Generate(ctx, req, o) {
			if n++; n > m.after {
				panic("a test wants it so")
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// A panic in the background only fails its response.
func TestPanicInTheBackground(t *testing.T) {
	f := start(t, Config{}, fake.Config{})
	f.API.models = fragile{f.models, 0}
	f.refused(t, "POST", "/v1/responses", body(t, object{"background": true}), http.StatusInternalServerError)
	f.API.models = fragile{f.models, 3}
	made := f.post(t, body(t, object{"background": true}))
	if got := f.until(t, made["id"], statusFailed); got["error"].(object)["code"] != "server_error" {
		t.Errorf("response %v", got)
	}
	events := f.stream(t, "POST", "/v1/responses", body(t, object{"background": true, "stream": true}))
	if last := events[len(events)-1]; last["type"] != "error" || last["sequence_number"] != float64(len(events)-1) {
		t.Errorf("the last event is %v", last)
	}
	f.API.models = f.models
	f.post(t, body(t, object{"background": true}))
}

// After a run panics in the middle of a stream, nothing writes to its connection.
func TestNothingIsWrittenAfterAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(fragile{wiretest.New(t, fake.Config{}, usual()...), 3}, Config{})
		defer a.Close(t.Context())
		w := httptest.NewRecorder()
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic came up")
				}
			}()
			wiretest.Handler(a, wiretest.Anyone()).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/responses",
				strings.NewReader(body(t, object{"stream": true}))))
		}()
		written := w.Body.Len()
		time.Sleep(time.Minute)
		synctest.Wait()
		if written == 0 || w.Body.Len() != written {
			t.Errorf("%q", w.Body)
		}
	})
}
