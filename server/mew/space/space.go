package space

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"runner/server/mew/envelope"
	"runner/server/wire"
)

// Gateway is the id of the space itself.
const Gateway = "system:gateway"

// recentIDs is the number of messages whose senders a space remembers.
const recentIDs = 4096

// Config is the configuration of a space. The zero value is usable.
type Config struct {
	// Waiting is the maximum number of messages that wait to be read by one participant, and WaitingBytes their maximum
	// total size. A participant with more is disconnected. 0 means 256 and 8 MiB.
	Waiting, WaitingBytes int
	// Rate is how many messages a second a participant may send, and Burst how many at once; 0 means 20 and 100.
	// Further messages are dropped, and after each the participant is read more slowly, see [Member.Pause].
	Rate, Burst float64
	// Over is how long messages of a participant may be dropped, one after the other, until it is disconnected; 0 means
	// 10 seconds.
	Over time.Duration
	// ReportAfter is how long after a message is dropped its sender is told; 0 means a second.
	ReportAfter time.Duration
	// Members is the maximum number of participants; 0 means 64.
	Members int
	// Clock gives the time; nil means time.Now.
	Clock func() time.Time
	// Logger receives participants' ids and counts; nil is silent.
	Logger *slog.Logger
}

// Identity says who a participant is and what it may send.
type Identity struct {
	ID           string
	Capabilities envelope.Capabilities
	// Grant is a digest of the token and the capabilities, to notice when they change. It is zero for a participant
	// without a token.
	Grant [sha256.Size]byte
}

// The reasons why a connection ends. Receive returns them. Their texts are words of the protocol.
var (
	// ErrSlow: the participant did not read its messages.
	ErrSlow = errors.New("slow_consumer")
	// ErrReplaced: the participant joined again, through another connection.
	ErrReplaced = errors.New("replaced")
	// ErrChanged: the participant's token or capabilities have changed. It may join again.
	ErrChanged = errors.New("changed")
	// ErrClosed: the space is closing.
	ErrClosed = errors.New("space_closed")
	// ErrLeft: the participant closed the connection.
	ErrLeft = errors.New("left")
	// ErrUnauthorized: the connection sent no token, or a wrong one.
	ErrUnauthorized = errors.New("unauthorized")
	// ErrLate: the connection did not send its token in time.
	ErrLate = errors.New("join_timeout")
	// ErrBinary: the participant sent a frame that is not text.
	ErrBinary = errors.New("binary_frame")
	// ErrRate: the participant kept sending more than it may.
	ErrRate = errors.New(RefusedRate)
	// ErrFull: the space has its maximum number of participants. Only Join returns it.
	ErrFull = errors.New("space_full")
)

// Space is a set of participants. Its methods may be called by several goroutines at once.
type Space struct {
	cfg Config

	mu      sync.Mutex
	closed  bool
	members map[string]*Member
	senders map[string]*sender
	recent  map[string]record
	// order is the ids in recent, oldest at next.
	order []string
	next  int
}

// record is what a space remembers of a message.
type record struct {
	from string
	// askers may cancel it: the sender, or for a reasoning/start the senders of the messages that it answers.
	askers []string
	// observers received a reasoning/start that shows its reasoning. They see the calls in it, too.
	observers []string
}

// sender is the rate limit of a participant. It outlives connections, so that reconnecting does not reset it.
type sender struct {
	level float64
	at    time.Time
	// dropped is the number of dropped messages that were not reported yet. ids are the ids of some of them.
	dropped int
	ids     []string
	kind    string
	// since is when the first message was dropped of those of which the last was dropped at last.
	since, last time.Time
}

// Times of a participant that sends more than it may.
const (
	// pause is how long its connection is not read after a message was dropped. It then waits at the socket.
	pause = 50 * time.Millisecond
	// calm is the time without a dropped message after which it may join again.
	calm = 2 * time.Second
	// brief is the length up to which a dropped message is read for the id in the report.
	brief = 16 << 10
)

// New returns an empty space.
func New(cfg Config) *Space {
	if cfg.Waiting <= 0 {
		cfg.Waiting = 256
	}
	if cfg.WaitingBytes <= 0 {
		cfg.WaitingBytes = 8 << 20
	}
	if cfg.Rate <= 0 {
		cfg.Rate = 20
	}
	if cfg.Burst <= 0 {
		cfg.Burst = 100
	}
	if cfg.Over <= 0 {
		cfg.Over = 10 * time.Second
	}
	if cfg.ReportAfter <= 0 {
		cfg.ReportAfter = time.Second
	}
	if cfg.Members <= 0 {
		cfg.Members = 64
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Space{cfg: cfg, members: map[string]*Member{}, senders: map[string]*sender{}, recent: map[string]record{}}
}

// NewID returns an id that no other message has.
func NewID() string { return wire.NewID(nil, "") }

// Refusal says why a message was not passed on.
type Refusal struct {
	envelope.Fault
	// Correlation is the id of the refused message, if it has one.
	Correlation []string
}

func (r *Refusal) Error() string { return r.Fault.Error + ": " + r.Message }

// The names of refusals.
const (
	RefusedCapability = "capability_violation"
	RefusedIdentity   = "identity_violation"
	RefusedInvalid    = "invalid_message"
	RefusedDuplicate  = "duplicate_id"
	RefusedRecipient  = "recipient_not_found"
	RefusedRate       = "rate_limited"
)

func refuse(name string, e *envelope.Envelope, format string, args ...any) *Refusal {
	r := &Refusal{Fault: envelope.Fault{Error: name, Message: fmt.Sprintf(format, args...)}}
	if e.ID != "" {
		r.Correlation = []string{e.ID}
	}
	return r
}

// Post sends a message for a participant, whether it is connected or not, and returns the message as it was sent. The
// error is a *Refusal or ErrClosed.
func (s *Space) Post(who Identity, frame []byte) (*envelope.Envelope, error) {
	e, join, err := envelope.ParseFrame(frame)
	if err == nil && join != nil {
		err = errors.New("a join is not a message")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	if !s.admit(who.ID, &e) {
		return nil, s.tooMany(&e)
	}
	if err != nil {
		return nil, refuse(RefusedInvalid, &e, "%v", err)
	}
	if r := s.accept(who, &e); r != nil {
		return nil, r
	}
	return &e, nil
}

// admit counts a message against its sender's rate. It reports false if the message is dropped.
func (s *Space) admit(id string, e *envelope.Envelope) bool {
	from := s.sender(id)
	if from.level >= 1 {
		from.level--
		return true
	}
	if from.dropped == 0 {
		time.AfterFunc(s.cfg.ReportAfter, func() { s.report(id) })
	}
	from.dropped++
	from.kind = e.Kind
	if e.ID != "" && len(from.ids) < envelope.MaxIDs {
		from.ids = append(from.ids, e.ID)
	}
	if from.at.Sub(from.last) >= calm {
		from.since = from.at
	}
	from.last = from.at
	return false
}

// sender returns what a participant may send now.
func (s *Space) sender(id string) *sender {
	now := s.cfg.Clock()
	from := s.senders[id]
	if from == nil {
		from = &sender{level: s.cfg.Burst, at: now}
		s.senders[id] = from
	}
	from.level = min(s.cfg.Burst, from.level+s.cfg.Rate*now.Sub(from.at).Seconds())
	from.at = now
	return from
}

// over reports whether too many messages of a participant were dropped. Those of a participant without a token, which
// answers others, may be.
func (s *Space) over(who *Identity) bool {
	from := s.sender(who.ID)
	return who.Grant != [sha256.Size]byte{} && from.at.Sub(from.last) < calm && from.last.Sub(from.since) >= s.cfg.Over
}

// Refuse drops the next message of a participant before it is read, if it would be dropped. It then returns a *Refusal,
// else nil.
func (s *Space) Refuse(id string) *Refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	none := &envelope.Envelope{}
	if s.sender(id).level >= 1 || s.admit(id, none) {
		return nil
	}
	return s.tooMany(none)
}

func (s *Space) tooMany(e *envelope.Envelope) *Refusal {
	return refuse(RefusedRate, e, "at most %g messages a second", s.cfg.Rate)
}

// report tells a participant which messages were dropped.
func (s *Space) report(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := s.senders[id]
	s.cfg.Logger.Warn("messages were dropped", "participant", id, "count", from.dropped)
	r := &Refusal{Correlation: from.ids, Fault: envelope.Fault{
		Error: RefusedRate, Message: fmt.Sprintf("at most %g messages a second", s.cfg.Rate), AttemptedKind: from.kind,
		Dropped: from.dropped,
	}}
	from.dropped, from.ids, from.kind = 0, nil, ""
	if m := s.members[id]; m != nil {
		s.tell(m, r)
	}
}

// accept checks a message, fills in missing fields and passes it on.
func (s *Space) accept(who Identity, e *envelope.Envelope) *Refusal {
	if e.From != "" && e.From != who.ID {
		return refuse(RefusedIdentity, e, "the token belongs to %s", who.ID)
	}
	e.From = who.ID
	if e.ID == "" {
		e.ID = NewID()
	}
	if e.Time.IsZero() {
		e.Time = s.cfg.Clock()
	}
	if err := e.Validate(); err != nil {
		return refuse(RefusedInvalid, e, "%v", err)
	}
	if !who.Capabilities.Allow(e) && !s.cancelsOwn(e) {
		r := refuse(RefusedCapability, e, "this participant may not send that")
		r.AttemptedKind = e.Kind
		mine := slices.Clone(who.Capabilities)
		if mine == nil {
			mine = envelope.Capabilities{}
		}
		r.YourCapabilities = &mine
		return r
	}
	// Some clients restart their ids each time they join, so only ids of other participants are refused.
	if r, known := s.recent[e.ID]; known && r.from != who.ID {
		return refuse(RefusedDuplicate, e, "a message of another participant has this id")
	}
	var to, observing []*Member
	observers := s.observers(e)
	for _, m := range s.members {
		if named, any := e.For(m.who.ID); named || !any && m.who.ID != who.ID {
			to = append(to, m)
		} else if slices.Contains(observers, m.who.ID) {
			observing = append(observing, m)
		}
	}
	if len(e.To) > 0 && len(to) == 0 {
		return refuse(RefusedRecipient, e, "no participant named in \"to\" is in the space")
	}
	line, err := e.Append(nil)
	if err != nil {
		return refuse(RefusedInvalid, e, "%v", err)
	}
	s.remember(e, to)
	s.push(append(to, observing...), line)
	return nil
}

// observers returns the participants that see a call without being named in it. Only the calls of the participant that
// reasons are shown, and a reasoning whose start has no message is hidden.
func (s *Space) observers(e *envelope.Envelope) []string {
	in := s.recent[e.Enclosing()]
	if in.from != e.From || e.Kind != envelope.MCPRequest && e.Kind != envelope.MCPProposal {
		return nil
	}
	return in.observers
}

// remember notes who sent a message to whom, and who may cancel it.
func (s *Space) remember(e *envelope.Envelope, to []*Member) {
	r := record{from: e.From, askers: []string{e.From}}
	if e.Kind == envelope.Start {
		r.askers = nil
		var step envelope.Step
		if e.Read(&step) && step.Message != "" {
			for _, m := range to {
				r.observers = append(r.observers, m.who.ID)
			}
		}
		for _, id := range e.Correlation {
			if trigger, ok := s.recent[id]; ok {
				r.askers = append(r.askers, trigger.from)
			}
		}
		// A participant's reasoning inside its own answers the same askers.
		if outer := s.recent[e.Enclosing()]; len(e.Correlation) == 0 && outer.from == e.From {
			r.askers = outer.askers
		}
	}
	if _, known := s.recent[e.ID]; known {
		s.recent[e.ID] = r
		return
	}
	if len(s.order) < recentIDs {
		s.order = append(s.order, e.ID)
	} else {
		delete(s.recent, s.order[s.next])
		s.order[s.next] = e.ID
		s.next = (s.next + 1) % recentIDs
	}
	s.recent[e.ID] = r
}

// cancelsOwn reports whether an envelope cancels only its sender's questions and the reasoning that answers them. That
// needs no capability.
func (s *Space) cancelsOwn(e *envelope.Envelope) bool {
	ids := e.Cancels()
	return len(ids) > 0 && !slices.ContainsFunc(ids, func(id string) bool {
		return !slices.Contains(s.recent[id].askers, e.From)
	})
}

// push queues a line for members. It removes those that have too many messages waiting.
func (s *Space) push(to []*Member, line []byte) {
	for _, m := range to {
		if s.members[m.who.ID] == m && !m.queue(line, s.cfg.Waiting, s.cfg.WaitingBytes) {
			s.cfg.Logger.Warn("a participant does not read its messages and was disconnected", "participant", m.who.ID)
			s.remove(m, ErrSlow)
		}
	}
}

// remove ends a member's connection and tells the others.
func (s *Space) remove(m *Member, why error) {
	m.end(why)
	if s.members[m.who.ID] != m {
		return
	}
	delete(s.members, m.who.ID)
	s.announce("leave", envelope.Member{ID: m.who.ID}, nil)
}

// announce tells everyone except one member who joined or left.
func (s *Space) announce(event string, who envelope.Member, but *Member) {
	line := s.system(envelope.Presence, nil, nil, envelope.Move{Event: event, Participant: who})
	var to []*Member
	for _, m := range s.members {
		if m != but {
			to = append(to, m)
		}
	}
	s.push(to, line)
}

// tell tells a member why its message was refused.
func (s *Space) tell(m *Member, r *Refusal) {
	s.push([]*Member{m}, s.system(envelope.Error, []string{m.who.ID}, r.Correlation, r.Fault))
}

// system makes a message of the space itself.
func (s *Space) system(kind string, to, correlation []string, payload any) []byte {
	body, err := envelope.Pack(payload)
	if err != nil {
		panic("space: " + err.Error()) // payloads of the space can always be encoded
	}
	e := envelope.Envelope{ID: NewID(), Time: s.cfg.Clock(), From: Gateway, To: to, Kind: kind, Correlation: correlation,
		Payload: body}
	line, err := e.Append(nil)
	if err != nil {
		panic("space: " + err.Error())
	}
	return line
}

// Close ends all connections. Nobody can join after that.
func (s *Space) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, m := range s.members {
		m.end(ErrClosed)
	}
	clear(s.members)
}
