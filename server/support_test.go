package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"runner/backend/fake"
	"runner/chattemplate"
	"runner/generation"
	"runner/reasoning"
	"runner/runner"
	"runner/runner/delegate"
	"runner/server/keys"
	"runner/server/pool"
	"runner/server/wire"
	"runner/testenv"
)

const canary = "XYZZY-secret"

// echo is a format with one route that generates and streams the answer.
type echo struct{ models wire.Models }

func (e *echo) Routes() []wire.Route {
	return []wire.Route{
		{Method: http.MethodPost, Path: "/say", Scope: wire.ScopeGenerate, Handle: e.say},
		{Method: http.MethodGet, Path: "/panic", Handle: func(http.ResponseWriter, *http.Request) error { panic(canary) }},
		{Method: http.MethodGet, Path: "/break", Handle: func(w http.ResponseWriter, _ *http.Request) error {
			s := wire.NewEvents(w)
			defer s.End()
			_ = s.Send("", 1)
			panic(canary)
		}},
	}
}

func (e *echo) WriteError(w http.ResponseWriter, err error) {
	own := wire.FromError(err, nil)
	wire.WriteError(w, own, map[string]string{"echo_error": own.Code, "message": own.Message})
}

func (e *echo) say(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Text, Model string
		Visibility  reasoning.Visibility
		Pad         int
	}
	if err := wire.ReadJSON(r, &in); err != nil {
		return err
	}
	m, err := e.models.Use(r.Context(), in.Model)
	if err != nil {
		return err
	}
	defer m.Release()
	req := generation.Request{Messages: []chattemplate.Message{{Role: chattemplate.User, Content: in.Text}},
		Visibility: in.Visibility}
	var s *wire.Stream
	for ev, err := range m.Generate(r.Context(), req, generation.Unobserved{}) {
		if err != nil {
			if s == nil {
				return err
			}
			_ = s.Send("error", wire.FromError(err, nil).Code)
			break
		}
		if s == nil {
			s = wire.NewEvents(w)
			defer s.End()
		}
		if ev.Kind == reasoning.SegmentDelta {
			if s.Send("", strings.Repeat(ev.Text, 1+in.Pad)) != nil {
				break
			}
		}
	}
	return nil
}

type site struct {
	*Server
	url string
	log *testenv.Buffer
	// fakes are the models that were opened.
	fakes chan *fake.Model
}

// frameEnds are the bytes between the texts of two frames.
var frameEnds = regexp.MustCompile(`"\n\ndata: "`)

// host serves fake models called a and b until the test ends. queue is the number of requests that may wait, 100 by
// default.
func host(t testing.TB, cfg Config, model fake.Config, queue ...int) *site {
	t.Helper()
	s := unheard(t, cfg, model, queue...)
	s.url = testenv.Listen(t, s)
	return s
}

// unheard is host without a listener.
func unheard(t testing.TB, cfg Config, model fake.Config, queue ...int) *site {
	t.Helper()
	rc := runner.Config{Queue: 100, Loops: []generation.Loop{delegate.Loop{}}}
	if len(queue) > 0 {
		rc.Queue = queue[0]
	}
	s := &site{log: &testenv.Buffer{}, fakes: make(chan *fake.Model, 16)}
	cfg.Pool = pool.New(pool.Config{
		Models: []pool.Entry{{Name: "a"}, {Name: "b"}},
		Open: func(_ context.Context, name string) (wire.Loaded, error) {
			c := model
			c.Name = name
			m := fake.New(c)
			s.fakes <- m
			return runner.New(m, rc)
		},
	})
	cfg.Cards = []wire.Card{{Name: "a"}, {Name: "b"}}
	cfg.Logger = slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s.Server = New(cfg)
	s.Mount(&echo{s.Server})
	t.Cleanup(func() { // after the end of the server
		close(s.fakes)
		for m := range s.fakes {
			if n := m.OpenSequences(); n != 0 {
				t.Errorf("%d sequences leaked", n)
			}
		}
	})
	return s
}

type reply struct {
	*http.Response
	body string
}

func (s *site) do(t *testing.T, method, path, body string, header ...string) reply {
	t.Helper()
	req, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	content, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{res, frameEnds.ReplaceAllString(string(content), "")}
}

func scripted(replies ...fake.Reply) fake.Config {
	v := fake.Harmony()
	return fake.Config{Vocab: v, Script: fake.Replies(v, replies...)}
}

func said(text, answer string) fake.Reply {
	return fake.Reply{After: text + "<|end|><|start|>assistant",
		Say: "<|channel|>analysis<|message|>" + canary + "<|end|><|start|>assistant<|channel|>final<|message|>" + answer +
			"<|return|>"}
}

func keyFile(t *testing.T, entries string) *keys.Set {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(path, []byte(`{"keys":[`+entries+`]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := keys.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func entry(id, key, more string) string {
	sum := sha256.Sum256([]byte(key))
	return fmt.Sprintf(`{"id":%q,"sha256":%q%s}`, id, hex.EncodeToString(sum[:]), more)
}

// slowly makes each step of a model take a while.
func slowly(d time.Duration, replies ...fake.Reply) fake.Config {
	c := scripted(replies...)
	c.Delay = func(int) time.Duration { return d }
	return c
}
