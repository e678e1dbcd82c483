package room

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"runner/backend/fake"
	"runner/bench"
	"runner/hint"
)

// farModel is a model in another process.
type farModel struct {
	*fake.Model
	process int
}

func (m farModel) Process() int { return m.process }

// TestBenchWaitsForEngines: each run waits until the engines' processes are idle, but not for one that cannot be looked
// at. One that computes on is named once.
func TestBenchWaitsForEngines(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "errors"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	m := fake.New(fake.Config{})
	defer m.Close()
	var waits []string
	a := &bencher{note: func(line string) { fmt.Fprintln(file, line) },
		settle: func(_ context.Context, processes []int, limit time.Duration) bool {
			waits = append(waits, fmt.Sprint(processes, limit))
			return false
		}}
	of := func(process int, remote bool) subject {
		return subject{Subject: bench.Subject{Model: farModel{m, process}, Row: bench.Row{Subject: "a"}},
			model: &model{}, remote: remote}
	}
	subjects := []subject{of(0, false), of(7, false), of(0, false), of(8, true)}
	o := &options{repeat: 2, noWarmUp: true}
	rows, err := a.measure(t.Context(), nil, subjects, []bench.Test{{Prompt: 4}}, o, func(string) {})
	if err != nil || len(rows) != len(subjects) {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	if got, want := strings.Join(waits, ";"), strings.Repeat("[0 7] 3s;", 7)+"[0 7] 3s"; got != want {
		t.Errorf("the runs waited for %q, want %q", got, want)
	}
	text, err := os.ReadFile(file.Name())
	if err != nil || strings.Count(string(text), "warning: an engine computed for 3s after a run") != 1 {
		t.Errorf("the notes are %q, %v", text, err)
	}
}

// TestNothingToMeasure: without a test of tokens there must be answers to measure.
func TestNothingToMeasure(t *testing.T) {
	if _, err := (&options{}).tests(); err == nil || hint.Of(err) == "" {
		t.Errorf("without tests and answers: %v", err)
	}
	if tests, err := (&options{answer: answerOptions{serve: true}}).tests(); err != nil || len(tests) != 0 {
		t.Errorf("with answers alone: %v, %v", tests, err)
	}
}
