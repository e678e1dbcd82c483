package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"runner/backend/fake"
	"runner/server/wire"
)

// holding is a format that reads bodies and answers on command.
type holding struct {
	echo
	// read gets a value for each body that was read. Each value in answer lets one request be answered.
	read, answer chan struct{}
}

func (h *holding) Routes() []wire.Route {
	return []wire.Route{{Method: http.MethodPost, Path: "/hold", Scope: wire.ScopeGenerate,
		Handle: func(w http.ResponseWriter, r *http.Request) error {
			var body struct{}
			if err := wire.ReadJSON(r, &body); err != nil {
				return err
			}
			wire.Rest(r)
			h.read <- struct{}{}
			<-h.answer
			w.WriteHeader(http.StatusNoContent)
			return nil
		}}}
}

// TestBodiesTogetherAreBounded checks that long bodies are refused when there are too many at once, however their
// length is announced, and that an answered request makes room. One key cannot keep out another key's single body.
func TestBodiesTogetherAreBounded(t *testing.T) {
	const longest = 1 << 20
	set := keyFile(t, entry("a", "key-of-a", "")+","+entry("b", "key-of-b", ""))
	s := host(t, Config{Keys: set, MaxBody: longest}, fake.Config{})
	h := &holding{read: make(chan struct{}), answer: make(chan struct{})}
	s.Mount(h)
	long := `{"pad":"` + strings.Repeat("x", longest-10) + `"}`
	var wg sync.WaitGroup
	post := func(key string, known bool) (status int, retry string) {
		var body io.Reader = strings.NewReader(long)
		if !known {
			body = io.MultiReader(body)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/hold", body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Api-Key", key)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		defer res.Body.Close()
		_, _ = io.Copy(io.Discard, res.Body)
		return res.StatusCode, res.Header.Get("Retry-After")
	}
	admitted := func(key string, known bool) {
		wg.Go(func() {
			if status, _ := post(key, known); status != http.StatusNoContent {
				t.Errorf("%s is answered with %d", key, status)
			}
		})
		<-h.read
	}
	refused := func(key string, known bool) {
		if status, retry := post(key, known); status != http.StatusServiceUnavailable || retry == "" {
			t.Errorf("%s is answered with %d, Retry-After %q", key, status, retry)
		}
	}
	for i := range 4 {
		admitted("key-of-a", i%2 == 0)
	}
	refused("key-of-a", true)
	refused("key-of-a", false)
	admitted("key-of-b", true)
	refused("key-of-b", false)
	for range 5 {
		h.answer <- struct{}{}
	}
	wg.Wait()
	if s.bodies.total != 0 || len(s.bodies.of) != 0 {
		t.Errorf("%d bytes are still counted: %v", s.bodies.total, s.bodies.of)
	}
	admitted("key-of-a", false)
	h.answer <- struct{}{}
	wg.Wait()
}

// TestLongBodiesTakeBoundedMemory sends many bodies of the maximum length at once, with prompts that no context can
// hold. All must be answered, within a few times the memory limit for bodies.
func TestLongBodiesTakeBoundedMemory(t *testing.T) {
	const longest, clients = 4 << 20, 40
	s := host(t, Config{MaxBody: longest}, fake.Config{})
	for s.health.get() == healthLoading {
		time.Sleep(time.Millisecond)
	}
	long := `{"text":"` + strings.Repeat("word ", longest/5-10) + `"}`
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	var peak atomic.Uint64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
				runtime.ReadMemStats(&now)
				peak.Store(max(peak.Load(), now.HeapAlloc))
			}
		}
	}()
	var mu sync.Mutex
	count := map[string]int{}
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			r := s.do(t, http.MethodPost, "/say", long)
			mu.Lock()
			defer mu.Unlock()
			count[fmt.Sprint(r.StatusCode, " ", strings.Contains(r.body, wire.CodeContextLength))]++
		})
	}
	wg.Wait()
	close(stop)
	<-stopped
	used := int64(peak.Load()) - int64(before.HeapAlloc)
	t.Logf("%v; %d MiB at most", count, used>>20)
	if count["400 true"] == 0 || count["400 true"]+count["503 false"] != clients {
		t.Errorf("answers: %v", count)
	}
	if most := int64(4 * longest * 10); used > most {
		t.Errorf("%d MiB were in use, %d MiB may be", used>>20, most>>20)
	}
}

// TestTooLongBodiesAreRefusedAtOnce checks a client that asks before it sends the body, and one that sends it at once.
// Both get the answer.
func TestTooLongBodiesAreRefusedAtOnce(t *testing.T) {
	const longest = 1 << 20
	s := host(t, Config{MaxBody: longest}, fake.Config{})
	s.Mount(&limited{})
	for _, c := range []struct {
		path    string
		length  int
		refused string
	}{
		{"/say", longest, ""}, {"/say", longest + 1, "(--max-body)"}, {"/say", 50 * longest, "(--max-body)"},
		{"/limited", 100, ""}, {"/limited", 101, "(--max-limited)"}, {"/limited", 50 * longest, "(--max-limited)"},
	} {
		c1, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c1.Close()
		if err := c1.SetDeadline(time.Now().Add(bodyTimeout / 2)); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c1, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\nExpect: 100-Continue\r\n\r\n",
			c.path, c.length)
		answer, err := http.ReadResponse(bufio.NewReader(c1), nil)
		if err != nil {
			t.Fatal(err)
		}
		content, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		switch {
		case c.refused == "" && answer.StatusCode != http.StatusContinue:
			t.Errorf("%s with %d bytes: %d before they are sent", c.path, c.length, answer.StatusCode)
		case c.refused != "" && (answer.StatusCode != http.StatusRequestEntityTooLarge ||
			!strings.Contains(string(content), c.refused)):
			t.Errorf("%s with %d bytes: %d %s before they are sent", c.path, c.length, answer.StatusCode, content)
		}
		if c.refused == "" || c.length > 2*longest {
			continue
		}
		for _, known := range []bool{true, false} {
			var sent io.Reader = strings.NewReader(strings.Repeat(" ", c.length))
			if !known {
				sent = io.MultiReader(sent)
			}
			res, err := http.Post(s.url+c.path, "application/json", sent)
			if err != nil {
				t.Fatal(err)
			}
			content, _ := io.ReadAll(res.Body)
			res.Body.Close()
			if res.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(string(content), c.refused) {
				t.Errorf("%s with %d bytes, length told: %v: %d %s", c.path, c.length, known, res.StatusCode, content)
			}
		}
	}
}

// limited is a format whose route has a lower limit than the server.
type limited struct{ echo }

func (l *limited) Routes() []wire.Route {
	return []wire.Route{{
		Method: http.MethodPost, Path: "/limited", Scope: wire.ScopeGenerate, MaxBody: 100, MaxBodyFlag: "--max-limited",
		Handle: func(w http.ResponseWriter, r *http.Request) error {
			return wire.ReadJSON(r, &struct{}{})
		},
	}}
}
