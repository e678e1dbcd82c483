package participant

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"runner/server/mew/envelope"
)

// sendTimeout is the time limit for sending one message.
const sendTimeout = 10 * time.Second

// session is a participant's time on one connection.
type session struct {
	p    *Participant
	conn Conn
	stop context.CancelCauseFunc

	// sending is held while a message is sent, so that a cancelled reasoning sends nothing more. It also guards unopened,
	// the stream that the space was asked for and has not opened yet.
	sending  sync.Mutex
	unopened *stream

	mu           sync.Mutex
	id, gateway  string
	capabilities envelope.Capabilities
	others       map[string]envelope.Capabilities
	offers       map[string][]offer
	pending      map[string]*pending
	waiting      []*envelope.Envelope
	active       *active
	wake         chan struct{}
	refused      *refusals
}

// active is the question that is being answered.
type active struct {
	trigger *envelope.Envelope
	// to are the recipients of the answer; empty means everyone.
	to []string
	// said is what was said in the space before, and heard what others have said in the context since.
	said, heard *history
	// starts are the ids of the reasoning/start messages sent for it. Specialists have their own.
	starts []string
	// stream has the thoughts that were held back; nil if none was asked for.
	stream *stream
	// over says that generating has ended, so that messages about the end are sent even if it was cancelled.
	over bool
	// remember puts the question and its reply into the history, once. It belongs to the goroutine that answers.
	remember func(reply string)

	ctx    context.Context
	cancel context.CancelCauseFunc
}

// cancelled is the cause if a message cancelled an answer. by is the message's id.
type cancelled struct{ by string }

func (c *cancelled) Error() string { return "cancelled" }

// errLost is the cause if an answer ends because the connection is lost.
var errLost = errors.New("the connection is lost")

// Serve takes part in a space through conn until ctx or the connection ends, and closes conn. The end of ctx is not an
// error. Questions that are unanswered by then stay so. welcomed says that the space let the participant in.
func (p *Participant) Serve(ctx context.Context, conn Conn) (welcomed bool, err error) {
	work, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	s := &session{
		p: p, conn: conn, stop: stop, others: map[string]envelope.Capabilities{}, offers: map[string][]offer{},
		pending: map[string]*pending{}, wake: make(chan struct{}, 1), refused: newRefusals(),
	}
	var worker sync.WaitGroup
	worker.Go(func() { s.work(work) })
	worker.Go(func() { s.refuse(work) })
	for {
		var frame []byte
		if frame, err = conn.Receive(work); err != nil {
			break
		}
		s.handle(frame)
	}
	if errors.Is(err, context.Canceled) {
		err = context.Cause(work) // it may be that a message could not be sent
	}
	if ctx.Err() != nil {
		err = nil // the worker sees the end of ctx and cancels its reasoning
	} else {
		stop(errLost)
	}
	worker.Wait()
	_ = conn.Close() // its error makes no difference now
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id != "", err
}

// send sends a message.
func (s *session) send(e *envelope.Envelope) error {
	line, err := e.Append(nil)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), sendTimeout)
	defer cancel()
	return s.conn.Send(ctx, line)
}

// reply sends a message of this participant and returns it, or nil if it is not allowed.
func (s *session) reply(kind string, to, correlation []string, path string, payload any) *envelope.Envelope {
	body, err := envelope.Pack(payload)
	if err != nil {
		return nil // never: all payloads can be encoded
	}
	s.mu.Lock()
	e := &envelope.Envelope{
		ID: s.p.cfg.NewID(), Time: s.p.cfg.Clock(), From: s.id, To: to, Kind: kind, Correlation: correlation, Context: path,
		Payload: body,
	}
	allowed := s.capabilities.Allow(e)
	s.mu.Unlock()
	if !allowed {
		return nil
	}
	if err := s.send(e); err != nil {
		s.stop(errLost)
	}
	return e
}

// may reports whether the participant may send a message.
func (s *session) may(e *envelope.Envelope) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.capabilities.Allow(e)
}

// handle handles a message. It ignores those that are malformed, spoofed or not for this participant.
func (s *session) handle(frame []byte) {
	e, err := envelope.Parse(frame)
	if err != nil || e.ID == "" || e.From == "" || e.Kind == "" {
		s.p.cfg.Logger.Debug("a malformed message was ignored", "bytes", len(frame))
		return
	}
	s.mu.Lock()
	id, gateway := s.id, s.gateway
	s.mu.Unlock()
	named, any := e.For(id)
	switch {
	case e.Kind == envelope.Welcome && (gateway == "" || e.From == gateway && named):
		s.welcome(&e)
	case id == "" || e.From == id || any && !named || !s.genuine(&e):
		s.p.cfg.Logger.Debug("a message was ignored", "kind", e.Kind)
	case !s.p.first(&e):
	case e.Kind == envelope.Presence:
		s.presence(&e)
	case e.Kind == envelope.Error:
		s.failed(&e)
	case e.Kind == envelope.Chat:
		s.chat(&e)
	case e.Kind == envelope.Thought:
		if text := e.ReadThought(); text != "" {
			s.hear(&e, entry{from: e.From, text: text, thought: true})
		}
	case e.Kind == envelope.Cancel, e.Kind == envelope.ChatCancel:
		s.cancel(&e)
	case e.Kind == envelope.MCPRequest:
		s.requested(&e, named)
	case e.Kind == envelope.MCPResponse:
		s.responded(&e)
	case e.Kind == envelope.MCPReject:
		s.rejected(&e)
	case e.Kind == envelope.StreamOpen:
		s.opened(&e)
	case e.Kind == envelope.StreamClose:
		s.closed(&e)
	}
}

// genuine reports whether a message is from the space, if only the space sends messages of its kind, and otherwise from
// a participant.
func (s *session) genuine(e *envelope.Envelope) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case strings.HasPrefix(e.Kind, "system/"):
		return e.From == s.gateway
	case e.Kind == envelope.StreamOpen, e.Kind == envelope.StreamClose:
		_, taken := s.others[gatewayName]
		return e.From == s.gateway || e.From == gatewayName && !taken
	}
	return e.From != s.gateway
}

// hear adds what another participant said to the history, and to the next turn of the answer that it is about.
func (s *session) hear(e *envelope.Envelope, said entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if alone(e, s.id) {
		said.with = e.From
	}
	s.p.history.add(said)
	if a := s.active; a != nil && a.contains(e) {
		a.heard.add(said)
	}
}

// contains reports whether a message is in the reasoning that answers the question, or in the context of the question.
func (a *active) contains(e *envelope.Envelope) bool {
	outer := a.trigger.Context
	return outer != "" && strings.HasPrefix(e.Context+"/", outer+"/") ||
		slices.ContainsFunc(strings.Split(e.Context, "/"), func(id string) bool { return slices.Contains(a.starts, id) })
}

// welcome learns the participant's own id and who is there. It also arrives when capabilities change.
func (s *session) welcome(e *envelope.Envelope) {
	var a envelope.Arrival
	if !e.Read(&a) || !envelope.ValidID(a.You.ID) {
		return
	}
	s.mu.Lock()
	s.id, s.gateway, s.capabilities = a.You.ID, e.From, a.You.Capabilities
	clear(s.others)
	for _, m := range a.Participants {
		if m.ID != s.id {
			s.others[m.ID] = m.Capabilities
		}
	}
	s.mu.Unlock()
	s.p.cfg.Logger.Info("joined", "participant", a.You.ID, "others", len(a.Participants))
	for _, m := range a.Participants {
		s.discover(m.ID)
	}
}

// presence learns who joined or left.
func (s *session) presence(e *envelope.Envelope) {
	var m envelope.Move
	if !e.Read(&m) || m.Participant.ID == s.id {
		return
	}
	id := m.Participant.ID
	switch m.Event {
	case "join":
		s.mu.Lock()
		s.others[id] = m.Participant.Capabilities
		s.mu.Unlock()
		s.discover(id)
	case "leave":
		s.mu.Lock()
		delete(s.others, id)
		delete(s.offers, id)
		s.mu.Unlock()
		s.left(id)
	}
}

// asks reports whether a chat is a question for this participant.
func (s *session) asks(e *envelope.Envelope) bool {
	named, _ := e.For(s.id)
	return named || e.Context == "" && len(e.Correlation) == 0
}

// chat queues a question and adds other chats to the history.
func (s *session) chat(e *envelope.Envelope) {
	var said envelope.ChatText
	if !e.Read(&said) || strings.TrimSpace(said.Text) == "" {
		return
	}
	if !s.asks(e) {
		s.hear(e, entry{from: e.From, text: said.Text})
		return
	}
	s.mu.Lock()
	theirs := 0
	for _, w := range s.waiting {
		if w.From == e.From {
			theirs++
		}
	}
	full := len(s.waiting) >= s.p.cfg.Waiting || theirs >= s.p.cfg.WaitingEach
	if !full {
		s.waiting = append(s.waiting, e)
	}
	s.mu.Unlock()
	if full {
		s.refused.add(e.From, e.ID)
		return
	}
	s.signal()
}

func (s *session) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// cancel cancels the questions that a cancel names, whether they are waiting or being answered. Only their askers and
// holders of reasoning/cancel may do so.
func (s *session) cancel(e *envelope.Envelope) {
	names := e.Cancels()
	s.sending.Lock() // nothing is sent until the cancellation is done
	defer s.sending.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	holds := s.others[e.From].Allow(&envelope.Envelope{Kind: envelope.Cancel, Payload: e.Payload})
	s.waiting = slices.DeleteFunc(s.waiting, func(w *envelope.Envelope) bool {
		return slices.Contains(names, w.ID) && (holds || w.From == e.From)
	})
	if a := s.active; a != nil && (holds || a.trigger.From == e.From) &&
		(slices.Contains(names, a.trigger.ID) || slices.ContainsFunc(a.starts, func(id string) bool {
			return slices.Contains(names, id)
		})) {
		a.cancel(&cancelled{e.ID})
	}
}

// work answers questions, one after another.
func (s *session) work(ctx context.Context) {
	for {
		s.mu.Lock()
		var e *envelope.Envelope
		if len(s.waiting) > 0 && ctx.Err() == nil {
			e = s.waiting[0]
			s.waiting = s.waiting[1:]
			a := &active{trigger: e, said: s.p.history.copy(), heard: newHistory(maxHeard, maxHeardBytes)}
			a.ctx, a.cancel = context.WithCancelCause(ctx)
			s.active = a
		}
		a := s.active
		s.mu.Unlock()
		if e != nil {
			s.answer(a)
			s.mu.Lock()
			s.active = nil
			s.mu.Unlock()
			a.cancel(nil)
			continue
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return
		}
	}
}
