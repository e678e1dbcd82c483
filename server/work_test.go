package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"runner/backend/fake"
	"runner/chattemplate"
	"runner/generation"
	"runner/generation/slots"
	"runner/reasoning"
	"runner/runner"
	"runner/server/keys"
	"runner/server/openai"
	"runner/server/pool"
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
		t.Error("it never ends")
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
	const length = 512 << 20
	for name, c := range map[string]struct {
		// limit is its maximum length, and length what the client says. It sends so much, of which so much is read.
		limit, length, sends, read int64
		how                        func(b *body, r *http.Request) error
	}{
		"dropped": {2 * length, -1, length, length, func(b *body, _ *http.Request) error {
			b.drop()
			return nil
		}},
		"longer than allowed": {1 << 20, length, length, length, func(b *body, r *http.Request) error {
			return b.checkLength(r)
		}},
		"longer than allowed without saying so": {1 << 20, -1, length, length, func(b *body, _ *http.Request) error {
			_, err := io.Copy(io.Discard, b)
			b.drop()
			return err
		}},
		"endless": {1 << 20, -1, 1 << 40, 2*length + 1<<20, func(b *body, _ *http.Request) error {
			_, err := io.Copy(io.Discard, b)
			b.drop()
			return err
		}},
	} {
		for run, slow := range map[bool]bool{false: false, true: true} {
			t.Run(fmt.Sprint(name, ", with a run of another: ", run), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					shared := slots.New(2)
					if run {
						defer shared.Run("other")()
					}
					from := &counted{Reader: zeros{}}
					r := httptest.NewRequest(http.MethodPost, "/", io.LimitReader(from, c.sends))
					r.ContentLength = c.length
					said := &note{work: work{slots: shared, principal: "a"}}
					r = r.WithContext(context.WithValue(t.Context(), noteKey{}, said))
					s := &Server{cfg: Config{MaxBody: 2 * length}, bodies: newBodies(1<<30, 1<<40)}
					b := s.newBody(httptest.NewRecorder(), r, &wire.Route{MaxBody: c.limit, MaxBodyFlag: "--flag"}, "a")
					began, due := time.Now(), b.due
					err := c.how(b, r)
					took := time.Since(began)
					if (took > 100*time.Millisecond) != slow || b.due.Sub(due) != took {
						t.Errorf("it took %v, and the client got %v more", took, b.due.Sub(due))
					}
					if over := int64(from.n) - c.read; over < 0 || over > 64<<10 {
						t.Errorf("%d bytes were read, want %d", from.n, c.read)
					}
					if e := wire.FromError(err, nil); name != "dropped" && (err == nil || e.Code != wire.CodeTooLarge ||
						!strings.Contains(e.Message, "--flag")) {
						t.Errorf("it is refused with %v", err)
					}
				})
			})
		}
	}
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

// watched is a model that says what is asked of it.
type watched struct {
	wire.Loaded
	at func(what string)
}

func (m *watched) Info() generation.ModelInfo {
	m.at("info")
	return m.Loaded.Info()
}

func (m *watched) Piece(t generation.Token) string {
	m.at("piece")
	return m.Loaded.Piece(t)
}

func (m *watched) Detokenize(tokens []generation.Token) (string, error) {
	m.at("detokenize")
	return m.Loaded.Detokenize(tokens)
}

func (m *watched) WithBOS(tokens []generation.Token) []generation.Token {
	m.at("begin")
	return m.Loaded.WithBOS(tokens)
}

func (m *watched) Tokenize(ctx context.Context, who, text string, special bool) ([]generation.Token, error) {
	m.at("tokenize")
	return m.Loaded.Tokenize(ctx, who, text, special)
}

func (m *watched) Prompt(ctx context.Context, who string, req generation.Request) (chattemplate.Prompt, error) {
	m.at("prompt")
	return m.Loaded.Prompt(ctx, who, req)
}

func (m *watched) Embed(ctx context.Context, who string, tokens []generation.Token) ([]float32, error) {
	m.at("embed")
	return m.Loaded.Embed(ctx, who, tokens)
}

func (m *watched) Generate(ctx context.Context, req generation.Request,
	o generation.Observer) iter.Seq2[reasoning.Event, error] {
	m.at("generate")
	return m.Loaded.Generate(ctx, req, o)
}

// watchedWriter says when something is written.
type watchedWriter struct {
	*httptest.ResponseRecorder
	at func(what string)
}

func (w *watchedWriter) Write(p []byte) (int, error) {
	w.at("write")
	return w.ResponseRecorder.Write(p)
}

// TestWorkBesideTheModelTakesASlot checks that a long request has a slot while it computes between getting its model
// and its answer, and has none while its model works or the client reads.
func TestWorkBesideTheModelTakesASlot(t *testing.T) {
	shared := slots.New(2)
	s := unheard(t, Config{Slots: shared, Keys: keyFile(t, entry("a", "key-of-a", `,"scopes":["generate","embed",`+
		`"models"],"reasoning":"full"`))}, fake.Config{})
	ended, end := context.WithCancel(t.Context())
	end()
	var seen []string
	at := func(what string) {
		slot, err := shared.Take(ended, "a") // a slot that is free is granted
		if err == nil {
			slot.Give()
			what += " without a slot"
		}
		if n := len(seen); n == 0 || seen[n-1] != what {
			seen = append(seen, what)
		}
	}
	s.cfg.Pool = pool.New(pool.Config{
		Models: []pool.Entry{{Name: "a"}},
		Open: func(_ context.Context, name string) (wire.Loaded, error) {
			r, err := runner.New(fake.New(fake.Config{Name: name, Vocab: fake.Harmony()}), runner.Config{Slots: shared})
			return &watched{r, at}, err
		},
	})
	t.Cleanup(func() { _ = s.cfg.Pool.Close() })
	s.cards = []wire.Card{{Name: "a"}}
	s.Mount(openai.New(s.Server, openai.Config{}))
	pad := `"pad":"` + strings.Repeat("x", 2*shortBody) + `"`
	for _, c := range []struct{ path, body, want string }{
		{"/tokenize", `{"with_pieces":true,"content":"` + strings.Repeat("a b ", shortBody) + `"}`,
			"tokenize without a slot, piece, write without a slot, piece, write without a slot"},
		{"/detokenize", `{"tokens":[` + strings.Repeat("1,", shortBody) + `1]}`, "piece, detokenize, write without a slot"},
		{"/v1/embeddings", `{"input":["a","b"],` + pad + `}`, "info, tokenize without a slot, begin, embed without a slot, " +
			"tokenize without a slot, begin, embed without a slot, write without a slot"},
		{"/v1/completions", `{"prompt":[1,2],"echo":true,"max_tokens":1,` + pad + `}`,
			"detokenize, generate without a slot"},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"max_tokens":1,` + pad + `}`,
			"generate without a slot"},
		{"/apply-template", `{"messages":[{"role":"user","content":"a"}],` + pad + `}`,
			"prompt without a slot, write without a slot"},
	} {
		seen = nil
		r := httptest.NewRequest(http.MethodPost, "http://localhost"+c.path, strings.NewReader(c.body))
		r.Header.Set("X-Api-Key", "key-of-a")
		w := &watchedWriter{httptest.NewRecorder(), at}
		s.ServeHTTP(w, r)
		if got := strings.Join(seen, ", "); w.Code != http.StatusOK || !strings.Contains(got, c.want) {
			t.Errorf("%s: %d %.200s\n%s\nwant %s", c.path, w.Code, w.Body, got, c.want)
		}
		at("")
		if last := seen[len(seen)-1]; last != " without a slot" {
			t.Errorf("%s: it keeps a slot", c.path)
		}
	}
}

// TestNoSlotIsTakenAfterTheAnswer checks that what a request leaves in the background takes no slot.
func TestNoSlotIsTakenAfterTheAnswer(t *testing.T) {
	said := &note{work: work{slots: slots.New(2), principal: "a"}}
	for range 2 {
		if err := said.work.begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		said.leave()
		if err := said.work.resume(t.Context()); err != nil || said.work.slot != nil {
			t.Errorf("it takes a slot, or fails with %v", err)
		}
	}
}
