package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"runner/backend/fake"
	"runner/generation/slots"
	"runner/server/keys"
	"runner/server/wire"
)

// TestLongBodiesTakeASlot checks that a long body waits for a slot of its principal, however its length is announced. A
// short one does not, and neither does one of another principal.
func TestLongBodiesTakeASlot(t *testing.T) {
	shared := slots.New(2)
	s := host(t, Config{Slots: shared, Keys: keyFile(t, entry("a", "key-of-a", "")+","+entry("b", "key-of-b", ""))},
		fake.Config{})
	held, err := shared.Take(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	long := `{"pad":"` + strings.Repeat("x", 2*shortBody) + `"}`
	post := func(key, body string, known bool, limit time.Duration) (answered bool) {
		ctx, stop := context.WithTimeout(t.Context(), limit)
		defer stop()
		var from io.Reader = strings.NewReader(body)
		if !known {
			from = io.MultiReader(from)
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/tokenize", from)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Api-Key", key)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			return false
		}
		res.Body.Close()
		return true
	}
	for _, known := range []bool{true, false} {
		if post("key-of-a", long, known, 100*time.Millisecond) {
			t.Errorf("length known: %v: it does not wait", known)
		}
		if !post("key-of-b", long, known, time.Minute) {
			t.Errorf("length known: %v: another key has to wait", known)
		}
	}
	short := httptest.NewRecorder()
	req := httptest.NewRequest(http.MethodPost, "http://localhost/tokenize", strings.NewReader(`{"content":`))
	req.Header.Set("X-Api-Key", "key-of-a")
	s.ServeHTTP(short, req)
	if short.Code != http.StatusBadRequest {
		t.Errorf("a short body: %d", short.Code)
	}
	held.Give()
	if !post("key-of-a", long, true, time.Minute) {
		t.Error("it waits for ever")
	}
}

// counted counts what is read of it. Its length is not known to package http.
type counted struct {
	io.Reader
	n int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += n
	return n, err
}

// TestRefusedAtTheBeginning checks that what the beginning of a body shows to be over a limit is refused after a piece.
func TestRefusedAtTheBeginning(t *testing.T) {
	const length = 8 << 20
	for name, c := range map[string]struct{ begin, more, field string }{
		"entries":      {`{"stop":[`, `"a",`, "stop"},
		"values":       {`{"pad":[`, `1,`, "--max-values"},
		"nesting":      {`{"pad":`, `[`, "--max-nesting"},
		"many objects": {`{"pad":[`, `{"a":[{}]},`, "--max-values"},
	} {
		body := &counted{Reader: strings.NewReader(c.begin + strings.Repeat(c.more, length/len(c.more)))}
		r := httptest.NewRequest(http.MethodPost, "/", struct{ io.Reader }{body})
		var v struct {
			Stop []string `json:"stop" api:"[..16]string"`
		}
		err := wire.ReadJSON(r, &v)
		if err == nil || !strings.Contains(err.Error(), c.field) || body.n > length/2 {
			t.Errorf("%s: %d bytes are read: %v", name, body.n, err)
		}
	}
}

// TestReadingIsPaced checks that a principal whose bodies are read, even those that are dropped, gives way to the runs
// of others, and that the client gets the time that it waited.
func TestReadingIsPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for run, slow := range map[bool]bool{false: false, true: true} {
			shared := slots.New(2)
			if run {
				defer shared.Run("other")()
			}
			b := &body{
				ReadCloser: io.NopCloser(io.LimitReader(zeros{}, 512<<20)), bodies: newBodies(1<<30, 1<<40),
				control: http.NewResponseController(httptest.NewRecorder()), ctx: t.Context(), limit: 1 << 30, most: 1 << 30,
				work: &work{slots: shared, principal: "a"}, due: time.Now().Add(bodyTimeout), length: -1,
			}
			began, due := time.Now(), b.due
			b.drop()
			took := time.Since(began)
			if (took > 100*time.Millisecond) != slow || b.due.Sub(due) != took {
				t.Errorf("with a run of another: %v: 512 MiB took %v, and the client got %v more", run, took, b.due.Sub(due))
			}
		}
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// TestSpentKeysSendNoLongBodies checks that a key without tokens is refused before its long body is read.
func TestSpentKeysSendNoLongBodies(t *testing.T) {
	s := host(t, Config{Keys: keyFile(t, entry("k", "key-of-k", `,"tokens_per_minute":10`))}, fake.Config{})
	s.limits.admit(&keys.Key{Principal: wire.Principal{ID: "k"}, TokensPerMinute: 10})
	s.limits.end("k", new(charge), 1000)
	for path, read := range map[string]bool{"/say": false, "/tokenize": true} {
		body := &counted{Reader: strings.NewReader(`{"content":"` + strings.Repeat("x", 2*shortBody) + `"}`)}
		r := httptest.NewRequest(http.MethodPost, "http://localhost"+path, struct{ io.Reader }{body})
		r.Header.Set("X-Api-Key", "key-of-k")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if (body.n > 0) != read || (w.Code == http.StatusTooManyRequests) == read {
			t.Errorf("%s: %d after %s bytes: %s", path, w.Code, fmt.Sprint(body.n), w.Body)
		}
	}
}
