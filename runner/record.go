package runner

import (
	"time"

	"runner/generation"
	"runner/reasoning"
)

// flushEvery is how long an event may wait until it is durable.
const flushEvery = time.Second

// tape carries all events of a run to its recorder, whatever the visibility.
type tape struct {
	*stream
	// ended is closed when the trace has ended. After that id and err may be read.
	ended chan struct{}
	id    string
	err   error
}

// record begins the trace of the run before its first turn, if the observer wants one. It waits until the recorder
// has begun.
func (j *job) record(t *turn) {
	req := j.req // not the turn's, which a loop may have changed
	req.Messages, req.Tools = t.conv.Messages, t.conv.Tools
	to, err := j.observer.Trace(j.ctx, &generation.TracedRun{Request: &req, Model: j.r.info.Name, Key: j.r.info.Key,
		Digest: j.r.tracedDigest})
	if to == nil && err == nil {
		return
	}
	j.tape = &tape{stream: newStream(), ended: make(chan struct{})}
	if err != nil {
		j.tape.err = err
		j.tape.close(err)
		close(j.tape.ended)
		return
	}
	go j.tape.play(to)
}

// tracedDigest returns the digest of the weights that compute now, or nothing if that is not certain.
func (r *Runner) tracedDigest() string {
	if r.cfg.Weights != nil && r.cfg.Weights.Touched() {
		return ""
	}
	return r.Info().Digest
}

// play records until the tape ends.
func (p *tape) play(to generation.Recorder) {
	defer close(p.ended)
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	var events []reasoning.Event
	for {
		var end bool
		var why error
		events, end, why = p.next(events, tick.C)
		for i := range events {
			to.Record(events[i])
		}
		switch {
		case end:
			p.id, p.err = to.End(why)
			return
		case len(events) == 0:
			to.Flush()
		}
	}
}

// outcome waits for the end of the trace and adds its id to the last event of the run. If there is no trace, it returns
// a warning, which goes before that event.
func (p *tape) outcome(done *reasoning.Event) (warning *reasoning.Event) {
	<-p.ended
	if p.err != nil {
		return &reasoning.Event{Kind: reasoning.Warning, Code: generation.CodeNotTraced,
			Text: "no whole trace of this run is stored: " +
				p.err.Error()}
	}
	result := *done.Result // the recorder has the original
	result.Trace = p.id
	done.Result = &result
	return nil
}
