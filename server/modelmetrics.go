package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"runner/generation"
	"runner/server/pool"
)

// modelFigures collects the figures of the loaded models whenever the metrics are read.
type modelFigures struct {
	pool    *pool.Pool
	figures []modelFigure
}

// modelFigure is one figure of a model.
type modelFigure struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(generation.Stats) float64
}

func newModelFigures(p *pool.Pool) *modelFigures {
	f := &modelFigures{pool: p}
	add := func(name, help string, kind prometheus.ValueType, of func(generation.Stats) float64) {
		f.figures = append(f.figures, modelFigure{prometheus.NewDesc("runner_"+name, help, []string{"model"}, nil), kind, of})
	}
	gauge := prometheus.GaugeValue
	counter := prometheus.CounterValue
	add("model_loaded", "1 for each model that is in memory.", gauge, func(generation.Stats) float64 { return 1 })
	add("runs_waiting", "Runs, summaries and texts to embed that wait for their turn.", gauge,
		func(s generation.Stats) float64 { return float64(s.Waiting) })
	add("runs_active", "Runs, summaries and texts to embed that are computed.", gauge,
		func(s generation.Stats) float64 {
			return float64(s.Active)
		})
	add("runs_paused", "Runs that were begun and paused, because others get their place; they wait, too.", gauge,
		func(s generation.Stats) float64 { return float64(s.Paused) })
	add("pauses_total", "How often runs were paused so that others got their place, since the model was loaded.", counter,
		func(s generation.Stats) float64 { return float64(s.Pauses) })
	add("sequences_idle", "Sequences that are kept for the prefixes that they hold.", gauge,
		func(s generation.Stats) float64 {
			return float64(s.Idle)
		})
	add("steps_total", "Forward passes, since the model was loaded.", counter, func(s generation.Stats) float64 {
		return float64(s.Steps)
	})
	add("step_tokens_total", "Tokens fed to forward passes, since the model was loaded.", counter,
		func(s generation.Stats) float64 { return float64(s.Tokens) })
	add("drafted_tokens_total", "Guesses of next tokens that were fed, since the model was loaded.", counter,
		func(s generation.Stats) float64 { return float64(s.Drafted) })
	add("accepted_tokens_total", "Tokens that came of guesses, since the model was loaded.", counter,
		func(s generation.Stats) float64 { return float64(s.Accepted) })
	add("mask_seconds_total", "Time spent on token masks, since the model was loaded.", counter,
		func(s generation.Stats) float64 { return s.MaskTime.Seconds() })
	add("form_violations_total", "Answers that broke their form, since the model was loaded; "+
		"any is a mistake of the program.", counter,
		func(s generation.Stats) float64 { return float64(s.Violations) })
	add("engine_crashes_total", "Processes of the engine that ended while the model was in use, since it was loaded.",
		counter, func(s generation.Stats) float64 { return float64(s.Engine.Crashes) })
	add("engine_hangs_total", "Processes of the engine that were ended because they made no progress, since the model "+
		"was loaded.", counter, func(s generation.Stats) float64 { return float64(s.Engine.Hangs) })
	add("engine_failed_total", "Sequences that were given up because they crash the engine, since the model was loaded.",
		counter, func(s generation.Stats) float64 { return float64(s.Engine.Failed) })
	add("engine_memory_bytes", "What the engine's process has in memory, the pages of the model's file included, "+
		"those of a GPU left out; 0 while it has no process of its own.", gauge,
		func(s generation.Stats) float64 { return float64(s.Engine.Memory) })
	add("remote_streams_total", "Generations that were opened at an engine on another machine, since the model "+
		"was loaded.", counter, func(s generation.Stats) float64 { return float64(s.Remote.Streams) })
	add("remote_replaced_tokens_total", "Tokens of an engine on another machine that a form did not allow, since the "+
		"model was loaded.", counter, func(s generation.Stats) float64 { return float64(s.Remote.Replaced) })
	add("remote_faults_total", "Generations at an engine on another machine that failed, since the model was loaded.",
		counter, func(s generation.Stats) float64 { return float64(s.Remote.Faults) })
	add("remote_given_up_total", "Sequences that were given up because an engine on another machine failed, since the "+
		"model was loaded.", counter, func(s generation.Stats) float64 { return float64(s.Remote.GaveUp) })
	add("remote_forms_refused_total", "Forms that an engine on another machine refused to follow, so that they are "+
		"checked here alone, since the model was loaded.", counter,
		func(s generation.Stats) float64 { return float64(s.Remote.FormsRefused) })
	add("remote_down", "1 while an engine on another machine counts as down, so that few requests are sent.", gauge,
		func(s generation.Stats) float64 { return oneIf(s.Remote.Down) })
	add("remote_other_model", "1 while an engine on another machine runs another model than the one that was loaded, so "+
		"that all requests are refused.", gauge, func(s generation.Stats) float64 { return oneIf(s.Remote.Other) })
	return f
}

// oneIf returns 1 for true and 0 for false.
func oneIf(x bool) float64 {
	if x {
		return 1
	}
	return 0
}

// Describe implements [prometheus.Collector].
func (f *modelFigures) Describe(to chan<- *prometheus.Desc) {
	for i := range f.figures {
		to <- f.figures[i].desc
	}
}

// Collect implements [prometheus.Collector].
func (f *modelFigures) Collect(to chan<- prometheus.Metric) {
	for _, name := range f.pool.Names() {
		r := f.pool.Loaded(name)
		if r == nil {
			continue
		}
		s := r.Stats()
		for i := range f.figures {
			to <- prometheus.MustNewConstMetric(f.figures[i].desc, f.figures[i].kind, f.figures[i].of(s), name)
		}
	}
}
