package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"runner/reasoning"
	"runner/server/pool"
)

// Reasons that a model owed and did not give are counted, and only where they were asked for.
func TestMissingReasonsAreCounted(t *testing.T) {
	m := newMetrics(newModelFigures(pool.New(pool.Config{})))
	m.finished("a", &reasoning.Result{})
	m.finished("a", &reasoning.Result{Rationale: &reasoning.RationaleCount{Stated: 1, Missing: 2}})
	m.finished("a", &reasoning.Result{Rationale: &reasoning.RationaleCount{Missing: 1}})
	w := httptest.NewRecorder()
	m.handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{`runner_rationales_total{model="a",reason="missing"} 3`, `runner_rationales_total{model="a",reason="stated"} 1`} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
}
