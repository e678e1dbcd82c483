package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"runner/runner"
)

func TestTokensAndTemplates(t *testing.T) {
	s := host(t, Config{}, scripted(said("q", "four")))
	var tokens struct{ Tokens []runner.Token }
	r := s.do(t, http.MethodPost, "/tokenize", `{"content":"hi <|end|>"}`)
	if err := json.Unmarshal([]byte(r.body), &tokens); err != nil || len(tokens.Tokens) == 0 {
		t.Fatalf("%s: %v", r.body, err)
	}
	list, _ := json.Marshal(tokens.Tokens)
	if r := s.do(t, http.MethodPost, "/detokenize", `{"tokens":`+string(list)+`}`); r.body != `{"content":"hi \u003c|end|\u003e"}` {
		t.Errorf("%s", r.body)
	}
	if r := s.do(t, http.MethodPost, "/detokenize", `{"tokens":[-1]}`); r.StatusCode != http.StatusBadRequest {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	if r := s.do(t, http.MethodPost, "/tokenize", `{"content":"ä\u0001","with_pieces":true}`); !strings.Contains(r.body, `"piece":[195`) {
		t.Errorf("%s", r.body)
	}
	if r := s.do(t, http.MethodPost, "/apply-template", `{"messages":[{"role":"user","content":"q"}]}`); !strings.Contains(r.body, "start|\\u003eassistant") {
		t.Errorf("%s", r.body)
	}
	if r := s.do(t, http.MethodPost, "/apply-template", `{"messages":[]}`); r.StatusCode != http.StatusBadRequest {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	if r := s.do(t, http.MethodGet, "/props?model=b", ""); !strings.Contains(r.body, `"model":"b"`) {
		t.Errorf("%s", r.body)
	}
}
