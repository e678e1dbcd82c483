package tracing

import (
	"encoding/json"
	"errors"
	"io"
	"time"

	"runner/reasoning/decision"
	"runner/reasoning/trace"
)

// ErrNoRun says that a trace does not hold the records of a run.
var ErrNoRun = errors.New("the trace does not contain a run")

// Replay sends the decision trace of a stored run to emit. It equals the output of run --output decisions with full
// visibility, because a stored run has everything. For a truncated trace it sends what there is and returns
// trace.ErrTruncated. Other errors are ErrNoRun and those of r.
func Replay(r *trace.Reader, emit func(decision.Event)) error {
	var tracer *decision.Tracer
	var began, now time.Time
	for {
		line, err := r.Next()
		switch {
		case errors.Is(err, io.EOF) && tracer != nil:
			return nil
		case errors.Is(err, io.EOF):
			return ErrNoRun
		case err != nil:
			return err
		}
		var rec trace.Record
		if json.Unmarshal(line, &rec) != nil || (rec.Begin != nil) != (tracer == nil) {
			return ErrNoRun
		}
		if b := rec.Begin; b != nil {
			began, now = b.Time, b.Time
			cfg := decision.Config{RunID: b.Run, Goal: goal(b), Clock: func() time.Time { return now }}
			if cfg.RunID == "" {
				cfg.RunID = r.Header().ID.String()
			}
			tracer = decision.NewTracer(cfg, emit)
		}
		now = began.Add(time.Duration(rec.MS) * time.Millisecond)
		switch {
		case rec.Event != nil:
			tracer.Push(*rec.Event)
		case rec.End != nil && rec.End.Status != trace.StatusDone:
			tracer.End(rec.End.Status == trace.StatusCancelled)
		}
	}
}
