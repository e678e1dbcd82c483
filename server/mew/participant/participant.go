package participant

import (
	"context"
	"iter"
	"log/slog"
	"sync"
	"time"

	"runner/chattemplate"
	"runner/reasoning"
	"runner/runner"
	"runner/server/mew/envelope"
	"runner/server/mew/space"
)

// Conn is a connection with a space. Receive is called by one goroutine at a time, and what it returns is not
// changed; Send may be called by several.
type Conn interface {
	// Receive waits for the next message.
	Receive(ctx context.Context) ([]byte, error)
	Send(ctx context.Context, frame []byte) error
	Close() error
}

// Config says how a participant works. Generate is required; the zero value of the rest is usable.
type Config struct {
	// Generate runs one request, as [runner.Runner.Generate] does.
	Generate func(ctx context.Context, req runner.Request) iter.Seq2[reasoning.Event, error]
	// Request is what each run starts from: visibility, effort, sampling. Its messages come first in each prompt;
	// its tools are ignored.
	Request runner.Request
	// Tools, when not nil, are the functions that the model may call, in place of those that others offer. A call
	// goes to who offers a function of that name, else to everyone.
	Tools []chattemplate.Tool
	// NoTools offers the model no functions.
	NoTools bool
	// Trace, when not nil, returns what records a run that answers a question, each by another call; its id is logged.
	Trace func(question string) runner.Tracer
	// Steps is the most turns with calls in one reasoning; 0 means 8. ToolTimeout is how long an answer to a call
	// is waited for; 0 means a minute.
	Steps       int
	ToolTimeout time.Duration
	// Waiting is the most questions that wait, and WaitingEach those of one participant; 0 means 16 and 4.
	Waiting, WaitingEach int
	// History is the most messages of the space that the model is shown, and HistoryBytes the most bytes of them; 0
	// means 100 and 32 KiB.
	History, HistoryBytes int
	// Thoughts is how many thoughts a second are told, and ThoughtBurst how many at once; 0 means 5, and four times
	// as many. More are dropped, which is told.
	Thoughts, ThoughtBurst float64
	// Clock gives the time; nil means time.Now.
	Clock func() time.Time
	// NewID gives ids for messages; nil draws them.
	NewID func() string
	// Logger receives ids, counts and times; nil is silent.
	Logger *slog.Logger
}

// Participant is a model in a space. What it remembers outlives its connections. Serve and Run are for one
// goroutine at a time.
type Participant struct {
	cfg     Config
	history *history

	mu sync.Mutex
	// seen are the last messages, so that one that comes twice is handled once.
	seen   map[string]bool
	order  []string
	took   time.Duration // about how long a reasoning takes
	tokens float64       // thoughts that may be told now
	refill time.Time
}

// maxSeen is how many ids are remembered.
const maxSeen = 1024

// New returns a participant that is in no space yet.
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
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.NewID == nil {
		cfg.NewID = space.NewID
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Participant{
		cfg: cfg, history: newHistory(cfg.History, cfg.HistoryBytes), seen: map[string]bool{}, tokens: cfg.ThoughtBurst,
		refill: cfg.Clock(),
	}
}

// first reports whether a message comes for the first time. Some clients use an id again after they have joined
// again, but at another time.
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

// admit reports whether a thought may be told now.
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

// estimate is how long the next reasoning is likely to take, from those before; 0 where there were none.
func (p *Participant) estimate() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.took
}

// learn takes how long a reasoning took into the estimate.
func (p *Participant) learn(took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.took == 0 {
		p.took = took
		return
	}
	p.took += (took - p.took) / 4
}
