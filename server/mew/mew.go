package mew

import (
	"context"
	"embed"
	"errors"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"runner/generation"
	"runner/generation/slots"
	"runner/reasoning"
	"runner/server/keys"
	"runner/server/mew/envelope"
	"runner/server/mew/participant"
	"runner/server/mew/space"
	"runner/server/wire"
)

// Config is the configuration of the format. Tokens is required.
type Config struct {
	// Tokens are the participants that may connect.
	Tokens *Tokens
	// Space is the name of the space; empty means local.
	Space string
	// Request holds the defaults of each run of the model: visibility, sampling, strategy.
	Request generation.Request
	// Connections is the maximum number of open connections of one token; 0 means 4. Only the newest takes part. Older
	// ones count until both sides have closed them.
	Connections int
	// Traces keeps a trace of each run of the model; nil keeps none.
	Traces wire.Traces
	// Thoughts is the maximum number of thoughts that the model sends a second; 0 means 5.
	Thoughts float64
	// JoinTimeout is how long a connection may take to send its token; 0 means 10 seconds.
	JoinTimeout time.Duration
	// Slots are those that requests share while they are read and prepared. Nil makes some for the space alone.
	Slots *slots.Slots
	// Limits are the limits of the space. New sets its Clock and Logger.
	Limits space.Config
	// Clock gives the time; nil means time.Now. It may be called by several goroutines at once.
	Clock func() time.Time
	// Logger receives ids and counts; nil is silent.
	Logger *slog.Logger
}

// API is the format. Its methods may be called by several goroutines at once.
type API struct {
	cfg   Config
	space *space.Space
	// closing is done when the space closes. stop cancels it, which also ends the model's part. left is closed when the
	// model has left.
	closing context.Context
	stop    context.CancelFunc
	left    chan struct{}
	// joining holds one item for each connection that has not sent its token.
	joining chan struct{}

	mu     sync.Mutex
	closed bool
	// open counts the connections, and ended is closed when the space is closed and none is left.
	open  int
	ended chan struct{}
	// connected counts the open connections of each participant.
	connected map[string]int
}

var _ wire.Format = (*API)(nil)

// The times and limits of connections.
const (
	writeTimeout = 10 * time.Second
	pingEvery    = 30 * time.Second
	maxJoining   = 32
)

// principal is the owner of the model's runs. No API key can have this id.
const principal = "mew space"

// AgentCapabilities returns what a model must be allowed to send. It may not cancel the reasoning of others.
func AgentCapabilities() envelope.Capabilities {
	return envelope.Capabilities{
		{Kind: envelope.Chat}, {Kind: envelope.Start}, {Kind: envelope.Thought}, {Kind: envelope.Conclusion},
		{Kind: envelope.MCPRequest}, {Kind: envelope.MCPResponse},
	}
}

// New opens a space. The default model of models takes part in it until Close.
func New(models wire.Models, cfg Config) *API {
	if cfg.Space == "" {
		cfg.Space = "local"
	}
	if cfg.JoinTimeout <= 0 {
		cfg.JoinTimeout = 10 * time.Second
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Connections <= 0 {
		cfg.Connections = 4
	}
	if cfg.Slots == nil {
		cfg.Slots = slots.New(0)
	}
	cfg.Limits.Clock, cfg.Limits.Logger = cfg.Clock, cfg.Logger
	a := &API{
		cfg: cfg, space: space.New(cfg.Limits), left: make(chan struct{}), joining: make(chan struct{}, maxJoining),
		connected: map[string]int{}, ended: make(chan struct{}),
	}
	a.closing, a.stop = context.WithCancel(context.Background())
	// The operator's defaults decide how much reasoning the space sees.
	who := &wire.Principal{ID: principal, Scopes: wire.Scopes(nil), Reasoning: cfg.Request.Visibility}
	ctx := wire.WithPrincipal(a.closing, who)
	part := participant.Config{
		Generate: generate(models), Request: cfg.Request, Thoughts: cfg.Thoughts, Clock: cfg.Clock, Logger: cfg.Logger,
	}
	if cfg.Traces != nil {
		part.Observe = func(question string) generation.Observer { return cfg.Traces.Tracer(principal, "--trace", question) }
	}
	p := participant.New(part)
	// The model may also send reasoning/cancel, but sends it only for its own reasoning.
	model := space.Identity{ID: LocalID, Capabilities: append(AgentCapabilities(),
		envelope.Capability{Kind: envelope.Cancel})}
	// The model joins before anybody can ask something, so that it misses no question.
	member, _ := a.space.Join(model) // an empty space refuses nobody
	go func() {
		defer close(a.left)
		err := p.Run(ctx, func(context.Context) (participant.Conn, error) {
			if first := member; first != nil {
				member = nil
				return first, nil
			}
			return a.space.Join(model)
		})
		if err != nil {
			cfg.Logger.Error("the model left the space", "error", err)
		}
	}()
	return a
}

// Source returns the participants' tokens. Participants that were removed or changed are disconnected.
func (a *API) Source() keys.Source {
	return keys.Source{Name: "the participants' tokens", Len: a.cfg.Tokens.Len,
		Reread: func(unchanged bool) (changed bool, err error) {
			if changed, err = a.cfg.Tokens.Reread(unchanged); changed {
				a.space.Expel(a.check)
			}
			return changed, err
		}}
}

// check returns why a participant may not stay, or nil.
func (a *API) check(who space.Identity) error {
	if who.ID == LocalID {
		return nil // it has no token
	}
	return a.cfg.Tokens.check(who)
}

// generate runs requests with the default model.
func generate(models wire.Models) func(context.Context, generation.Request,
	generation.Observer) iter.Seq2[reasoning.Event, error] {
	return func(ctx context.Context, req generation.Request, o generation.Observer) iter.Seq2[reasoning.Event, error] {
		return func(yield func(reasoning.Event, error) bool) {
			m, err := models.Use(ctx, "")
			if err != nil {
				yield(reasoning.Event{}, err)
				return
			}
			defer m.Release()
			m.Generate(ctx, req, o)(yield)
		}
	}
}

// Close ends the model's part and all connections. It returns when ctx ends, even if they have not ended.
func (a *API) Close(ctx context.Context) {
	a.mu.Lock()
	if !a.closed && a.open == 0 {
		close(a.ended)
	}
	a.closed = true
	a.mu.Unlock()
	a.stop()
	select {
	case <-a.left:
	case <-ctx.Done():
	}
	a.space.Close()
	select {
	case <-a.ended:
	case <-ctx.Done():
	}
}

// enter counts a connection. It reports false if the space is closed.
func (a *API) enter() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.closed {
		a.open++
	}
	return !a.closed
}

// leave uncounts a connection that enter counted.
func (a *API) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open--; a.closed && a.open == 0 {
		close(a.ended)
	}
}

//go:embed openapi
var description embed.FS

// OpenAPI returns the description of the format, see package openapi.
func (*API) OpenAPI() fs.FS { return description }

// Routes lists the endpoints.
func (a *API) Routes() []wire.Route {
	return []wire.Route{
		{Method: http.MethodGet, Path: "/ws", Scope: wire.ScopeOwn, Handle: a.connect},
		{Method: http.MethodPost, Path: "/participants/{id}/messages", Scope: wire.ScopeOwn, Free: true,
			MaxBody: envelope.MaxSize, Handle: a.post},
	}
}

// ErrorResponse is the answer to a refused request. For a refused message it has the fields of a system/error.
//
// Why a message or a connection was refused.
//
//openapi:answer MEWError
type ErrorResponse struct {
	// The kind of error, for programs. Examples are `capability_violation`, `identity_violation`, `invalid_message`,
	// `duplicate_id`, `recipient_not_found`, `rate_limited` and `too_many_connections`.
	Error string `json:"error"`
	// A message for people.
	Message string `json:"message"`
	// The kind of the message that the participant may not send.
	AttemptedKind string `json:"attempted_kind,omitempty"`
	// What the participant may send.
	YourCapabilities *envelope.Capabilities `json:"your_capabilities,omitempty" api:"[]#MEWCapability"`
}

// WriteError answers with an error, as an [ErrorResponse].
func (*API) WriteError(w http.ResponseWriter, err error) {
	e := wire.FromError(err, nil)
	body := ErrorResponse{Error: e.Code, Message: e.Error()}
	if no := (*space.Refusal)(nil); errors.As(err, &no) {
		body = ErrorResponse{no.Fault.Error, no.Message, no.AttemptedKind, no.YourCapabilities}
	}
	wire.WriteError(w, e, body)
}

// identify returns the participant whose token a request has. It returns nil if there is no token, and an error if the
// token is wrong.
func (a *API) identify(r *http.Request) (*space.Identity, error) {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return nil, nil
	}
	who := a.cfg.Tokens.Find(strings.TrimSpace(token))
	if who == nil {
		return nil, wire.Errorf(wire.CodeForbidden, "the token is not one of this space's")
	}
	return who, nil
}

// hold counts a connection of a participant. It reports false if there are too many.
func (a *API) hold(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.connected[id] >= a.cfg.Connections {
		return false
	}
	a.connected[id]++
	return true
}

// letGo uncounts a connection that hold counted.
func (a *API) letGo(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.connected[id]--; a.connected[id] == 0 {
		delete(a.connected, id)
	}
}

// inSpace reports whether a name means this space. An empty name does.
func (a *API) inSpace(name string) bool { return name == "" || name == a.cfg.Space }

// Accepted is the answer to a message that was passed on.
//
//openapi:answer MEWAccepted
type Accepted struct {
	// The id of the message.
	ID string `json:"id"`
	// Always `accepted`: the message was passed on.
	Status string `json:"status" api:"=accepted"`
	// When the message was passed on.
	Timestamp time.Time `json:"timestamp"`
}

// Errors of both endpoints.
var (
	errNoSpace = wire.Errorf(wire.CodeNotFound, "there is no such space")
	errClosing = wire.Errorf(wire.CodeDraining, "the space is closing")
)

// post answers POST /participants/{id}/messages.
func (a *API) post(w http.ResponseWriter, r *http.Request) error {
	who, err := a.identify(r)
	switch {
	case err != nil:
		return err
	case who == nil:
		return wire.Errorf(wire.CodeNoKey,
			"this space asks for a token; send it as Authorization: Bearer TOKEN")
	case who.ID != r.PathValue("id"):
		return wire.Errorf(wire.CodeForbidden, "the token belongs to %s", who.ID)
	case !a.inSpace(r.URL.Query().Get("space")):
		return errNoSpace
	}
	if no := a.space.Refuse(who.ID); no != nil {
		return refused(no)
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, envelope.MaxSize+1))
	var large *http.MaxBytesError
	var own *wire.Error
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &large), len(body) > envelope.MaxSize:
		return wire.Errorf(wire.CodeTooLarge, "a message has at most %d bytes",
			envelope.MaxSize)
	case err != nil:
		return wire.Errorf(wire.CodeInvalidJSON, "the body is incomplete")
	}
	var sent *envelope.Envelope
	err = a.work(r.Context(), who.ID, len(body), func() (err error) {
		sent, err = a.space.Post(*who, body)
		return err
	})
	var no *space.Refusal
	switch {
	case errors.As(err, &no):
		return refused(no)
	case err != nil:
		return errClosing
	default:
		wire.WriteJSON(w, http.StatusAccepted, Accepted{sent.ID, "accepted", sent.Time.UTC()})
	}
	return nil
}

// refused returns the error for a message that was refused.
func refused(no *space.Refusal) *wire.Error {
	e := wire.Errorf(no.Fault.Error, "%s", no.Message).Because(no)
	if e.Status = statusOf(no); e.Status == http.StatusTooManyRequests {
		e.RetryAfter = time.Second
	}
	return e
}

// statusOf returns the HTTP status of a refusal.
func statusOf(r *space.Refusal) int {
	switch r.Fault.Error {
	case space.RefusedCapability, space.RefusedIdentity:
		return http.StatusForbidden
	case space.RefusedRecipient:
		return http.StatusNotFound
	case space.RefusedRate:
		return http.StatusTooManyRequests
	}
	return http.StatusBadRequest
}

// connect answers GET /ws.
func (a *API) connect(w http.ResponseWriter, r *http.Request) error {
	who, err := a.identify(r)
	if err == nil && !a.inSpace(r.URL.Query().Get("space")) {
		err = errNoSpace
	}
	if a.enter() {
		defer a.leave()
	} else {
		err = errClosing
	}
	switch {
	case err != nil:
		return err
	case who != nil:
		if !a.hold(who.ID) {
			many := wire.Errorf(wire.CodeConnections,
				"too many connections of this token; at most %d may be open", a.cfg.Connections)
			many.RetryAfter = time.Second
			return many
		}
		defer a.letGo(who.ID)
	default:
		select {
		case a.joining <- struct{}{}: // take gives it back
		default:
			many := wire.Errorf(wire.CodeQueue, "too many connections have not sent their token yet")
			many.Status = http.StatusServiceUnavailable
			return many
		}
	}
	// Package server has already checked the origin.
	ws, err := websocket.Accept(hijacker{w}, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		if who == nil {
			<-a.joining
		}
		return nil // Accept has answered
	}
	ws.SetReadLimit(envelope.MaxSize)
	a.take(r.Context(), ws, who)
	return nil
}
