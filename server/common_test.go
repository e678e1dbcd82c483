package server

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"runner/generation"
)

func TestTokens(t *testing.T) {
	s := host(t, Config{}, scripted(said("q", "four")))
	var tokens struct{ Tokens []generation.Token }
	r := s.do(t, http.MethodPost, "/tokenize", `{"content":"hi <|end|>"}`)
	if err := json.Unmarshal([]byte(r.body), &tokens); err != nil || len(tokens.Tokens) == 0 {
		t.Fatalf("%s: %v", r.body, err)
	}
	list, _ := json.Marshal(tokens.Tokens)
	back := s.do(t, http.MethodPost, "/detokenize", `{"tokens":`+string(list)+`}`)
	if back.body != `{"content":"hi <|end|>","prompt":"hi <|end|>"}` {
		t.Errorf("%s", back.body)
	}
	if r := s.do(t, http.MethodPost, "/detokenize", `{"tokens":[-1]}`); r.StatusCode != http.StatusBadRequest {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	if r := s.do(t, http.MethodPost, "/tokenize",
		`{"content":"ä\u0001","with_pieces":true}`); !strings.Contains(r.body, `"piece":[195`) {
		t.Errorf("%s", r.body)
	}
	// The same with the names that vLLM's clients use.
	same := s.do(t, http.MethodPost, "/tokenize", `{"prompt":"hi <|end|>","add_special_tokens":false}`)
	if same.body != r.body {
		t.Errorf("%s, and by content %s", same.body, r.body)
	}
	if r := s.do(t, http.MethodPost, "/tokenize", `{"prompt":"a","content":"b"}`); r.StatusCode != http.StatusBadRequest {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	if r := s.do(t, http.MethodGet, "/tokenizer_info", ""); !strings.Contains(r.body, `"eos_token":"<|return|>"`) ||
		!strings.Contains(r.body, `"bos_token":"<|startoftext|>"`) {
		t.Errorf("%s", r.body)
	}
	for _, name := range []string{"b", "B", "B:latest"} {
		if r := s.do(t, http.MethodGet, "/props?model="+name, ""); !strings.Contains(r.body, `"model":"b"`) {
			t.Errorf("%s: %s", name, r.body)
		}
	}
}

// FuzzTokens checks that any request to the tokenizer's routes is answered, or refused with a 4xx status.
func FuzzTokens(f *testing.F) {
	s := host(f, Config{}, scripted(said("q", "four")))
	f.Add("/tokenize", []byte(`{"content":"hi <|end|> ä","with_pieces":true,"add_special":true,"parse_special":false}`))
	f.Add("/detokenize", []byte(`{"model":"b","tokens":[49,50,-1,2147483647,200000]}`))
	f.Add("/tokenize", []byte(`{"content":null,"with_pieces":1}`))
	f.Fuzz(func(t *testing.T, path string, body []byte) {
		if path != "/tokenize" && path != "/detokenize" {
			return
		}
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost"+path, bytes.NewReader(body))
		s.ServeHTTP(w, r)
		if w.Code >= http.StatusInternalServerError || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s %q: %d %s", path, body, w.Code, w.Body)
		}
	})
}
