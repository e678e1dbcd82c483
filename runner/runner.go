package runner

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"runner/backend"
	"runner/chattemplate"
	"runner/chattemplate/families"
	"runner/chattemplate/family"
	"runner/generation"
	"runner/generation/slots"
	"runner/grammar"
	"runner/reasoning"
)

// ErrHangs is the error of Close if the model's current step did not end in time. The model is freed when it ends.
var ErrHangs = errors.New("the model is stuck in a step")

// grace is how long a cancelled run waits for the current step. Close waits three times as long.
const grace = 3 * time.Second

// Runner generates with one model. Its methods may be called from any goroutine.
type Runner struct {
	model backend.Model
	info  backend.Info
	cfg   Config
	// family renders prompts, and reads and constrains what the model writes. raw does so for raw prompts.
	family, raw family.Family
	closing     closing
	// maxText is the maximum number of bytes of text that fit into the context.
	maxText int
	// reach says on which parts of the output each field of a request acts. Tests change it.
	reach *reach
	// grammars caches the forms of requests. The cache is made on the first call.
	grammars func() *grammar.Cache

	// using is read-locked while a prompt is made, because that needs the model's tokenizer. Close write-locks it.
	using sync.RWMutex
	sched *scheduler
	queue *queue
	slots *slots.Slots
	// runs counts the runs so far.
	runs atomic.Int64
	// violations counts answers that do not match their form although the form was enforced.
	violations atomic.Int64
	// maskTime is the total time spent on masks, in nanoseconds.
	maskTime atomic.Int64
	// cancel ends what the runner does, and work has its goroutines.
	cancel context.CancelFunc
	work   sync.WaitGroup
	once   sync.Once
	closed error
	grace  time.Duration
}

// New takes ownership of a model and starts to serve it. After an error the caller still owns the model.
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
	if cfg.Slots == nil {
		cfg.Slots = slots.New(0)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	info := model.Info()
	info.Key = info.Header
	if cfg.Weights != nil {
		info.Key = cfg.Weights.Key(info.Header)
	}
	info.ChatTemplate = cmp.Or(cfg.ChatTemplate, info.ChatTemplate)
	maxText := info.ContextSize * model.Vocab().LongestPiece()
	format := chattemplate.Config{
		Vocab: model.Vocab(), Tokenize: model.Tokenize, Source: info.ChatTemplate,
		ForceJinja: cfg.ChatTemplate != "", MaxText: maxText,
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
		cancel:  cancel, sched: newScheduler(stop, model, &cfg), grace: grace,
	}
	idle, end := context.WithCancel(stop)
	r.queue = newQueue(cfg.Queue+r.sched.places.most, end)
	r.slots = cfg.Slots
	r.grammars = sync.OnceValue(func() *grammar.Cache {
		return grammar.NewCache(grammar.NewVocabulary(model.Vocab(), model.Tokenize), 0)
	})
	r.work.Go(r.sched.loop)
	if cfg.MeasureCosts {
		r.work.Go(func() {
			if err := r.sched.measure(idle); err != nil && idle.Err() == nil {
				cfg.Logger.Debug("steps are not measured", "error", err)
			}
		})
	}
	return r, nil
}

func randomSeed() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])
}

// Info describes the model. Its Digest is empty until it is known.
func (r *Runner) Info() backend.Info {
	info := r.info
	if r.cfg.Weights != nil {
		info.Digest = r.cfg.Weights.Digest()
	}
	return info
}

// About describes how the model writes its turns.
func (r *Runner) About() family.About { return r.family.About() }

// Close ends all runs with ErrClosed and frees the model. A second call returns the same error. If a step hangs,
// Close gives up after some seconds and returns ErrHangs. The model is then freed when the step ends.
func (r *Runner) Close() error {
	r.once.Do(func() {
		r.cancel()
		over := make(chan struct{})
		go func() {
			r.work.Wait()
			close(over)
		}()
		select {
		case <-over:
			r.closed = r.free()
		case <-time.After(3 * r.grace):
			r.closed = ErrHangs
			go func() {
				<-over
				_ = r.free() // the caller of Close has already returned
			}()
		}
	})
	return r.closed
}

func (r *Runner) free() error {
	r.using.Lock()
	defer r.using.Unlock()
	err := r.model.Close()
	if r.cfg.Weights != nil {
		err = errors.Join(err, r.cfg.Weights.Close())
	}
	return err
}

// Generate runs one request and yields its events: Started first, Done last.
//
// If the run fails, an error comes instead of Done: a *RequestError, a *PromptTooLongError, chattemplate's errors,
// ErrQueueFull, ErrClosed, the context's error or the backend's. Leaving the loop early cancels the run.
//
// A slow reader delays no other run. Its unread events are kept; the run's token limit bounds them.
//
// If the run is traced, Done comes after the trace is durable, and the sequence ends after the trace has ended.
func (r *Runner) Generate(ctx context.Context, req generation.Request,
	o generation.Observer) iter.Seq2[reasoning.Event, error] {
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
		j := r.newJob(ctx, req, o)
		j.caller, j.cancel, j.ticket, j.yield = caller, cancel, ticket, yield
		if err := j.carryOut(); err != nil && !j.left {
			yield(reasoning.Event{}, err)
		}
	}
}

// CheckSampling returns a *RequestError for the first setting that the model's engine does not have.
func (r *Runner) CheckSampling(p *backend.Sampling) error {
	c, ok := r.model.(samplingChecker)
	if !ok {
		return nil
	}
	err := c.CheckSampling(p)
	if err == nil {
		return nil
	}
	refused := &generation.RequestError{Field: "Sampling", Err: err, Advice: "leave the setting out"}
	if s := (*backend.SettingError)(nil); errors.As(err, &s) {
		refused.Setting = s.Setting
	}
	return refused
}

// validate returns an error if a setting of a request is wrong, or if the model does not have it. It is the only check
// of settings: formats check what they read, and planning a turn finds what does not go together.
func (r *Runner) validate(req *generation.Request) error {
	bad := generation.BadField
	switch {
	case req.IsRaw():
		if err := r.validateRaw(req); err != nil {
			return err
		}
	case req.PromptLogprobs || req.PromptOnly || req.IgnoreEnd:
		return bad("Prompt", "give a raw prompt",
			"prompt logprobs, scoring without an answer and ignoring the end work only with a raw prompt")
	}
	if top := req.PromptTop; top < 0 || top > backend.MaxTopLogprobs {
		return bad("PromptTop", "", "%d is not between 0 and %d", top, backend.MaxTopLogprobs)
	}
	if req.IgnoreEnd && !req.Form.IsZero() {
		return bad("IgnoreEnd", "leave out the form, or do not ask to ignore the end",
			"an answer with a form ends where the form ends")
	}
	if err := req.Sampling.Validate(r.model.Vocab().Len()); err != nil {
		return bad("Sampling", "", "%w", err)
	}
	if err := r.CheckSampling(&req.Sampling); err != nil {
		return err
	}
	if req.PromptLogprobs && !r.model.Capabilities().Targets {
		return bad("PromptLogprobs", "leave them out", "this model's engine gives no probabilities of a prompt")
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
		return bad("Stop", "give at most 16", "there are %d stop strings", len(req.Stop))
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
	loop, err := generation.LoopOf(req, r.cfg.Loops)
	if err != nil {
		return err
	}
	var own []string
	if loop != nil {
		if own, err = loop.Check(req, r.Abilities()); err != nil {
			return err
		}
	}
	return validateTools(req, own)
}

// validateMessages returns an error if a model cannot continue a conversation. A model that continues after calls often
// writes its reasoning into visible text.
func validateMessages(messages []chattemplate.Message) error {
	switch last := lastOf(messages); {
	case last == nil:
		return generation.BadField("Messages", "give at least one message", "there are no messages")
	case last.Role == chattemplate.Assistant && len(last.ToolCalls) > 0:
		return generation.BadField("Messages", "send the results of the calls", "the last message has calls without results")
	}
	return nil
}

// validateRaw returns an error if a field cannot be combined with a raw prompt, or if a token is not in the vocabulary.
func (r *Runner) validateRaw(req *generation.Request) error {
	field := req.NotRaw()
	if field == "" && req.Prompt != "" && req.PromptTokens != nil {
		field = "PromptTokens"
	}
	if field != "" {
		return generation.BadField(field, "give messages instead of a prompt", "it does not work with a raw prompt")
	}
	for i, t := range req.PromptTokens {
		if !r.model.Vocab().Valid(t) {
			return tokenError("PromptTokens", i, t, r.model.Vocab().Len())
		}
	}
	return nil
}

// validateTools returns an error if the choice of tools cannot be carried out. own are the functions that a loop adds.
func validateTools(req *generation.Request, own []string) error {
	bad := generation.BadField
	switch req.ToolChoice {
	case "", generation.ToolChoiceAuto, generation.ToolChoiceNone:
	case generation.ToolChoiceRequired, generation.ToolChoiceFunction:
		if len(req.Tools)+len(own) == 0 {
			return bad("ToolChoice", "give the tools, or use auto", "a call is required, but there are no tools")
		}
	default:
		return bad("ToolChoice", "use auto, none, required or function", "%q is not a tool choice", req.ToolChoice)
	}
	for _, t := range req.Tools {
		if t.Name == reasoning.ReportReasoningName {
			return bad("Tools", "rename the function",
				"the name %s is reserved: with strategy tool, models call it to report their reasoning", t.Name)
		}
	}
	named := func(t chattemplate.Tool) bool { return t.Name == req.ToolName }
	if req.ToolChoice == generation.ToolChoiceFunction && !slices.Contains(own, req.ToolName) &&
		!slices.ContainsFunc(req.Tools, named) {
		return bad("ToolName", "name one of the tools", "there is no tool %q", req.ToolName)
	}
	return nil
}

// strategy returns where the reasoning of a request comes from.
func (r *Runner) strategy(req *generation.Request) (reasoning.Strategy, error) {
	if req.IsRaw() {
		return reasoning.StrategyPosthoc, nil
	}
	bad := func(advice, format string, args ...any) error {
		return generation.BadField("Strategy", advice, format, args...)
	}
	marks := r.family.About().MarksReasoning
	switch {
	case req.Continues && marks:
		return reasoning.StrategyNative, nil
	case req.Continues:
		return reasoning.StrategyPosthoc, nil
	}
	wanted := req.Visibility != reasoning.VisibilityNone ||
		req.Effort != reasoning.EffortDefault && req.Effort != reasoning.EffortNone
	switch req.Strategy {
	case "", reasoning.StrategyAuto:
		switch {
		case marks:
			return reasoning.StrategyNative, nil
		case wanted && req.Effort != reasoning.EffortNone:
			if _, ok := jsonForm(req.Form); !ok || len(req.Tools) > 0 {
				return reasoning.StrategyMarkers, nil // strategy json supports neither tools nor GBNF
			}
			return reasoning.StrategyJSON, nil
		default:
			return reasoning.StrategyPosthoc, nil
		}
	case reasoning.StrategyNative:
		if !marks {
			return "", bad("use auto, json, tool, markers or posthoc", "this model does not mark its reasoning")
		}
		return req.Strategy, nil
	case reasoning.StrategyMarkers, reasoning.StrategyPosthoc:
		return req.Strategy, nil
	case reasoning.StrategyJSON:
		if len(req.Tools) > 0 {
			return "", bad("use auto, tool or markers", "strategy json does not work with tools")
		}
		return req.Strategy, nil
	case reasoning.StrategyTool:
		if !r.family.About().Tools {
			return "", bad("use auto, json or markers", "this model's format has no tools")
		}
		return req.Strategy, nil
	default:
		return "", bad("use auto, native, json, tool, markers or posthoc", "%q is not a strategy", req.Strategy)
	}
}
