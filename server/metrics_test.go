package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"runner/generation"
	"runner/reasoning"
	"runner/server/pool"
)

// Each value of a run, of a request and of a model is reported under its own name.
func TestMetricsHaveTheirNames(t *testing.T) {
	models := newModelFigures(pool.New(pool.Config{}))
	m := newMetrics(models)
	m.answered("GET /x", http.StatusOK, 250*time.Millisecond)
	m.finished("a", &reasoning.Result{Finish: reasoning.FinishLength, Usage: reasoning.Usage{Completion: 11},
		Timing: reasoning.Timing{
			Queue: 2 * time.Second, FirstToken: 3 * time.Second, FirstAnswer: 4 * time.Second, Prefill: 500 * time.Millisecond,
			Decode: 5 * time.Second}})
	m.finished("a", &reasoning.Result{Finish: reasoning.FinishLength}) // no answer, and nothing decoded
	w := httptest.NewRecorder()
	m.handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{
		`runner_request_duration_seconds_sum{route="GET /x"} 0.25`, `runner_runs_total{finish="length",model="a"} 2`,
		`runner_queue_seconds_sum{model="a"} 2`, `runner_time_to_first_token_seconds_sum{model="a"} 3`,
		`runner_time_to_first_token_seconds_count{model="a"} 2`,
		`runner_time_to_first_answer_seconds_sum{model="a"} 4`, `runner_time_to_first_answer_seconds_count{model="a"} 1`,
		`runner_decode_tokens_per_second_sum{model="a"} 2`, `runner_decode_tokens_per_second_count{model="a"} 1`,
		`runner_prefill_seconds_total{model="a"} 0.5`, `runner_decode_seconds_total{model="a"} 5`,
	} {
		if !strings.Contains(w.Body.String(), want+"\n") {
			t.Errorf("no %s in the metrics", want)
		}
	}

	wanted := map[string]float64{"model_loaded": 1, "runs_waiting": 2, "runs_active": 3, "sequences_idle": 4,
		"runs_paused": 20, "pauses_total": 21, "steps_total": 5, "step_tokens_total": 6,
		"mask_seconds_total": 7, "form_violations_total": 8, "engine_crashes_total": 9, "engine_hangs_total": 10,
		"engine_failed_total": 11, "engine_memory_bytes": 12, "drafted_tokens_total": 13, "accepted_tokens_total": 14,
		"remote_streams_total":         15,
		"remote_replaced_tokens_total": 16, "remote_faults_total": 17, "remote_given_up_total": 18, "remote_down": 1,
		"remote_forms_refused_total": 19, "remote_other_model": 1}
	now := generation.Stats{Waiting: 2, Active: 3, Idle: 4, Paused: 20, Pauses: 21, Steps: 5, Tokens: 6,
		MaskTime: 7 * time.Second, Violations: 8, Drafted: 13, Accepted: 14,
		Engine: generation.EngineStats{Crashes: 9, Hangs: 10, Failed: 11, Memory: 12},
		Remote: generation.RemoteStats{Streams: 15, Replaced: 16, Faults: 17, GaveUp: 18, Down: true,
			FormsRefused: 19, Other: true}}
	if len(figuresOfModels) != len(wanted) {
		t.Errorf("%d figures of models", len(figuresOfModels))
	}
	for _, f := range figuresOfModels {
		if want, ok := wanted[f.name]; !ok || f.value(&now) != want {
			t.Errorf("%s is %v, not %v", f.name, f.value(&now), want)
		}
	}
}

// Missing reasons are counted, but only if reasons were requested.
func TestMissingReasonsAreCounted(t *testing.T) {
	m := newMetrics(newModelFigures(pool.New(pool.Config{})))
	m.finished("a", &reasoning.Result{})
	m.finished("a", &reasoning.Result{Rationale: &reasoning.RationaleCount{Stated: 1, Missing: 2}})
	m.finished("a", &reasoning.Result{Rationale: &reasoning.RationaleCount{Missing: 1}})
	w := httptest.NewRecorder()
	m.handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{`runner_rationales_total{model="a",reason="missing"} 3`,
		`runner_rationales_total{model="a",reason="stated"} 1`} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
}
