package participant

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"

	"runner/chattemplate"
	"runner/generation"
	"runner/reasoning"
	"runner/server/mew/envelope"
	"runner/server/mew/space"
)

// Conn is a connection to a space. Receive is called by one goroutine at a time, and its result is not changed.
// Send may be called by several goroutines at once.
type Conn interface {
	// Receive waits for the next message.
	Receive(ctx context.Context) ([]byte, error)
	Send(ctx context.Context, frame []byte) error
	Close() error
}

// Config is the configuration of a participant. Generate is required; the zero value of the rest is usable.
type Config struct {
	// Generate carries out one request.
	Generate func(context.Context, generation.Request, generation.Observer) iter.Seq2[reasoning.Event, error]
	// Request holds the defaults of each run: visibility, effort, sampling. Its messages come first in each prompt. Its
	// tools are ignored.
	Request generation.Request
	// Tools are the functions that the model may call; nil means those that others offer. A call goes to the participant
	// that offers a function of that name, or to everyone if none does.
	Tools []chattemplate.Tool
	// NoTools offers the model no functions.
	NoTools bool
	// Observe returns the observer of one run that answers a question; nil observes nothing. It is called once for each
	// run. If it traces, the id of each trace is logged.
	Observe func(question string) generation.Observer
	// Steps is the maximum number of turns with calls in one reasoning; 0 means 8. ToolTimeout is how long to wait for
	// the answers to the calls of a turn; 0 means a minute.
	Steps       int
	ToolTimeout time.Duration
	// Waiting is the maximum number of waiting questions, and WaitingEach that of one asker; 0 means 16 and 4.
	Waiting, WaitingEach int
	// History is the maximum number of the space's messages that the model sees, and HistoryBytes their maximum total
	// size; 0 means 100 and 32 KiB.
	History, HistoryBytes int
	// Thoughts is how many thoughts are sent a second, and ThoughtBurst how many at once; 0 means 5, and four times
	// Thoughts. Further thoughts are dropped and counted.
	Thoughts, ThoughtBurst float64
	// Clock gives the time; nil means time.Now.
	Clock func() time.Time
	// NewID returns ids for messages; nil means random ids.
	NewID func() string
	// Logger receives ids, counts and times; nil is silent.
	Logger *slog.Logger
}

// Participant is a model in a space. Its memory outlives its connections. Serve and Run are for one goroutine at a
// time.
type Participant struct {
	cfg     Config
	history *history

	mu sync.Mutex
	// seen are the last messages, so that a message that arrives twice is handled once.
	seen   map[string]bool
	order  []string
	took   recent[time.Duration] // how long the last answers took
	sure   recent[float64]       // the confidence that the model gave in the last answers to everyone
	tokens float64               // how many thoughts may be sent now
	refill time.Time
}

// maxSeen is the number of messages that are remembered, and maxRecent the number of figures of earlier answers.
const (
	maxSeen   = 1024
	maxRecent = 15
)

// New returns a participant that has not joined a space yet.
func New(cfg Config) *Participant {
	def := func(n *int, d int) {
		if *n <= 0 {
			*n = d
		}
	}
	def(&cfg.Steps, 8)
	def(&cfg.Waiting, 16)
	def(&cfg.WaitingEach, 4)
	def(&cfg.History, 100)
	def(&cfg.HistoryBytes, 32<<10)
	if cfg.ToolTimeout <= 0 {
		cfg.ToolTimeout = time.Minute
	}
	if cfg.Thoughts <= 0 {
		cfg.Thoughts = 5
	}
	if cfg.ThoughtBurst <= 0 {
		cfg.ThoughtBurst = 4 * cfg.Thoughts
	}
	if cfg.Observe == nil {
		cfg.Observe = func(string) generation.Observer { return generation.Unobserved{} }
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.NewID == nil {
		cfg.NewID = space.NewID
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	// A space has a place for the confidence, which only this strategy gives when it is asked for.
	cfg.Request.Score = cfg.Request.Strategy == reasoning.StrategyJSON
	return &Participant{
		cfg: cfg, history: newHistory(cfg.History, cfg.HistoryBytes), seen: map[string]bool{}, tokens: cfg.ThoughtBurst,
		refill: cfg.Clock(),
	}
}

// first reports whether a message arrives for the first time. Some clients reuse ids after they join again, but with
// another time.
func (p *Participant) first(e *envelope.Envelope) bool {
	id := e.From + "\n" + e.ID + "\n" + e.Time.String()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen[id] {
		return false
	}
	if len(p.order) == maxSeen {
		delete(p.seen, p.order[0])
		p.order = append(p.order[:0], p.order[1:]...)
	}
	p.seen[id] = true
	p.order = append(p.order, id)
	return true
}

// admit reports whether a thought may be sent now.
func (p *Participant) admit() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.cfg.Clock()
	p.tokens = min(p.cfg.ThoughtBurst, p.tokens+p.cfg.Thoughts*now.Sub(p.refill).Seconds())
	p.refill = now
	if p.tokens < 1 {
		return false
	}
	p.tokens--
	return true
}

// recent is a figure of the last answers, oldest first.
type recent[T cmp.Ordered] []T

func (r *recent[T]) add(v T) {
	*r = append(*r, v)
	*r = slices.Delete(*r, 0, max(0, len(*r)-maxRecent))
}

// median returns the median, or nil if there is no figure.
func (r recent[T]) median() *T {
	if len(r) == 0 {
		return nil
	}
	return &slices.Sorted(slices.Values(r))[(len(r)-1)/2]
}

// expect returns how long the next reasoning is likely to take and how sure the model is likely to be, judging by the
// last answers. 0 and nil mean unknown.
func (p *Participant) expect() (took time.Duration, sure *float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := p.took.median(); m != nil {
		took = *m
	}
	return took, p.sure.median()
}

// learn notes how long an answer took and, unless it is nil, how sure the model was.
func (p *Participant) learn(took time.Duration, sure *float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.took.add(took)
	if sure != nil {
		p.sure.add(*sure)
	}
}
