package openapi_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"runner/server/ollama"
	"runner/server/wire"
	"runner/server/wiretest"
)

// shelf is an [ollama.Library] with one model, which is not served. Names that begin with "failing" cannot be pulled.
type shelf struct{ names map[string]string }

const shelved = "org/model-GGUF:Q4_K_M"

func (s *shelf) List() []wire.Card {
	return []wire.Card{{Name: shelved, Size: 1, Modified: wiretest.Today, Digest: strings.Repeat("0a", 32)}}
}

func (s *shelf) Find(name string) (wire.Card, error) {
	if name != shelved {
		return wire.Card{}, wire.Errorf(wire.CodeModel, "no such model")
	}
	return s.List()[0], nil
}

func (s *shelf) Has(name string) bool { return name == shelved }

func (s *shelf) Pull(_ context.Context, name string, report func(ollama.Pulled) error) (string, error) {
	for _, step := range []ollama.Pulled{{Status: "pulling manifest"},
		{Status: "pulling 0a", Digest: "sha256:" + strings.Repeat("0a", 32), Done: 1, Total: 2}} {
		if err := report(step); err != nil {
			return "", err
		}
	}
	if strings.HasPrefix(name, "failing") {
		return "", &wire.Error{Status: http.StatusServiceUnavailable, Code: wire.CodeHub, Message: "it fails", Final: true}
	}
	return shelved, nil
}

func (s *shelf) Remove(name string) error {
	if _, ok := s.names[name]; !ok {
		_, err := s.Find(name)
		return err
	}
	delete(s.names, name)
	return nil
}

func (s *shelf) Name(name, model string) error {
	s.names[name] = model
	return nil
}

func (s *shelf) Names() (map[string]string, error) { return s.names, nil }

func (s *shelf) Named(name string) (model string, ok bool) {
	model, ok = s.names[name]
	return model, ok
}

func (s *shelf) Close() {}

// changing sends every request about models on the disk.
func (s *site) changing(t *testing.T) {
	t.Helper()
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", "/api/pull", `{"model":"org/other"}`, 200},
		{"POST", "/api/pull", `{"model":"org/other","stream":false}`, 200},
		{"POST", "/api/pull", `{"model":"failing/model"}`, 200},
		{"POST", "/api/pull", `{"model":"failing/model","stream":false}`, 503},
		{"POST", "/api/show", `{"model":"` + shelved + `"}`, 200},
		{"POST", "/api/copy", `{"source":"` + shelved + `","destination":"other"}`, 200},
		{"POST", "/api/copy", `{"source":"nothing","destination":"other"}`, 404},
		{"POST", "/api/copy", `{"source":"demo","destination":"idle"}`, 409},
		{"GET", "/api/tags", "", 200},
		{"DELETE", "/api/delete", `{"model":"other"}`, 200},
		{"DELETE", "/api/delete", `{"model":"other"}`, 404},
		{"DELETE", "/api/delete", `{"model":"demo"}`, 409},
	} {
		a := s.ask(t, c.method, c.path, c.body)
		if s.check(t, a); a.status != c.status {
			t.Errorf("%s %s %s: %d, want %d: %s", c.method, c.path, c.body, a.status, c.status, a.body)
		}
	}
}
