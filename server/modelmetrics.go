package server

import (
	"reflect"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"runner/generation"
	"runner/server/pool"
)

const (
	gauge   = prometheus.GaugeValue
	counter = prometheus.CounterValue
)

// modelFigure is one figure of a loaded model.
type modelFigure struct {
	kind prometheus.ValueType
	// field is the path of the figure in [generation.Stats]. Without one the figure is 1.
	field string
	name  string
	help  string
}

// figuresOfModels are all of them.
var figuresOfModels = []modelFigure{
	{gauge, "", "model_loaded", "1 for each model that is in memory."},
	{gauge, "Waiting", "runs_waiting", "Runs, summaries and texts to embed that wait for their turn."},
	{gauge, "Active", "runs_active", "Runs, summaries and texts to embed that are computed."},
	{gauge, "Paused", "runs_paused", "Runs that were begun and paused, because others get their place; they wait, too."},
	{counter, "Pauses", "pauses_total",
		"How often runs were paused so that others got their place, since the model was loaded."},
	{gauge, "Idle", "sequences_idle", "Sequences that are kept for the prefixes that they hold."},
	{counter, "Steps", "steps_total", "Forward passes, since the model was loaded."},
	{counter, "Tokens", "step_tokens_total", "Tokens fed to forward passes, since the model was loaded."},
	{counter, "Drafted", "drafted_tokens_total", "Guesses of next tokens that were fed, since the model was loaded."},
	{counter, "Accepted", "accepted_tokens_total", "Tokens that came of guesses, since the model was loaded."},
	{counter, "MaskTime", "mask_seconds_total", "Time spent on token masks, since the model was loaded."},
	{counter, "Violations", "form_violations_total",
		"Answers that broke their form, since the model was loaded; any is a mistake of the program."},
	{counter, "Engine.Crashes", "engine_crashes_total",
		"Processes of the engine that ended while the model was in use, since it was loaded."},
	{counter, "Engine.Hangs", "engine_hangs_total",
		"Processes of the engine that were ended because they made no progress, since the model was loaded."},
	{counter, "Engine.Failed", "engine_failed_total",
		"Sequences that were given up because they crash the engine, since the model was loaded."},
	{gauge, "Engine.Memory", "engine_memory_bytes",
		"What the engine's process has in memory, the pages of the model's file included, those of a GPU left out; " +
			"0 while it has no process of its own."},
	{counter, "Remote.Streams", "remote_streams_total",
		"Generations that were opened at an engine on another machine, since the model was loaded."},
	{counter, "Remote.Replaced", "remote_replaced_tokens_total",
		"Tokens of an engine on another machine that a form did not allow, since the model was loaded."},
	{counter, "Remote.Faults", "remote_faults_total",
		"Generations at an engine on another machine that failed, since the model was loaded."},
	{counter, "Remote.GaveUp", "remote_given_up_total",
		"Sequences that were given up because an engine on another machine failed, since the model was loaded."},
	{counter, "Remote.FormsRefused", "remote_forms_refused_total",
		"Forms that an engine on another machine refused to follow, so that they are checked here alone, since the " +
			"model was loaded."},
	{gauge, "Remote.Down", "remote_down",
		"1 while an engine on another machine counts as down, so that few requests are sent."},
	{gauge, "Remote.Other", "remote_other_model",
		"1 while an engine on another machine runs another model than the one that was loaded, so that all requests " +
			"are refused."},
}

// modelFigures collects the figures of the loaded models whenever the metrics are read.
type modelFigures struct {
	pool  *pool.Pool
	descs []*prometheus.Desc
}

func newModelFigures(p *pool.Pool) *modelFigures {
	f := &modelFigures{pool: p}
	for _, m := range figuresOfModels {
		f.descs = append(f.descs, prometheus.NewDesc("runner_"+m.name, m.help, []string{"model"}, nil))
	}
	return f
}

// Describe implements [prometheus.Collector].
func (f *modelFigures) Describe(to chan<- *prometheus.Desc) {
	for _, d := range f.descs {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (f *modelFigures) Collect(to chan<- prometheus.Metric) {
	for _, name := range f.pool.Names() {
		r := f.pool.Loaded(name)
		if r == nil {
			continue
		}
		stats := r.Stats()
		for i := range figuresOfModels {
			m := &figuresOfModels[i]
			to <- prometheus.MustNewConstMetric(f.descs[i], m.kind, m.value(&stats), name)
		}
	}
}

// value returns the figure: a count, a time in seconds, or 1 for true.
func (m *modelFigure) value(stats *generation.Stats) float64 {
	if m.field == "" {
		return 1
	}
	v := reflect.ValueOf(stats).Elem()
	for name := range strings.SplitSeq(m.field, ".") {
		v = v.FieldByName(name)
	}
	switch x := v.Interface().(type) {
	case time.Duration:
		return x.Seconds()
	case bool:
		if x {
			return 1
		}
		return 0
	}
	return float64(v.Int())
}
