package server

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"runner/backend/fake"
	"runner/generation"
	"runner/runner"
	"runner/server/keys"
	"runner/server/wire"
)

func TestRatesAreLimited(t *testing.T) {
	now := time.Unix(0, 0)
	var mu sync.Mutex
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	pass := func(d time.Duration) { mu.Lock(); defer mu.Unlock(); now = now.Add(d) }
	set := keyFile(t, entry("requests", "key-requests", `,"requests_per_minute":2`)+","+entry("tokens", "key-tokens",
		`,"tokens_per_minute":60`))
	s := host(t, Config{Keys: set, Clock: clock}, scripted(said("q", "four")))
	ask := func(key string) reply {
		return s.do(t, http.MethodPost, "/say", `{"text":"q"}`, "Authorization", "Bearer "+key)
	}
	for i, want := range []int{200, 200, 429} {
		if r := ask("key-requests"); r.StatusCode != want {
			t.Errorf("request %d: %d %s", i, r.StatusCode, r.body)
		}
	}
	if r := ask("key-requests"); r.Header.Get("Retry-After") != "30" || !strings.Contains(r.body, wire.CodeRate) {
		t.Errorf("Retry-After %q: %s", r.Header.Get("Retry-After"), r.body)
	}
	pass(30 * time.Second)
	if r := ask("key-requests"); r.StatusCode != http.StatusOK {
		t.Errorf("after a while: %d", r.StatusCode)
	}
	if r := ask("key-tokens"); r.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", r.StatusCode, r.body)
	}
	if r := ask("key-tokens"); r.StatusCode != http.StatusTooManyRequests || !strings.Contains(r.body, "tokens") {
		t.Errorf("more tokens than there are: %d %s", r.StatusCode, r.body)
	}
	pass(10 * time.Minute)
	if r := ask("key-tokens"); r.StatusCode != http.StatusOK {
		t.Errorf("after a long while: %d", r.StatusCode)
	}
}

func TestRunsThatTakeTooLongAreCut(t *testing.T) {
	s := host(t, Config{RequestTimeout: 500 * time.Millisecond},
		slowly(2*time.Millisecond, said("q", strings.Repeat("a b ", 1000))))
	if r := s.do(t, http.MethodPost, "/say", `{"text":"q"}`); !strings.Contains(r.body, wire.CodeTimeout) ||
		!strings.HasSuffix(r.body, "\n\n") {
		t.Errorf("%d %q", r.StatusCode, r.body)
	}
}

// A request that embeds many texts has one time limit.
func TestEmbeddingsOfARequestShareItsTime(t *testing.T) {
	const limit = 300 * time.Millisecond
	s := host(t, Config{RequestTimeout: limit}, fake.Config{})
	embed := func(said *note) error {
		ctx := context.WithValue(wire.WithPrincipal(t.Context(), &wire.Principal{ID: wire.Local}), noteKey{}, said)
		m, err := s.Use(ctx, "")
		if err != nil {
			t.Fatal(err)
		}
		defer m.Release()
		_, err = m.Embed(ctx, []generation.Token{1, 2, 3})
		return err
	}
	one, other := new(note), new(note)
	defer one.leave()
	defer other.leave()
	if err := embed(one); err != nil {
		t.Fatal(err)
	}
	err := embed(one)
	for deadline := time.Now().Add(10 * time.Second); err == nil && time.Now().Before(deadline); err = embed(one) {
		time.Sleep(limit / 10)
	}
	if !errors.Is(err, wire.ErrTimeout) {
		t.Errorf("after the time that the request has: %v", err)
	}
	if err := embed(other); err != nil {
		t.Errorf("of another request: %v", err)
	}
}

// The official clients must not retry a timeout, because another try would take as long. They should retry errors that
// may pass.
func TestErrorsSayWhetherToRetry(t *testing.T) {
	s := host(t, Config{}, fake.Config{})
	w := httptest.NewRecorder()
	if wire.WriteError(w, wire.FromError(wire.ErrTimeout, nil), nil); w.Header().Get("X-Should-Retry") != "false" ||
		w.Header().Get("Retry-After") != "" {
		t.Errorf("after a time-out: %v", w.Header())
	}
	w = httptest.NewRecorder()
	if wire.WriteError(w, wire.FromError(generation.ErrQueueFull, nil), nil); w.Header().Get("X-Should-Retry") != "" ||
		w.Header().Get("Retry-After") != "1" {
		t.Errorf("with a full queue: %v", w.Header())
	}
	if r := s.do(t, http.MethodGet, "/nothing", ""); r.StatusCode != http.StatusNotFound {
		t.Errorf("%d", r.StatusCode)
	}
	r := s.do(t, http.MethodGet, "/metrics", "")
	if !strings.Contains(r.body, `runner_refused_total{code="not_found"} 1`) {
		t.Errorf("what a format refuses is not counted: %s", r.body)
	}
}

func TestFullQueueIsReported(t *testing.T) {
	c := slowly(2*time.Millisecond, said("q", strings.Repeat("a b ", 20)))
	c.Sequences = 1
	s := host(t, Config{}, c, 2)
	var wg sync.WaitGroup
	var mu sync.Mutex
	count := map[int]int{}
	for range 8 {
		wg.Go(func() {
			r := s.do(t, http.MethodPost, "/say", `{"text":"q"}`)
			mu.Lock()
			defer mu.Unlock()
			count[r.StatusCode]++
			if r.StatusCode == http.StatusTooManyRequests && (r.Header.Get("Retry-After") == "" ||
				!strings.Contains(r.body, wire.CodeQueue)) {
				t.Errorf("Retry-After %q: %s", r.Header.Get("Retry-After"), r.body)
			}
		})
	}
	wg.Wait()
	if count[200] != 3 || count[429] != 5 { // one runs and two wait
		t.Errorf("%v", count)
	}
}

// timed records the deadline for reading a body.
type timed struct {
	httptest.ResponseRecorder
	until time.Time
}

func (w *timed) SetReadDeadline(t time.Time) error {
	w.until = t
	return nil
}

// A refused request has a time limit for its body too, because package http waits for the body before it answers. A
// body that was read has none left.
func TestBodiesHaveATimeLimit(t *testing.T) {
	s := host(t, Config{Keys: keyFile(t, entry("k", "key-k", ""))}, fake.Config{}, 1)
	for _, c := range []struct {
		name, key, body string
		limited         bool
	}{{"refused", "", "{}", true}, {"read", "key-k", `{"text":3}`, false}, {"none", "", "", false}} {
		r := httptest.NewRequest(http.MethodPost, "http://localhost/say", strings.NewReader(c.body))
		r.Header.Set("X-Api-Key", c.key)
		w := &timed{ResponseRecorder: *httptest.NewRecorder()}
		if s.ServeHTTP(w, r); w.until.IsZero() == c.limited {
			t.Errorf("%s: %d, until %v", c.name, w.Code, w.until)
		}
	}
}

func TestFreeRequestsAreNotLimited(t *testing.T) {
	set := keyFile(t, entry("k", "key-key-key-key-k", `,"requests_per_minute":1`))
	s := host(t, Config{Keys: set}, scripted(said("q", "four")))
	header := []string{"Authorization", "Bearer key-key-key-key-k"}
	for i, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		if r := s.do(t, http.MethodPost, "/say", `{"text":"q"}`, header...); r.StatusCode != want {
			t.Errorf("request %d: %d", i, r.StatusCode)
		}
	}
	if r := s.do(t, http.MethodGet, "/props", "", header...); r.StatusCode != http.StatusOK {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	if r := s.do(t, http.MethodGet, "/props?model=b", "", header...); r.StatusCode != http.StatusTooManyRequests {
		t.Errorf("to load a model costs nothing: %d %s", r.StatusCode, r.body)
	}
	r := s.do(t, http.MethodPost, "/tokenize", `{"content":"x"}`, header...)
	if r.StatusCode != http.StatusTooManyRequests {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
}

// TestRunsUnderWayCount checks that the tokens that runs may still use are reserved, that one request alone may exceed
// the limit, and that the excess is paid back.
func TestRunsUnderWayCount(t *testing.T) {
	now := time.Unix(0, 0)
	l := newLimits(func() time.Time { return now })
	k := &keys.Key{Principal: wire.Principal{ID: "k"}, TokensPerMinute: 100}
	may := func(want bool) {
		t.Helper()
		if got := l.spent("k") == 0; got != want {
			t.Errorf("another run may begin: %v", got)
		}
	}
	begin := func(first bool, c *charge, want bool) {
		t.Helper()
		if got := l.begin("k", first, c) == 0; got != want {
			t.Errorf("it began: %v", got)
		}
	}
	l.admit(k)
	asking, refused, second := &charge{prompt: 10, asked: 500}, &charge{prompt: 1}, &charge{prompt: 10}
	begin(true, asking, true)
	may(false)
	begin(true, refused, false)
	begin(false, second, true) // of the same request as the one that asks
	l.end("k", asking, 30)
	l.end("k", second, 0)
	may(true)
	growing := &charge{prompt: 10}
	begin(true, growing, true)
	growing.generated.Store(59)
	may(true)
	growing.generated.Store(60)
	may(false)
	l.end("k", growing, 570)
	if wait := l.spent("k"); wait < 5*time.Minute || wait > 5*time.Minute+time.Second {
		t.Errorf("it has to wait %s", wait)
	}
	k.TokensPerMinute = 1000
	l.admit(k)
	may(true)
	k.TokensPerMinute = 0
	l.admit(k)
	late := &charge{prompt: 10}
	l.end("k", late, 5000)
	begin(true, late, true)
	k.TokensPerMinute = 100
	l.admit(k)
	may(true)
	if n := len(l.keys["k"].runs); n != 0 {
		t.Errorf("%d runs are still counted", n)
	}
}

// TestTokensCountWhileTheyAreGenerated checks that each token of a run reduces what its key has left, and nothing of
// other keys.
func TestTokensCountWhileTheyAreGenerated(t *testing.T) {
	set := keyFile(t, entry("k", "key-of-k", `,"tokens_per_minute":400`)+","+entry("o", "key-of-o",
		`,"tokens_per_minute":400`))
	now := time.Now()
	s := host(t, Config{Keys: set, Clock: func() time.Time { return now }},
		slowly(time.Millisecond, said("long", strings.Repeat("a b ", 1000)), said("q", "four")))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/say",
		strings.NewReader(`{"text":"long"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", "key-of-k")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	deadline := time.Now().Add(20 * time.Second)
	for s.limits.spent("k") == 0 {
		if time.Now().After(deadline) {
			t.Fatal("what it generates does not count")
		}
		time.Sleep(time.Millisecond)
	}
	r := s.do(t, http.MethodPost, "/say", `{"text":"q"}`, "X-Api-Key", "key-of-k")
	if r.StatusCode != http.StatusTooManyRequests || r.Header.Get("Retry-After") == "" {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	if r := s.do(t, http.MethodPost, "/say", `{"text":"q"}`, "X-Api-Key", "key-of-o"); r.StatusCode != http.StatusOK {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
}

// TestPausedRunsHaveTheirTime checks that the time in which a run is paused does not count for its time limit, that its
// stream stays open meanwhile, and that it goes on afterwards.
func TestPausedRunsHaveTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{cut: context.Background(), cfg: Config{RequestTimeout: time.Minute}}
		ctx, limit, cancel := s.limited(t.Context(), time.Now())
		defer cancel()
		time.Sleep(20 * time.Second)
		for range 3 {
			limit.pause(true)
			time.Sleep(time.Hour)
			limit.pause(false)
			time.Sleep(10 * time.Second)
		}
		if synctest.Wait(); ctx.Err() != nil {
			t.Error("the time in which the run was paused counts")
		}
		if time.Sleep(11 * time.Second); !errors.Is(context.Cause(ctx), wire.ErrTimeout) {
			t.Errorf("after its time: %v", context.Cause(ctx))
		}
		limit.end()
		limit.pause(true)
		limit.pause(false) // starts nothing again
	})
}

// TestPausedStreamsStayOpen checks that of two keys whose runs need more time than the limit together, and not alone,
// none is cut, that both have their whole answers, and that their streams have comments while they are silent.
func TestPausedStreamsStayOpen(t *testing.T) {
	const step = 20 * time.Second
	synctest.Test(t, func(t *testing.T) {
		words := strings.Repeat("a b ", 20)
		model := slowly(step, said("q", words))
		model.Sequences = 1
		file := keyFile(t, entry("one", "key-one", "")+","+entry("other", "key-other", ""))
		s := unheard(t, Config{Keys: file, RequestTimeout: 50 * step}, model)
		var wg sync.WaitGroup
		began := time.Now()
		for _, key := range []string{"key-one", "key-other"} {
			wg.Go(func() {
				w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/say", strings.NewReader(`{"text":"q"}`))
				r.Host = "localhost"
				r.Header.Set("Authorization", "Bearer "+key)
				s.ServeHTTP(w, r)
				body := strings.ReplaceAll(w.Body.String(), ": still here\n\n", "")
				if text := frameEnds.ReplaceAllString(body, ""); w.Code != http.StatusOK || !strings.Contains(text, words) {
					t.Errorf("%s: %d %q", key, w.Code, text)
				}
				if body == w.Body.String() {
					t.Errorf("%s: no comments while it is silent", key)
				}
			})
		}
		wg.Wait()
		if took := time.Since(began); took < 60*step {
			t.Errorf("both took %v, too little for this test", took)
		}
		if n := s.cfg.Pool.Loaded("a").(*runner.Runner).Stats().Pauses; n < 10 {
			t.Errorf("%d pauses", n)
		}
		if err := s.cfg.Pool.Close(); err != nil {
			t.Error(err)
		}
	})
}
