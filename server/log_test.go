package server

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"runner/backend"
	"runner/backend/fake"
	"runner/server/wire"
)

func TestRequestIsLoggedWithoutItsContent(t *testing.T) {
	s := host(t, Config{}, scripted(said("my secret question", "four")))
	r := s.do(t, http.MethodPost, "/say", `{"text":"my secret question"}`, "Authorization", "Bearer top-secret-key")
	if r.StatusCode != http.StatusOK || !strings.Contains(r.body, "four") || r.Header.Get("X-Request-Id") == "" {
		t.Fatalf("%d %s", r.StatusCode, r.body)
	}
	metrics := s.do(t, http.MethodGet, "/metrics", "").body
	for _, want := range []string{`runner_runs_total{finish="stop",model="a"} 1`,
		`runner_tokens_total{kind="reasoning",model="a"}`,
		`runner_requests_total{route="POST /say",status="200"} 1`, "runner_time_to_first_token_seconds_count",
		`runner_model_loaded{model="a"} 1`, "runner_steps_total"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
	log := s.log.String()
	if !strings.Contains(log, `route="POST /say"`) || !strings.Contains(log, "completion_tokens=") {
		t.Errorf("log: %s", log)
	}
	for _, secret := range []string{"secret question", "four", canary, "top-secret-key"} {
		if strings.Contains(log, secret) || strings.Contains(metrics, secret) {
			t.Errorf("%q shows in the log or the metrics", secret)
		}
	}
}

func TestContentIsLoggedOnlyIfEnabled(t *testing.T) {
	s := host(t, Config{LogContent: true}, scripted(said("question", "four")))
	s.do(t, http.MethodPost, "/say", `{"text":"question"}`)
	if log := s.log.String(); !strings.Contains(log, "question") || !strings.Contains(log, "four") {
		t.Errorf("log: %s", log)
	}
}

func TestPanicIsAnErrorAndItsValueIsNotLogged(t *testing.T) {
	s := host(t, Config{}, fake.Config{})
	r := s.do(t, http.MethodGet, "/panic", "")
	if r.StatusCode != http.StatusInternalServerError || !strings.Contains(r.body, "echo_error") {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	if log := s.log.String(); strings.Contains(log, canary) || !strings.Contains(log, "support_test.go") {
		t.Errorf("log: %s", log)
	}
}

// A client that is sent to the log finds the error there.
func TestFailuresAreInTheLog(t *testing.T) {
	s := host(t, Config{}, fake.Config{Fail: func(int, []backend.Input) error { return errors.New("the engine gave up") }})
	if r := s.do(t, http.MethodPost, "/say", `{"text":"`+canary+`"}`); !strings.Contains(r.body, wire.CodeInternal) {
		t.Errorf("%s", r.body)
	}
	if log := s.log.String(); !strings.Contains(log, "a run failed") || !strings.Contains(log, "the engine gave up") ||
		strings.Contains(log, canary) || !strings.Contains(log, " code="+wire.CodeInternal) {
		t.Errorf("%s", log)
	}
}

// A truncated answer does not look complete: its client sees the connection end, and the log and the metrics count it.
func TestBrokenAnswerDoesNotLookComplete(t *testing.T) {
	s := host(t, Config{}, scripted(said("q", "four")))
	res, err := http.Get(s.url + "/break")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got, err := io.ReadAll(res.Body); string(got) != "data: 1\n\n" || err == nil {
		t.Errorf("%q, %v", got, err)
	}
	if log := s.log.String(); strings.Contains(log, canary) || !strings.Contains(log, `a handler panicked`) ||
		!strings.Contains(log, `route="GET /break"`) {
		t.Errorf("%s", log)
	}
	m := s.do(t, http.MethodGet, "/metrics", "").body
	if !strings.Contains(m, `runner_requests_total{route="GET /break",status="200"} 1`) ||
		!strings.Contains(m, "runner_requests_in_flight 1") {
		t.Error("the request is not counted")
	}
}

// The log names the path of a request that no route takes, without its query, which may hold a key.
func TestUnknownPathIsLogged(t *testing.T) {
	s := host(t, Config{}, fake.Config{})
	long := "/v1/" + strings.Repeat("ü", 300)
	s.do(t, http.MethodGet, "/v1/modles?key=top-secret-key", "")
	s.do(t, http.MethodDelete, "/say", "")
	s.do(t, http.MethodGet, long, "")
	log := s.log.String()
	for _, want := range []string{"route=unknown status=404", "method=GET path=/v1/modles", "method=DELETE path=/say"} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q in the log: %s", want, log)
		}
	}
	if strings.Contains(log, "top-secret-key") || strings.Contains(log, long) {
		t.Errorf("log: %s", log)
	}
}
