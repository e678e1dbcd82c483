package runner

import (
	"context"
	"time"

	"runner/reasoning"
)

// Tracer begins the traces of runs. It may be used by several goroutines at once.
type Tracer interface {
	// Begin begins the trace of a run. It returns when what the run starts from is durable, or why there will be no
	// trace; the run goes on without one then. Its error and those of the Recorder are shown to who asked for the
	// run, so they hold nothing else.
	Begin(ctx context.Context, run *TracedRun) (Recorder, error)
}

// Recorder writes down one run. Its methods are called one after the other, on a goroutine of the run's own: they
// may wait for a disk.
type Recorder interface {
	// Record takes the next event of the run, whatever the visibility. Errors are End's to tell.
	Record(e reasoning.Event)
	// Flush makes what was taken durable. It is called every second.
	Flush()
	// End ends the trace; why is nil after Done, else the error that ended the run. It returns the trace's id when
	// all of it is durable, or why there is none.
	End(why error) (id string, err error)
}

// TracedRun is what a run starts from.
type TracedRun struct {
	// Request is what was asked for, as it is carried out: with the instructions that strategy and form give the
	// model among the messages, with reasoning that was restored, and with a seed. It must not be changed.
	Request *Request
	// Model is the model's name, and Digest that of its files.
	Model, Digest string
}

// CodeNotTraced warns that the trace that was asked for is not stored.
const CodeNotTraced = "trace_not_stored"

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
func (r *Runner) newTape(ctx context.Context, req *Request) *tape {
	p := &tape{stream: newStream(), ended: make(chan struct{})}
	to, err := req.Trace.Begin(ctx, &TracedRun{Request: req, Model: r.info.Name, Digest: r.info.Digest})
	if err != nil {
		p.err = err
		close(p.ended)
		return p
	}
	go p.play(to)
	return p
}

// play records until the tape ends.
func (p *tape) play(to Recorder) {
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
		return &reasoning.Event{Kind: reasoning.Warning, Code: CodeNotTraced, Text: "no whole trace of this run is stored: " +
			p.err.Error()}
	}
	result := *done.Result // the recorder has the other
	result.Trace = p.id
	done.Result = &result
	return nil
}
