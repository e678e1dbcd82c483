package server

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"runner/reasoning"
)

// metrics are the server's metrics. Labels are routes, models, statuses and kinds of token, never a client's text.
type metrics struct {
	registry *prometheus.Registry

	requests    *prometheus.CounterVec
	inFlight    prometheus.Gauge
	duration    *prometheus.HistogramVec
	runs        *prometheus.CounterVec
	tokens      *prometheus.CounterVec
	queue       *prometheus.HistogramVec
	firstToken  *prometheus.HistogramVec
	firstAnswer *prometheus.HistogramVec
	speed       *prometheus.HistogramVec
	prefill     *prometheus.CounterVec
	decode      *prometheus.CounterVec
	rationales  *prometheus.CounterVec
	warnings    *prometheus.CounterVec
	refusedBy   *prometheus.CounterVec
	dropped     *prometheus.CounterVec
}

func newMetrics(models prometheus.Collector) *metrics {
	seconds := []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120}
	registry := prometheus.NewRegistry()
	registered := promauto.With(registry)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return registered.NewCounterVec(prometheus.CounterOpts{Name: "runner_" + name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return registered.NewHistogramVec(prometheus.HistogramOpts{Name: "runner_" + name, Help: help, Buckets: buckets},
			labels)
	}
	registry.MustRegister(models, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return &metrics{
		registry: registry,
		requests: counter("requests_total", "HTTP requests, by route and status.", "route", "status"),
		inFlight: registered.NewGauge(prometheus.GaugeOpts{Name: "runner_requests_in_flight",
			Help: "HTTP requests being answered."}),
		duration: histogram("request_duration_seconds", "Time from a request's first byte to the last of its answer.",
			seconds, "route"),
		runs: counter("runs_total", "Generations, by model and how they ended.", "model", "finish"),
		tokens: counter("tokens_total", "Tokens, by model and kind: prompt (cached ones included), cached, "+
			"completion (reasoning included), reasoning, summary.", "model", "kind"),
		queue: histogram("queue_seconds", "Time that a run waited for a sequence.", seconds, "model"),
		firstToken: histogram("time_to_first_token_seconds", "Time from the request to the first token, seen or not.",
			seconds, "model"),
		firstAnswer: histogram("time_to_first_answer_seconds", "Time from the request to the first text of the answer.",
			seconds, "model"),
		speed: histogram("decode_tokens_per_second", "Speed of decoding of one run.",
			prometheus.ExponentialBuckets(1, 2, 14), "model"),
		prefill: counter("prefill_seconds_total", "Time spent in prefill, summed over runs.", "model"),
		decode:  counter("decode_seconds_total", "Time spent decoding, summed over runs.", "model"),
		rationales: counter("rationales_total", "Calls whose reason was asked for, by whether the model gave one: "+
			"stated or missing.", "model", "reason"),
		warnings:  counter("warnings_total", "Warnings of runs, by code.", "model", "code"),
		refusedBy: counter("refused_total", "Answers that were errors before anything else was sent, by code.", "code"),
		dropped: counter("connections_dropped_total",
			"Connections beyond the limits, by why: idle ones that made room, or new ones that were too many of a peer or "+
				"in all.", "why"),
	}
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}

func (m *metrics) answered(route string, status int, took time.Duration) {
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	m.duration.WithLabelValues(route).Observe(took.Seconds())
}

// used counts the tokens of a run, however it ended.
func (m *metrics) used(model string, u reasoning.Usage) {
	for kind, n := range map[string]int{"prompt": u.Prompt, "cached": u.Cached, "completion": u.Completion,
		"reasoning": u.Reasoning, "summary": u.Summary} {
		m.tokens.WithLabelValues(model, kind).Add(float64(n))
	}
}

// finished counts a run that was completed.
func (m *metrics) finished(model string, r *reasoning.Result) {
	m.runs.WithLabelValues(model, string(r.Finish)).Inc()
	u, t := r.Usage, r.Timing
	m.queue.WithLabelValues(model).Observe(t.Queue.Seconds())
	m.firstToken.WithLabelValues(model).Observe(t.FirstToken.Seconds())
	if t.FirstAnswer > 0 {
		m.firstAnswer.WithLabelValues(model).Observe(t.FirstAnswer.Seconds())
	}
	if c := r.Rationale; c != nil {
		m.rationales.WithLabelValues(model, "stated").Add(float64(c.Stated))
		m.rationales.WithLabelValues(model, "missing").Add(float64(c.Missing))
	}
	if t.Decode > 0 && u.Completion > 1 {
		m.speed.WithLabelValues(model).Observe(float64(u.Completion-1) / t.Decode.Seconds())
	}
	m.prefill.WithLabelValues(model).Add(t.Prefill.Seconds())
	m.decode.WithLabelValues(model).Add(t.Decode.Seconds())
}
