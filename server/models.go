package server

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"slices"
	"sync"
	"time"

	"runner/chattemplate"
	"runner/generation"
	"runner/reasoning"
	"runner/server/pool"
	"runner/server/wire"
)

// Use implements [wire.Models].
func (s *Server) Use(ctx context.Context, name string) (wire.Model, error) {
	card, ok := s.find(wire.PrincipalOf(ctx), name)
	if !ok {
		return nil, noModel(name)
	}
	work := &noteOf(ctx).work
	work.end() // the model may have to be loaded
	r, release, err := s.cfg.Pool.Use(ctx, card.Name)
	if err != nil {
		return nil, s.poolError(ctx, card.Name, err)
	}
	if err := work.resume(ctx); err != nil {
		release()
		return nil, wire.FromError(err, nil)
	}
	return &model{Loaded: r, server: s, card: s.describe(card, r), release: release}, nil
}

// Unload implements [wire.Models].
func (s *Server) Unload(ctx context.Context, name string) error {
	p := wire.PrincipalOf(ctx)
	card, ok := s.find(p, name)
	switch {
	case !ok:
		return noModel(name)
	case !p.May(wire.ScopeModels):
		return p.Lacks(wire.ScopeModels)
	}
	noteOf(ctx).work.end()
	if err := s.cfg.Pool.Unload(ctx, card.Name); err != nil {
		return s.poolError(ctx, card.Name, err)
	}
	return nil
}

func noModel(name string) *wire.Error {
	return wire.Errorf(wire.CodeModel, "there is no model %.100q that you may use; GET /v1/models lists the models",
		name).At("model")
}

// poolError returns the error for a request that cannot get its model.
func (s *Server) poolError(ctx context.Context, name string, err error) *wire.Error {
	switch {
	case errors.Is(err, generation.ErrClosed):
		return wire.FromError(wire.ErrDraining, nil)
	case !isPools(err) && ctx.Err() != nil:
		return wire.FromError(context.Cause(ctx), nil)
	case !isPools(err) && !errors.Is(err, pool.ErrChanged):
		s.logFailure("a model could not be loaded", name, err)
	}
	return withoutModel(err)
}

// isPools reports whether an error is the pool's own and says nothing about the model.
func isPools(err error) bool {
	return errors.Is(err, pool.ErrNoMemory) || errors.Is(err, pool.ErrBroken)
}

// withoutModel returns the error for requests while a model cannot be had because of err, an error of the pool.
func withoutModel(err error) *wire.Error {
	e := wire.Errorf(wire.CodeModelUnusable, "the model could not be loaded; the server's log says why").
		At("model").Because(err)
	switch {
	case errors.Is(err, pool.ErrNoMemory):
		e.Code, e.Message, e.RetryAfter = wire.CodeQueue, pool.ErrNoMemory.Error()+"; try again soon", 5*time.Second
	case errors.Is(err, pool.ErrChanged), errors.Is(err, generation.ErrOtherModel),
		errors.Is(err, generation.ErrUnavailable):
		return wire.FromError(err, map[string]string{"Model": "model"})
	case errors.Is(err, pool.ErrBroken):
		e.Message, e.RetryAfter = pool.ErrBroken.Error()+"; it is loaded again soon, and the server's log says more",
			5*time.Second
	}
	return e
}

// List implements [wire.Models].
func (s *Server) List(ctx context.Context) []wire.Card {
	p := wire.PrincipalOf(ctx)
	var cards []wire.Card
	for _, c := range s.cards {
		if p.MayUse(c.Name) {
			cards = append(cards, s.describe(c, s.cfg.Pool.Loaded(c.Name)))
		}
	}
	return cards
}

// Find implements [wire.Models].
func (s *Server) Find(ctx context.Context, name string) (wire.Card, bool) {
	c, ok := s.find(wire.PrincipalOf(ctx), name)
	if !ok {
		return c, false
	}
	return s.describe(c, s.cfg.Pool.Loaded(c.Name)), true
}

// find returns the model called name, by its own name, by an alias, or by a name that a client gave it, or else the
// only one with the name in another case. An empty name means the first model that the principal may use.
func (s *Server) find(p *wire.Principal, name string) (wire.Card, bool) {
	cards := slices.DeleteFunc(slices.Clone(s.cards), func(c wire.Card) bool { return !p.MayUse(c.Name) })
	i := wire.Named(cards, name)
	if name == "" {
		i = 0
	}
	for a := range s.cfg.Aliases {
		if alias := &s.cfg.Aliases[a]; i < 0 && alias.Matches(name) {
			i = wire.Named(cards, alias.Model)
			break
		}
	}
	for _, n := range s.namers {
		if i >= 0 {
			break // a namer may have to read a file
		}
		if to, ok := n.Named(name); ok {
			i = wire.Named(cards, to)
		}
	}
	if i < 0 {
		i = wire.Folded(cards, name)
	}
	if i < 0 || i >= len(cards) {
		return wire.Card{}, false
	}
	return cards[i], true
}

// describe adds to a card what is known of the loaded model r, which may be nil.
func (s *Server) describe(c wire.Card, r wire.Loaded) wire.Card {
	if r == nil {
		return c
	}
	info := r.Info()
	c.Loaded, c.Context, c.Digest, c.Family, c.Parameters, c.Quantization = true, info.ContextSize, info.Digest,
		info.Architecture, info.Parameters, info.Quantization
	c.Expires, c.GPULayers = s.cfg.Pool.Expires(c.Name), info.GPULayers
	if c.Size == 0 {
		c.Size = info.Bytes
	}
	return c
}

// model is a loaded model while a request holds it. It adds limits, accounts and metrics. The request's work is ended
// while the model works or takes a slot.
type model struct {
	wire.Loaded
	server  *Server
	card    wire.Card
	release func()
}

func (m *model) Card() wire.Card { return m.card }
func (m *model) Release()        { m.release() }

// Generate implements [wire.Model].
func (m *model) Generate(ctx context.Context, req generation.Request,
	o generation.Observer) iter.Seq2[reasoning.Event, error] {
	return func(yield func(reasoning.Event, error) bool) {
		s := m.server
		p := wire.PrincipalOf(ctx)
		shown := req.Visibility
		if req.Prompt != "" || req.PromptTokens != nil {
			shown = reasoning.VisibilityFull // what the model writes is not taken apart
		}
		if err := shown.Cap(p.Reasoning); err != nil {
			yield(reasoning.Event{}, err)
			return
		}
		req.Principal, req.MaySee = p.ID, p.Reasoning
		said := noteOf(ctx)
		said.work.end()
		defer s.cfg.Slots.Run(p.ID)()
		first := said.begins()
		if wait := s.limits.spent(p.ID); first && wait > 0 {
			yield(reasoning.Event{}, overRate("tokens", wait))
			return
		}
		ctx, limit, cancel := s.limited(ctx, time.Now())
		defer cancel()
		run := &meter{Observer: o, model: m, principal: p.ID, said: said, cost: charge{asked: req.MaxTokens}, limit: limit}
		content := s.contentLog(ctx, &req)
		for e, err := range m.Loaded.Generate(ctx, req, run) {
			if err == nil && e.Kind == reasoning.Started && run.cost.prompt == 0 {
				run.cost.prompt = e.Info.Prompt
				if wait := s.limits.begin(p.ID, first, &run.cost); wait > 0 {
					e, err = reasoning.Event{}, overRate("tokens", wait)
				}
			}
			switch {
			case err != nil:
				s.metrics.runs.WithLabelValues(m.card.Name, outcome(err)).Inc()
				said.failed(err)
				s.explain("a run failed", m.card.Name, err)
			case e.Kind == reasoning.Warning:
				s.metrics.warnings.WithLabelValues(m.card.Name, e.Code).Inc()
			case e.Kind == reasoning.Done:
				s.metrics.finished(m.card.Name, e.Result)
			}
			content.push(e)
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// meter observes a run, to count what it uses. The time in which it is paused does not count.
type meter struct {
	generation.Observer
	model     *model
	principal string
	said      *note
	cost      charge
	limit     *timeLimit
}

// Generated implements [generation.Observer].
func (m *meter) Generated() { m.cost.generated.Add(1) }

// Account implements [generation.Observer].
func (m *meter) Account(u reasoning.Usage) {
	s := m.model.server
	s.limits.end(m.principal, &m.cost, u.Prompt+u.Completion+u.Summary)
	s.metrics.used(m.model.card.Name, u)
	s.usage.count(m.principal, u)
	m.said.count(u)
}

// Paused implements [generation.Observer].
func (m *meter) Paused(paused bool) { m.limit.pause(paused) }

// Tokenize implements [wire.Tokenizer].
func (m *model) Tokenize(ctx context.Context, principal, text string, special bool) (tokens []generation.Token,
	err error) {
	err = noteOf(ctx).work.apart(ctx, func() error {
		tokens, err = m.Loaded.Tokenize(ctx, principal, text, special)
		return err
	})
	return tokens, err
}

// Prompt implements [wire.Checker]. It shows the prompt that the principal of ctx would get.
func (m *model) Prompt(ctx context.Context, principal string, req generation.Request) (p chattemplate.Prompt,
	err error) {
	req.MaySee = wire.PrincipalOf(ctx).Reasoning
	err = noteOf(ctx).work.apart(ctx, func() error {
		p, err = m.Loaded.Prompt(ctx, principal, req)
		return err
	})
	return p, err
}

// Embed implements [wire.Model].
func (m *model) Embed(ctx context.Context, tokens []generation.Token) (vector []float32, err error) {
	err = noteOf(ctx).work.apart(ctx, func() error {
		vector, err = m.embed(ctx, tokens)
		return err
	})
	return vector, err
}

func (m *model) embed(ctx context.Context, tokens []generation.Token) ([]float32, error) {
	said, id, cost := noteOf(ctx), wire.PrincipalOf(ctx).ID, &charge{prompt: len(tokens)}
	if wait := m.server.limits.begin(id, said.begins(), cost); wait > 0 {
		return nil, overRate("tokens", wait)
	}
	used := reasoning.Usage{}
	defer func() { m.server.limits.end(id, cost, used.Prompt) }()
	since, err := said.enter(m.Loaded, id)
	if err != nil {
		return nil, err
	}
	ctx, _, cancel := m.server.limited(ctx, since)
	defer cancel()
	vector, err := m.Loaded.Embed(ctx, id, tokens)
	if err != nil {
		m.server.explain("an embedding failed", m.card.Name, err)
		return nil, err
	}
	used.Prompt = len(tokens)
	m.server.metrics.used(m.card.Name, used)
	m.server.usage.count(id, used)
	said.count(used)
	return vector, nil
}

// limited returns a context that ends RequestTimeout after began, and when the server stops. It is for one run or for
// all embeddings of a request. The time limit can be paused.
func (s *Server) limited(ctx context.Context, began time.Time) (context.Context, *timeLimit, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(s.cut, func() { cancel(wire.ErrDraining) })
	limit := &timeLimit{left: s.cfg.RequestTimeout - time.Since(began), since: time.Now()}
	if s.cfg.RequestTimeout > 0 {
		if limit.left <= 0 {
			cancel(wire.ErrTimeout) // at once, so that nothing more starts
		}
		limit.timer = time.AfterFunc(limit.left, func() { cancel(wire.ErrTimeout) })
	}
	return ctx, limit, func() {
		unhook()
		limit.end()
		cancel(nil)
	}
}

// timeLimit ends a context some time later. The time in which it is paused does not count. Its methods may be called by
// several goroutines at once.
type timeLimit struct {
	mu sync.Mutex
	// timer is nil without a limit. left is the time that was left since then.
	timer *time.Timer
	left  time.Duration
	since time.Time
	// paused means that the timer does not run. It never runs again after end.
	paused, ended bool
}

func (l *timeLimit) pause(paused bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer == nil || l.ended || paused == l.paused {
		return
	}
	l.paused = paused
	if !paused {
		l.since = time.Now()
		l.timer.Reset(l.left)
	} else if l.timer.Stop() {
		l.left -= time.Since(l.since)
	}
}

func (l *timeLimit) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended = true; l.timer != nil {
		l.timer.Stop()
	}
}

// explain logs an error if its answer only says that the log has the details. Such errors contain nothing of the
// request. If the model may be the reason, its health is checked.
func (s *Server) explain(what, model string, err error) {
	switch wire.FromError(err, nil).Code {
	case wire.CodeInternal, wire.CodeModelUnusable, wire.CodeUnavailable:
		s.logFailure(what, model, err)
		s.health.suspect()
	case wire.CodeModelChanged:
		s.health.suspect()
	}
}

// outcome returns the label of a failed run for the metrics.
func outcome(err error) string {
	switch e := wire.FromError(err, nil); {
	case e.Code == wire.CodeClientCancelled:
		return "cancelled"
	case e.Status >= http.StatusInternalServerError:
		return "failed"
	}
	return "refused"
}

// note collects what the log line of a request says about its runs.
type note struct {
	mu sync.Mutex
	// begun says that the request has started a run or an embedding.
	begun              bool
	runs               int
	prompt, completion int
	// code is the code of the error that ended a run.
	code string
	// left gives back the request's place in the queue of a model that embeds for it; nil if it has none. entered is when
	// it got the place.
	left    func()
	entered time.Time
	// work is the request's use of the processor beside its model.
	work work
}

type noteKey struct{}

// noteOf returns the note of the request of ctx, or an unused one if there is none.
func noteOf(ctx context.Context) *note {
	if n, ok := ctx.Value(noteKey{}).(*note); ok {
		return n
	}
	return new(note)
}

// begins records that a run starts, and reports whether it is the request's first.
func (n *note) begins() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	first := !n.begun
	n.begun = true
	return first
}

// failed records the error that ended a run.
func (n *note) failed(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.code = wire.FromError(err, nil).Code
}

// enter takes a place in a model's queue for all that the request embeds, unless it has one, and returns when it got
// the place. leave gives it back.
func (n *note) enter(r wire.Loaded, principal string) (since time.Time, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.left == nil {
		n.left, err = r.Enter(principal)
		n.entered = time.Now()
	}
	return n.entered, err
}

func (n *note) leave() {
	n.work.close()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.left != nil {
		n.left()
		n.left = nil
	}
}

func (n *note) count(u reasoning.Usage) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.runs++
	n.prompt += u.Prompt
	n.completion += u.Completion
}
