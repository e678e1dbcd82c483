package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"runner/backend/fake"
	"runner/server/wire"
)

func TestRatesAreLimited(t *testing.T) {
	now := time.Unix(0, 0)
	var mu sync.Mutex
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	pass := func(d time.Duration) { mu.Lock(); defer mu.Unlock(); now = now.Add(d) }
	set := keyFile(t, entry("requests", "key-requests", `,"requests_per_minute":2`)+","+entry("tokens", "key-tokens", `,"tokens_per_minute":60`))
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
	s := host(t, Config{RequestTimeout: 30 * time.Millisecond}, slowly(2*time.Millisecond, said("q", strings.Repeat("a b ", 200))))
	if r := s.do(t, http.MethodPost, "/say", `{"text":"q"}`); !strings.Contains(r.body, wire.CodeTimeout) || !strings.HasSuffix(r.body, "\n\n") {
		t.Errorf("%d %q", r.StatusCode, r.body)
	}
}

func TestAFullQueueIsToldSo(t *testing.T) {
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
			if r.StatusCode == http.StatusTooManyRequests && (r.Header.Get("Retry-After") == "" || !strings.Contains(r.body, wire.CodeQueue)) {
				t.Errorf("Retry-After %q: %s", r.Header.Get("Retry-After"), r.body)
			}
		})
	}
	wg.Wait()
	if count[200] != 3 || count[429] != 5 { // one runs and two wait
		t.Errorf("%v", count)
	}
}

// timed notes until when a body can be read.
type timed struct {
	httptest.ResponseRecorder
	until time.Time
}

func (w *timed) SetReadDeadline(t time.Time) error {
	w.until = t
	return nil
}

// A body has its time also where the request is refused, since package http waits for it before it answers. Who has been read has no more.
func TestABodyHasItsTime(t *testing.T) {
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

func TestWhatCostsNothingIsNotLimited(t *testing.T) {
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
	if r := s.do(t, http.MethodPost, "/tokenize", `{"content":"x"}`, header...); r.StatusCode != http.StatusTooManyRequests {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
}
