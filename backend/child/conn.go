package child

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"runner/backend"
	"runner/backend/child/protocol"
	"runner/hint"
)

// crash says that the engine's process ended, hung or broke the protocol.
type crash struct{ err error }

func (c *crash) Error() string { return "the engine crashed: " + c.err.Error() }

// Unwrap returns the cause.
func (c *crash) Unwrap() error { return c.err }

// TooMuchMemory returns a backend.ErrMemory with a hint: a process needed more memory than Engine.Memory. detail is
// what the engine said.
func TooMuchMemory(limit int64, detail string) error {
	return &hint.Error{Err: backend.ErrMemory, Advice: "raise --engine-memory, or choose a smaller model or context size",
		Text: fmt.Sprintf("the engine needs more memory than --engine-memory allows (%d MB): %s", limit/1e6, detail)}
}

// errHang is the cause of a crash that this end made because the engine made no progress.
var errHang = errors.New("it made no progress")

// errTextHang is errHang of a text. Steps under way are not to blame.
var errTextHang = fmt.Errorf("%w while it tokenized a text", errHang)

// conn is a conversation with one process. Requests come from one goroutine, texts to tokenize from any.
type conn struct {
	proc  *process
	read  sync.WaitGroup // of the reader
	out   *protocol.Writer
	hello protocol.Hello
	limit int64 // of the process's memory, or 0

	// answers passes frames from the reader, which waits for release before it reads the next one.
	answers chan protocol.Frame
	release chan struct{}
	dead    chan struct{} // closed at the end, when cause is set
	cause   error
	reason  error       // what the engine said before it ended; set before done
	asked   atomic.Bool // a request waits for its answer

	// moves counts signs of progress: frames, and growing counts in frames of progress.
	moves atomic.Uint64
	watch watch
	// count and fraction are the greatest in frames of progress so far. Only the reader uses them.
	count    uint64
	fraction float32

	mu    sync.Mutex
	texts map[uint64]chan<- tokens
	next  uint64
}

// tokens is the answer to a text.
type tokens struct {
	list []backend.Token
	err  error
}

// dial starts an engine's program and exchanges hellos. When ctx ends, the process is killed.
func dial(ctx context.Context, e *Engine) (*conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	start := begin
	if e.begin != nil {
		start = e.begin
	}
	proc, err := start(e.Program)
	if err != nil {
		return nil, err
	}
	proc.said.follow(e.Log)
	c := &conn{proc: proc, limit: e.Memory, out: protocol.NewWriter(proc.out), answers: make(chan protocol.Frame),
		release: make(chan struct{}), dead: make(chan struct{}), texts: map[uint64]chan<- tokens{}}
	c.watch.of = c
	c.read.Go(c.readAll)
	stop := context.AfterFunc(ctx, proc.end)
	err = c.exchange(context.Background(), e.times.start, protocol.KindHello, protocol.Hello{Protocol: protocol.Version,
		Runner: e.Version}, protocol.KindEngineHello, &c.hello)
	if err == nil && c.hello.Protocol != protocol.Version {
		err = fmt.Errorf("the engine speaks version %d of the protocol, this program version %d", c.hello.Protocol,
			protocol.Version)
	}
	if !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// readAll passes frames on until the process ends.
func (c *conn) readAll() {
	r := protocol.NewReader(c.proc.in)
	var err error
	for err == nil {
		var f protocol.Frame
		if f, err = r.Next(); err == nil {
			err = c.pass(f)
		}
	}
	// The process ends by itself when a pipe is gone. Its own end says more than the end of the pipe does.
	if !errors.Is(err, protocol.ErrFrame) && !errors.Is(err, errHang) {
		select {
		case <-c.proc.ended:
		case <-time.After(time.Second):
		}
	}
	c.proc.end()
	<-c.proc.ended
	c.cause = &crash{c.why(err)}
	close(c.dead)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.texts {
		t <- tokens{err: c.cause}
	}
	c.texts = nil
}

// why returns why a process ended whose frames ended with an error.
func (c *conn) why(err error) error {
	switch {
	case c.watch.hung.Load() != nil:
		return *c.watch.hung.Load()
	case errors.Is(err, protocol.ErrFrame):
		return err
	case c.reason != nil:
		err = c.reason
	default:
		err = errors.New(c.proc.how())
	}
	if text, ok := c.proc.said.memory(); c.limit > 0 && (ok || errors.Is(err, backend.ErrMemory)) {
		if !ok {
			text = err.Error()
		}
		return TooMuchMemory(c.limit, text)
	}
	return err
}

// pass passes a frame on.
func (c *conn) pass(f protocol.Frame) error {
	switch f.Kind {
	case protocol.KindProgress:
		var p protocol.Progress
		if err := f.JSON(&p); err != nil {
			return err
		}
		if p.Fraction < 0 || p.Fraction > 1 {
			return fmt.Errorf("%w: progress of %v", protocol.ErrFrame, p.Fraction)
		}
		if p.Count > c.count || p.Fraction > c.fraction {
			c.moves.Add(1)
		}
		c.count, c.fraction = max(p.Count, c.count), max(p.Fraction, c.fraction)
		if p.Fraction == 0 {
			return nil
		}
	case protocol.KindTokens:
		return c.passTokens(f)
	}
	if f.Kind < protocol.KindEngineHello || !c.asked.Load() {
		return fmt.Errorf("%w: %v came without a request", protocol.ErrFrame, f.Kind)
	}
	if f.Kind != protocol.KindProgress {
		c.moves.Add(1)
	}
	c.answers <- f
	<-c.release
	return nil
}

func (c *conn) passTokens(f protocol.Frame) error {
	var t protocol.Tokenize
	if err := f.JSON(&t); err != nil {
		return err
	}
	list, err := protocol.Tokens(f.Raw)
	if err != nil {
		return err
	}
	c.mu.Lock()
	to := c.texts[t.ID]
	delete(c.texts, t.ID)
	c.mu.Unlock()
	if to == nil {
		return fmt.Errorf("%w: tokens of no text", protocol.ErrFrame)
	}
	if t.Error != "" {
		list, err = nil, errors.New(t.Error)
	}
	to <- tokens{list, err}
	return nil
}

// tokenize lets the engine tokenize a text. It may be called from any goroutine. The process is killed if it does not
// answer within patience.
func (c *conn) tokenize(text string, patience time.Duration) ([]backend.Token, error) {
	answer := make(chan tokens, 1)
	c.mu.Lock()
	if c.texts == nil {
		c.mu.Unlock()
		return nil, c.cause
	}
	c.next++
	id := c.next
	c.texts[id] = answer
	c.mu.Unlock()
	defer c.watch.endText(c.watch.beginText(patience))
	if err := c.out.WriteJSON(protocol.KindTokenize, protocol.Tokenize{ID: id}, []byte(text)); err != nil {
		if errors.Is(err, protocol.ErrFrame) { // it is too long
			return nil, err
		}
		<-c.dead
		return nil, c.cause
	}
	t := <-answer
	return t.list, t.err
}

// exchange sends a request with a JSON head and decodes that of its only answer, see take.
func (c *conn) exchange(ctx context.Context, patience time.Duration, kind protocol.Kind, head any, answer protocol.Kind,
	into any) error {
	f, err := c.ask(ctx, patience, kind, head)
	if err != nil {
		return err
	}
	err = c.take(f, answer, into)
	c.done()
	return err
}

// ask sends a request with a JSON head and waits for its answer, see await.
func (c *conn) ask(ctx context.Context, patience time.Duration, kind protocol.Kind, head any) (protocol.Frame, error) {
	b, err := json.Marshal(head)
	if err != nil {
		return protocol.Frame{}, err
	}
	c.begin(patience)
	if err := c.send(protocol.Frame{Kind: kind, Head: b}); err != nil {
		return protocol.Frame{}, err
	}
	return c.await(ctx)
}

// begin announces a request. The process is killed if it is silent for longer than patience.
func (c *conn) begin(patience time.Duration) {
	c.asked.Store(true)
	c.watch.begin(patience)
}

// send writes a frame of the request under way.
func (c *conn) send(f protocol.Frame) error {
	if err := c.out.Write(f); err != nil {
		if errors.Is(err, protocol.ErrFrame) {
			return err
		}
		return c.fail() // nobody reads any more
	}
	return nil
}

// fail waits for the end of the process and returns its cause. An answer that came too early is dropped.
func (c *conn) fail() error {
	for {
		select {
		case <-c.answers:
			c.more()
		case <-c.dead:
			c.asked.Store(false)
			c.watch.end()
			return c.cause
		}
	}
}

// await waits for the next frame about the request under way. The caller must call done when it has read the last one,
// and more after any other. When ctx ends, it asks the engine to cancel and goes on waiting.
func (c *conn) await(ctx context.Context) (protocol.Frame, error) {
	end := ctx.Done()
	for {
		select {
		case f := <-c.answers:
			return f, nil
		case <-c.dead:
			return protocol.Frame{}, c.fail()
		case <-end:
			end = nil
			_ = c.out.Write(protocol.Frame{Kind: protocol.KindCancel}) // else it has crashed
		}
	}
}

// more lets the reader go on; another frame about the request follows.
func (c *conn) more() { c.release <- struct{}{} }

// done ends the request under way. It returns how long it has taken at most, without sleep.
func (c *conn) done() time.Duration {
	c.asked.Store(false)
	took := c.watch.end()
	c.release <- struct{}{}
	return took
}

// take decodes the JSON of an answer that should be of a kind. An error of the engine is a *protocol.Error.
func (c *conn) take(f protocol.Frame, kind protocol.Kind, into any) error {
	switch f.Kind {
	case kind:
		return f.JSON(into)
	case protocol.KindError:
		e := &protocol.Error{}
		if err := f.JSON(e); err != nil {
			return err
		}
		if err := e.Backend(""); errors.Is(err, backend.ErrBroken) || errors.Is(err, backend.ErrMemory) {
			c.reason = err
		}
		return e
	}
	return fmt.Errorf("%w: %v came instead of %v", protocol.ErrFrame, f.Kind, kind)
}

// end ends a process that broke the protocol or that said that it is broken, and returns its crash.
func (c *conn) end(err error) error {
	c.proc.kill()
	<-c.dead
	if c.reason != nil {
		return c.cause
	}
	return &crash{err}
}

// close ends the process.
func (c *conn) close() {
	c.proc.stop()
	c.read.Wait()
	c.watch.stop()
}
