package runner

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"runner/backend"
	"runner/chattemplate"
	"runner/chattemplate/families"
	"runner/chattemplate/family"
	"runner/generation"
	"runner/generation/delegation"
	"runner/grammar"
	"runner/reasoning"
)

// Errors that end a run, wrapped.
var (
	// ErrHangs: the model's step did not end in time; what it holds is not freed.
	ErrHangs = errors.New("the model does not come back from a step")
)

// grace is how long a run that is cancelled waits for the step under way; Close waits three times as long.
const grace = 3 * time.Second

// Runner generates with one model. Its methods may be called from any goroutine.
type Runner struct {
	model backend.Model
	info  backend.Info
	cfg   Config
	// family renders, reads and constrains what the model writes, and raw what it writes after a raw prompt.
	family, raw family.Family
	closing     closing
	// maxText is the most bytes of text that a context can hold.
	maxText int
	// reach says which fields of a request act where. Tests change it.
	reach *reach
	// grammars keeps what requests asked for in forms. Its tables are made when they are first needed.
	grammars func() *grammar.Cache

	// using is held for reading while a prompt is made, which needs the model's tokenizer, and for writing by Close.
	using sync.RWMutex
	sched *scheduler
	queue *queue
	slots *slots
	// violations counts answers that broke the form that they were held to.
	violations atomic.Int64
	// maskTime is how long was spent on masks, in nanoseconds.
	maskTime atomic.Int64
	cancel   context.CancelFunc
	stopped  chan struct{}
	once     sync.Once
	closed   error
	grace    time.Duration
}

// New takes ownership of a model and starts to serve it. On an error the model stays the caller's.
func New(model backend.Model, cfg Config) (*Runner, error) {
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Seed == nil {
		cfg.Seed = randomSeed
	}
	if cfg.PrefillChunk <= 0 {
		cfg.PrefillChunk = 256
	}
	if cfg.Queue <= 0 {
		cfg.Queue = 64
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	info := model.Info()
	source := info.ChatTemplate
	if cfg.ChatTemplate != "" {
		source = cfg.ChatTemplate
	}
	maxText := info.ContextSize * model.Vocab().LongestPiece()
	format := chattemplate.Config{
		Vocab: model.Vocab(), Tokenize: model.Tokenize, Source: source, ForceJinja: cfg.ChatTemplate != "", MaxText: maxText,
	}
	written, err := families.Open(format)
	if err != nil {
		return nil, err
	}
	closing, err := newClosing(model, written)
	if err != nil {
		return nil, err
	}
	stop, cancel := context.WithCancel(context.Background())
	r := &Runner{
		model: model, info: info, cfg: cfg, family: written, raw: families.Raw(format), closing: closing,
		maxText: maxText,
		reach:   &reachOf,
		cancel:  cancel, stopped: make(chan struct{}), sched: newScheduler(stop, model, &cfg), grace: grace,
	}
	r.queue = newQueue(cfg.Queue + r.sched.parallel)
	r.slots = newSlots(max(2, runtime.GOMAXPROCS(0))) // on a single processor, too, one is left for others
	r.grammars = sync.OnceValue(func() *grammar.Cache {
		return grammar.NewCache(grammar.NewVocabulary(model.Vocab(), model.Tokenize), 0)
	})
	go func() {
		defer close(r.stopped)
		r.sched.loop()
	}()
	return r, nil
}

func randomSeed() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])
}

// Info describes the model.
func (r *Runner) Info() backend.Info { return r.info }

// About describes how the model writes its turns.
func (r *Runner) About() family.About { return r.family.About() }

// Close ends all runs with ErrClosed and frees the model. Closing twice is harmless. Where a step hangs, Close
// gives up after some seconds with ErrHangs, and the model is freed when the step ends.
func (r *Runner) Close() error {
	r.once.Do(func() {
		r.cancel()
		select {
		case <-r.stopped:
		case <-time.After(3 * r.grace):
			r.closed = ErrHangs
			go func() { // should it come back after all
				<-r.stopped
				_ = r.free() // nobody is left to tell
			}()
			return
		}
		r.closed = r.free()
	})
	return r.closed
}

func (r *Runner) free() error {
	r.using.Lock()
	defer r.using.Unlock()
	return r.model.Close()
}

// Generate runs one request and yields its events: Started first, Done last. An error ends the sequence in Done's
// place: a *RequestError, a *PromptTooLongError, chattemplate's errors, ErrQueueFull, ErrClosed, the context's
// error or the backend's. Leaving the loop early cancels the run. A reader may be slow: what it has not read is
// kept, which the run's token limit bounds, and it delays nobody. A run that is traced returns when its trace has
// ended, and Done comes when it is durable.
func (r *Runner) Generate(ctx context.Context, req generation.Request) iter.Seq2[reasoning.Event, error] {
	return func(yield func(reasoning.Event, error) bool) {
		caller := ctx
		ctx, end := context.WithCancelCause(ctx)
		cancel := func() { end(context.Canceled) }
		defer cancel()
		defer context.AfterFunc(r.sched.stop, func() { end(generation.ErrClosed) })()
		ticket := r.queue.enter(req.Principal)
		if ticket == nil {
			yield(reasoning.Event{}, generation.ErrQueueFull)
			return
		}
		defer ticket.leave()
		if req.Delegates() {
			if err := r.delegate(ctx, cancel, req, func(e reasoning.Event) bool { return yield(e, nil) }); err != nil {
				yield(reasoning.Event{}, err)
			}
			return
		}
		t, err := r.prepare(ctx, req, nil)
		if err != nil {
			yield(reasoning.Event{}, err)
			return
		}
		if t.record(ctx); t.tape != nil {
			defer func() {
				cancel()
				defer r.watch(ctx, t)() // for the reader that has left before the step ends
				<-t.tape.ended
			}()
		}
		t.out.over = ticket.over
		var gone error
		err = r.drive(ctx, t, func(e *reasoning.Event) bool {
			if caller.Err() != nil {
				gone = context.Cause(caller) // the run may be over already, and its reader slow
				return false
			}
			if e.Kind == reasoning.Done && t.tape != nil {
				if warning := t.tape.outcome(e); warning != nil && !yield(*warning, nil) {
					return false
				}
			}
			return yield(*e, nil)
		})
		switch {
		case gone != nil:
			yield(reasoning.Event{}, gone)
		case err != nil && !errors.Is(err, errLeft):
			yield(reasoning.Event{}, err)
		}
	}
}

// errLeft says that nobody reads a run's events any more.
var errLeft = errors.New("the reader has left")

// drive runs a turn and shows its events until show wants no more, which is errLeft; then the context is to be
// cancelled. When the context ends, the scheduler ends the turn after the step under way; if that hangs, the turn
// ends without it.
func (r *Runner) drive(ctx context.Context, t *turn, show func(*reasoning.Event) bool) error {
	defer r.watch(ctx, t)()
	if err := r.sched.do(ctx, t.begin); err != nil {
		t.refuse(err)
		return err
	}
	var events []reasoning.Event
	for {
		var end bool
		var err error
		events, end, err = t.out.next(events, nil)
		for i := range events {
			if !show(&events[i]) {
				return errLeft
			}
		}
		if end {
			return err
		}
	}
}

// watch ends a turn some time after its context when nothing else has, until it is told to stop.
func (r *Runner) watch(ctx context.Context, t *turn) (stop func()) {
	over := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		select {
		case <-over:
		case <-time.After(r.grace):
			t.abandon(context.Cause(ctx))
		}
	})
	return func() {
		unhook()
		close(over)
	}
}

// prepare makes a turn unless the runner is closed.
func (r *Runner) prepare(ctx context.Context, req generation.Request, of *stage) (*turn, error) {
	if err := r.slots.take(ctx, req.Principal); err != nil {
		return nil, err
	}
	defer r.slots.give(req.Principal)
	r.using.RLock()
	defer r.using.RUnlock()
	if r.sched.stop.Err() != nil {
		return nil, generation.ErrClosed
	}
	return r.newTurn(ctx, req, of)
}

// Validate reports what of a request this runner cannot honour, before anything is rendered or generated.
func (r *Runner) Validate(req *generation.Request) error {
	bad := func(field, advice, format string, args ...any) error {
		return &generation.RequestError{Field: field, Err: fmt.Errorf(format, args...), Advice: advice}
	}
	switch {
	case req.IsRaw():
		if err := r.validateRaw(req); err != nil {
			return err
		}
	case len(req.Messages) == 0:
		return bad("Messages", "give at least one message", "there are none")
	case awaitsResults(req.Messages):
		return bad("Messages", "send the results of the calls", "the last message has calls that nobody has answered")
	case req.PromptLogprobs || req.PromptOnly || req.IgnoreEnd:
		return bad("Prompt", "give a raw prompt", "only the tokens of a raw prompt can be scored or continued without end")
	}
	if top := req.PromptTop; top < 0 || top > backend.MaxTopLogprobs {
		return bad("PromptTop", "", "%d is not between 0 and %d", top, backend.MaxTopLogprobs)
	}
	if req.IgnoreEnd && !req.Form.IsZero() {
		return bad("IgnoreEnd", "leave out one of both", "an answer in a form ends where the form does")
	}
	if err := req.Sampling.Validate(r.model.Vocab().Len()); err != nil {
		return bad("Sampling", "", "%w", err)
	}
	for _, f := range []struct {
		name  string
		value int
	}{{"Budget", req.Budget}, {"MaxTokens", req.MaxTokens}, {"SummaryTokens", req.SummaryTokens}} {
		if f.value < 0 {
			return bad(f.name, "", "%d is negative", f.value)
		}
	}
	if len(req.Stop) > 16 {
		return bad("Stop", "give at most 16", "%d stop strings", len(req.Stop))
	}
	for i, s := range req.Stop {
		if s == "" || len(s) > 1024 {
			return bad("Stop", "", "string %d has %d bytes; 1 to 1,024 are allowed", i, len(s))
		}
	}
	efforts := []reasoning.Effort{reasoning.EffortDefault, reasoning.EffortNone, reasoning.EffortMinimal,
		reasoning.EffortLow, reasoning.EffortMedium, reasoning.EffortHigh}
	if !slices.Contains(efforts, req.Effort) {
		return bad("Effort", "use none, minimal, low, medium or high", "%q is not an effort", req.Effort)
	}
	if req.Visibility > reasoning.VisibilityFull {
		return bad("Visibility", "use none, summary or full", "%d is not a visibility", req.Visibility)
	}
	if req.Delegates() {
		if err := validateDelegation(req); err != nil {
			return err
		}
	}
	if err := r.validateTools(req); err != nil {
		return err
	}
	_, err := r.strategy(req)
	return err
}

// awaitsResults reports whether a conversation ends with calls. A model that is asked to go on there tends to think
// aloud in text that everybody sees.
func awaitsResults(messages []chattemplate.Message) bool {
	last := lastOf(messages)
	return last != nil && last.Role == chattemplate.Assistant && len(last.ToolCalls) > 0
}

// validateRaw reports what a raw prompt cannot be combined with.
func (r *Runner) validateRaw(req *generation.Request) error {
	for _, f := range []struct {
		field string
		set   bool
	}{
		{"Messages", len(req.Messages) > 0}, {"Tools", len(req.Tools) > 0}, {"ResponseFormat", req.ResponseFormat != nil},
		{"Visibility", req.Visibility != reasoning.VisibilityNone}, {"Effort", req.Effort != reasoning.EffortDefault},
		{"Budget", req.Budget != 0},
		{"Strategy", req.Strategy != "" && req.Strategy != reasoning.StrategyAuto}, {"Score", req.Score},
		{"Rationale", req.Rationale}, {"Seal", req.Seal != nil},
		{"TemplateArgs", len(req.TemplateArgs) > 0}, {"PromptTokens", req.Prompt != "" && req.PromptTokens != nil},
	} {
		if f.set {
			return &generation.RequestError{Field: f.field, Err: errors.New("a raw prompt leaves no place for it"),
				Advice: "give messages instead of a prompt"}
		}
	}
	for i, t := range req.PromptTokens {
		if !r.model.Vocab().Valid(t) {
			return &generation.RequestError{Field: "PromptTokens", Err: tokenError{i, t, r.model.Vocab().Len()},
				Advice: "use tokens of this model"}
		}
	}
	return nil
}

// validateTools reports a choice of tools that cannot be honoured.
func (r *Runner) validateTools(req *generation.Request) error {
	bad := func(field, advice, format string, args ...any) error {
		return &generation.RequestError{Field: field, Err: fmt.Errorf(format, args...), Advice: advice}
	}
	switch req.ToolChoice {
	case "", generation.ToolChoiceAuto, generation.ToolChoiceNone:
	case generation.ToolChoiceRequired, generation.ToolChoiceFunction:
		if len(req.Tools) == 0 && !req.Delegation.Model {
			return bad("ToolChoice", "give the tools, or use auto", "a call is asked for, but there are no tools")
		}
	default:
		return bad("ToolChoice", "use auto, none, required or function", "%q is not a tool choice", req.ToolChoice)
	}
	for _, t := range req.Tools {
		if t.Name == reasoning.ReportReasoningName {
			return bad("Tools", "rename the function",
				"%s is the function of strategy tool, by which a model reports its reasoning", t.Name)
		}
	}
	named := func(t chattemplate.Tool) bool { return t.Name == req.ToolName }
	delegates := req.Delegation.Model && delegation.IsTool(req.ToolName)
	if req.ToolChoice == generation.ToolChoiceFunction && !delegates && !slices.ContainsFunc(req.Tools, named) {
		return bad("ToolName", "name one of the tools", "%q is none of the tools", req.ToolName)
	}
	return nil
}

// strategy says where the reasoning of a request comes from.
func (r *Runner) strategy(req *generation.Request) (reasoning.Strategy, error) {
	if req.IsRaw() {
		return reasoning.StrategyPosthoc, nil
	}
	marks := r.family.About().MarksReasoning
	wanted := req.Visibility != reasoning.VisibilityNone ||
		req.Effort != reasoning.EffortDefault && req.Effort != reasoning.EffortNone
	switch req.Strategy {
	case "", reasoning.StrategyAuto:
		switch {
		case marks:
			return reasoning.StrategyNative, nil
		case wanted && req.Effort != reasoning.EffortNone:
			if _, ok := jsonForm(req.Form); !ok || len(req.Tools) > 0 {
				return reasoning.StrategyMarkers, nil // an object leaves no room for them
			}
			return reasoning.StrategyJSON, nil
		default:
			return reasoning.StrategyPosthoc, nil
		}
	case reasoning.StrategyNative:
		if !marks {
			return "", &generation.RequestError{Field: "Strategy", Err: errors.New("this model does not mark its reasoning"),
				Advice: "use auto, json, tool, markers or posthoc"}
		}
		return req.Strategy, nil
	case reasoning.StrategyMarkers, reasoning.StrategyPosthoc:
		return req.Strategy, nil
	case reasoning.StrategyJSON:
		if len(req.Tools) > 0 {
			return "", &generation.RequestError{Field: "Strategy", Err: errors.New("strategy json leaves no room for tools"),
				Advice: "use auto, tool or markers"}
		}
		return req.Strategy, nil
	case reasoning.StrategyTool:
		if !r.family.About().Tools {
			return "", &generation.RequestError{Field: "Strategy", Err: errors.New("this model's format does not know tools"),
				Advice: "use auto, json or markers"}
		}
		return req.Strategy, nil
	default:
		return "", &generation.RequestError{Field: "Strategy", Err: fmt.Errorf("%q is not a strategy", req.Strategy),
			Advice: "use auto, native, json, tool, markers or posthoc"}
	}
}
