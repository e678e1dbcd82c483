package runner

import (
	"context"
	"time"

	"runner/generation"
	"runner/reasoning"
)

// flushEvery is how long what a run says may wait to be durable.
const flushEvery = time.Second

// tape carries a run's events, unfiltered, from the scheduler to its recorder, as a stream carries those that may
// be seen to the reader.
type tape struct {
	*stream
	// ended is closed when the trace is; then id and err are what came of it.
	ended chan struct{}
	id    string
	err   error
}

// record begins the trace of a turn, if one was asked for. It waits for the recorder, so it is for the caller's
// goroutine.
func (t *turn) record(ctx context.Context) {
	if t.req.Trace == nil {
		return
	}
	req := t.req
	req.Messages, req.Tools, req.Seed = t.conv.Messages, t.conv.Tools, &t.seed
	if t.tape = t.r.newTape(ctx, &req); t.tape.err == nil {
		t.output.tape = t.tape.stream
	}
}

// newTape begins the trace of a request that wants one. A tape with an error has ended.
func (r *Runner) newTape(ctx context.Context, req *generation.Request) *tape {
	p := &tape{stream: newStream(), ended: make(chan struct{})}
	to, err := req.Trace.Begin(ctx, &generation.TracedRun{Request: req, Model: r.info.Name, Digest: r.info.Digest})
	if err != nil {
		p.err = err
		close(p.ended)
		return p
	}
	go p.play(to)
	return p
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

// outcome waits for the trace and adds what came of it to a run's last event. The warning, if there is one, goes
// before it.
func (p *tape) outcome(done *reasoning.Event) (warning *reasoning.Event) {
	<-p.ended
	if p.err != nil {
		return &reasoning.Event{Kind: reasoning.Warning, Code: generation.CodeNotTraced,
			Text: "no whole trace of this run is stored: " +
				p.err.Error()}
	}
	result := *done.Result // the recorder has the other
	result.Trace = p.id
	done.Result = &result
	return nil
}
