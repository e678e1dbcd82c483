package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"runner/generation/slots"
	"runner/reasoning"
	"runner/server/keys"
	"runner/server/pool"
	"runner/server/wire"
)

// Config is the configuration of a server. Pool and Cards are required; the zero value of the rest is usable.
type Config struct {
	// Pool holds the models. Cards describe them, in the same order.
	Pool  *pool.Pool
	Cards []wire.Card
	// Aliases are further names of models. A model's own name comes first, then the first alias that matches,
	// then a name that a client has given it.
	Aliases []Alias
	// Granted are scopes that clients have without keys although others do not, see [wire.Permission].
	Granted []wire.Scope
	// Keys are the API keys. If they are nil, the server asks for none and is for the user of this machine.
	Keys *keys.Set
	// MaxReasoning is how much of the reasoning anybody may see at most; nil means all. Keys may allow less.
	MaxReasoning *reasoning.Visibility
	// Public allows a server without keys to listen on addresses that other machines can reach. Nobody has the
	// operator's permissions or reads traces there.
	Public bool
	// Hosts are further host names under which a server without keys answers. Addresses, localhost, single labels and
	// names under internal are always allowed. A server with keys does not check names.
	Hosts []string
	// Origins are the web pages that may use the server in addition to those of this machine, for example
	// "https://example.org"; "*" means all.
	Origins []string
	// TLS, if not nil, secures the connections.
	TLS *tls.Config
	// Sources are what comes from files and has no place here. [Server.Reload] reads them and the keys again.
	Sources []keys.Source
	// MaxBody is the maximum length of a request's body in bytes; 0 means 32 MiB.
	MaxBody int64
	// MaxTokenize is the maximum length of a body of /tokenize in bytes; 0 means 4 MiB.
	MaxTokenize int64
	// MaxValues is the maximum number of values in a body, and MaxDepth their maximum depth; 0 means a million and 256.
	MaxValues, MaxDepth int
	// RequestMemory is how many bytes of memory all requests together may take, without the models; 0 follows Memory.
	RequestMemory int64
	// Memory returns how many more bytes of memory the process can get now, and how much of its address space resource
	// limits leave; 0 means unknown or no limit. Nil means unknown.
	Memory func() (available, addresses int64)
	// MaxConnections is the maximum number of open connections; 0 means as many as the system's limit of open files
	// allows, at most 4,096. MaxPeerConnections is the maximum of one peer, which is an address or an IPv6 network of 64
	// bits; 0 means a quarter. It does not apply to this machine and to Proxies.
	MaxConnections, MaxPeerConnections int
	// Proxies are the addresses of proxies, which connect for many clients.
	Proxies []netip.Prefix
	// Slots are those that requests share while their bodies are checked and models prepare their runs. Nil makes some
	// for the bodies alone.
	Slots *slots.Slots
	// RequestTimeout is how long one run, or all embeddings of a request together, may take; 0 means no limit.
	RequestTimeout time.Duration
	// DrainTimeout is how long requests may continue when the server stops; 0 means 30 seconds.
	DrainTimeout time.Duration
	// Version is the program's version, for people.
	Version string
	// Clock gives the time; nil means time.Now.
	Clock func() time.Time
	// Logger receives a line for each request, without its content; nil is silent.
	Logger *slog.Logger
	// LogContent logs prompts, answers and reasoning as well. For debugging only.
	LogContent bool
}

// Timeouts and limits of connections.
const (
	headerTimeout = 10 * time.Second
	bodyTimeout   = 60 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 64 << 10
	// cutTimeout is how long handlers may take to return after their runs were ended.
	cutTimeout = 5 * time.Second
)

// closer is a format that works in the background. Close waits for that work until ctx ends, and then ends it.
type closer interface{ Close(ctx context.Context) }

// sourced is a format with a file that can change.
type sourced interface{ Source() keys.Source }

// namer is a format whose clients can give models other names. Named returns the model that was given a name.
type namer interface {
	Named(name string) (model string, ok bool)
}

// route is a format's handler for some requests to a pattern. If when is nil, it gets those that no other route takes.
type route struct {
	when    func(*http.Request) bool
	handler http.Handler
}

// describer is a format with a description in OpenAPI, see package openapi.
type describer interface{ OpenAPI() fs.FS }

// Server answers HTTP requests. Its methods may be called by several goroutines at once.
type Server struct {
	cfg     Config
	log     *slog.Logger
	cards   []wire.Card
	limits  *limits
	bodies  *bodies
	metrics *metrics
	health  *health
	drain   drain
	usage   usage
	began   time.Time
	// inFlight is the number of requests that are being answered.
	inFlight atomic.Int64
	mux      *http.ServeMux
	// routes are the routes of each pattern of mux. mounted are all routes in the order of mounting.
	routes  map[string][]route
	mounted []wire.Route
	// formats are the mounted formats, with how each answers requests that have no route.
	formats []mounted
	// closers are the formats that work in the background.
	closers []closer
	sources []keys.Source
	namers  []namer
	// descriptions are those of the formats.
	descriptions []fs.FS
	// cut is done when all runs must end because the server stops.
	cut    context.Context
	cutNow context.CancelFunc
}

// New returns a server that has only the routes that belong to no format. Mount adds formats. Serve begins to listen.
func New(cfg Config) *Server {
	if cfg.MaxBody <= 0 {
		cfg.MaxBody = 32 << 20
	}
	if cfg.MaxTokenize <= 0 {
		cfg.MaxTokenize = 4 << 20
	}
	if cfg.MaxValues <= 0 {
		cfg.MaxValues = wire.DefaultValues
	}
	if cfg.MaxDepth <= 0 {
		cfg.MaxDepth = wire.DefaultDepth
	}
	if cfg.Slots == nil {
		cfg.Slots = slots.New(0)
	}
	if cfg.DrainTimeout <= 0 {
		cfg.DrainTimeout = 30 * time.Second
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	s := &Server{
		cfg: cfg, log: cfg.Logger, cards: cfg.Cards, limits: newLimits(cfg.Clock),
		bodies:  newBodies(cfg.MaxBody, cfg.RequestMemory),
		began:   cfg.Clock(),
		metrics: newMetrics(newModelFigures(cfg.Pool)), mux: http.NewServeMux(), routes: map[string][]route{},
	}
	s.cut, s.cutNow = context.WithCancel(context.Background())
	s.health = newHealth(s)
	if s.sources = cfg.Sources; cfg.Keys != nil {
		s.Follow(cfg.Keys.Source())
	}
	s.Mount(&common{s})
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { s.unknown(r).ServeHTTP(w, r) })
	return s
}

// Mount adds a format's routes. It must be called before Serve. If the format has a method Close(context.Context),
// Serve calls it at its end.
func (s *Server) Mount(f wire.Format) {
	if c, ok := f.(closer); ok {
		s.closers = append(s.closers, c)
	}
	if x, ok := f.(sourced); ok {
		s.Follow(x.Source())
	}
	if n, ok := f.(namer); ok {
		s.namers = append(s.namers, n)
	}
	if d, ok := f.(describer); ok {
		s.descriptions = append(s.descriptions, d.OpenAPI())
	}
	s.formats = append(s.formats, mounted{
		f.Routes(), s.wrap(unknownRoute, f, wire.Route{Free: true, Handle: s.noRoute}),
	})
	for _, r := range f.Routes() {
		pattern := r.Method + " " + r.Path
		if s.routes[pattern] == nil {
			s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.choose(pattern, r).ServeHTTP(w, r) })
		}
		s.routes[pattern] = append(s.routes[pattern], route{r.When, s.wrap(pattern, f, r)})
		s.mounted = append(s.mounted, r)
	}
}

func (s *Server) described() []fs.FS { return s.descriptions }

// Routes returns the routes of the server and of all mounted formats.
func (s *Server) Routes() []wire.Route { return slices.Clone(s.mounted) }

// choose returns the handler for a request to a pattern.
func (s *Server) choose(pattern string, r *http.Request) (h http.Handler) {
	for _, route := range s.routes[pattern] {
		switch {
		case route.when == nil:
			h = route.handler
		case route.when(r):
			return route.handler
		}
	}
	if h == nil {
		return s.unknown(r)
	}
	return h
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// wrap adds to a route's handler what all routes have in common. It is the one place where errors of handlers are
// answered.
func (s *Server) wrap(name string, f wire.Format, route wire.Route) http.Handler {
	return http.HandlerFunc(func(plain http.ResponseWriter, r *http.Request) {
		entered := s.drain.enter()
		if entered {
			defer s.drain.leave()
		}
		began := s.cfg.Clock()
		said := &note{}
		w := &recorder{ResponseWriter: plain, refused: s.metrics.refusedBy, work: &said.work}
		control := http.NewResponseController(plain)
		if r.ContentLength != 0 {
			// Refused requests need the deadline too, because package http reads the rest of a body before it answers.
			// Writers in tests have no deadlines.
			_ = control.SetReadDeadline(time.Now().Add(bodyTimeout))
		}
		id := wire.NewID(nil, "req_")
		w.Header().Set("X-Request-Id", id)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		s.metrics.inFlight.Inc()
		s.inFlight.Add(1)
		var principal *wire.Principal
		defer func() {
			s.metrics.inFlight.Dec()
			s.inFlight.Add(-1)
			broken := false
			if p := recover(); p != nil {
				broken = s.recovered(w, r, f, name, p)
			}
			took := s.cfg.Clock().Sub(began)
			s.metrics.answered(name, w.statusOf(r), took)
			s.logRequest(r, name, id, principal, w, took, said)
			if broken {
				panic(http.ErrAbortHandler) // an answer that was cut off must not look complete
			}
		}()
		defer said.leave()
		err := s.guard(w, r)
		switch {
		case err != nil:
		case r.Method == http.MethodOptions:
			err = s.options(w, r)
		case !entered && route.Scope != wire.ScopeNone && route.Scope != wire.ScopeMetrics:
			err = wire.FromError(wire.ErrDraining, nil)
		default:
			if principal, err = s.authenticate(r, route); err == nil {
				r = r.WithContext(context.WithValue(wire.WithPrincipal(r.Context(), principal), noteKey{}, said))
				said.work.slots, said.work.principal = s.cfg.Slots, principal.ID
				err = s.handle(w, r, &route)
			}
		}
		if err != nil {
			f.WriteError(w, err)
		}
	})
}

// handle passes a request, whose principal is known, to its route's handler.
func (s *Server) handle(w http.ResponseWriter, r *http.Request, route *wire.Route) error {
	if err := checkEncoding(w, r); err != nil {
		return err
	}
	in := s.newBody(w, r, route, wire.PrincipalOf(r.Context()).ID)
	defer in.release()
	if err := in.checkLength(r); err != nil {
		return err
	}
	if wait := s.limits.spent(in.principal); wait > 0 && in.long() &&
		(route.Scope == wire.ScopeGenerate || route.Scope == wire.ScopeEmbed) {
		return overRate("tokens", wait)
	}
	r.Body = in
	err := route.Handle(w, r)
	if err != nil && in.read > 0 { // package http deals with a body that nobody wanted
		in.drop()
	}
	return err
}

// checkEncoding refuses compressed bodies.
func checkEncoding(w http.ResponseWriter, r *http.Request) error {
	encoding := r.Header.Get("Content-Encoding")
	if encoding == "" || strings.EqualFold(encoding, "identity") {
		return nil
	}
	w.Header().Set("Accept-Encoding", "identity")
	return wire.Errorf(wire.CodeEncoding,
		"a body with Content-Encoding %.40q is not taken; send it as it is", encoding)
}

// clip shortens a text from a client for the log.
func clip(text string) string {
	const most = 200
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

// logRequest writes the log line of a request. It has the code of the error, if there was one, and the code
// client_cancelled if the client left before the end. For a path that does not exist it has the path.
func (s *Server) logRequest(r *http.Request, name, id string, p *wire.Principal, w *recorder, took time.Duration,
	said *note) {
	key := "" // no key has this name
	if p != nil {
		key = p.ID
	}
	said.mu.Lock()
	defer said.mu.Unlock()
	attrs := []any{"route", name, "status", w.statusOf(r), "ms", float64(took.Microseconds()) / 1000, "key", key, "id", id,
		"runs", said.runs, "prompt_tokens", said.prompt, "completion_tokens", said.completion}
	code := cmp.Or(w.code, said.code)
	if code == "" && r.Context().Err() != nil {
		code = wire.CodeClientCancelled
	}
	if code != "" {
		attrs = append(attrs, "code", code)
	}
	if name == unknownRoute { // the query is left out, because clients put keys there
		attrs = append(attrs, "method", clip(r.Method), "path", clip(r.URL.Path))
	}
	s.log.InfoContext(r.Context(), "request", attrs...)
}

// recovered answers a request whose handler panicked. If the answer has begun already, it reports that it is broken.
// The panic's value may contain parts of the request, so only its type and the stack are logged.
func (s *Server) recovered(w *recorder, r *http.Request, f wire.Format, name string, p any) (broken bool) {
	if p == http.ErrAbortHandler {
		return true
	}
	s.log.Error("a handler panicked", "route", name, "kind", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
	if w.status != 0 {
		return true
	}
	f.WriteError(w, wire.Errorf(wire.CodeInternal,
		"the server failed; its log says where"))
	return false
}

// recorder records the status of an answer and counts errors. It ends the request's work before it writes, because
// writing may wait for the client.
type recorder struct {
	http.ResponseWriter
	status  int
	code    string // of the error
	refused *prometheus.CounterVec
	work    *work
}

// Refused implements [wire.Refuser].
func (w *recorder) Refused(code string) {
	w.code = code
	w.refused.WithLabelValues(code).Inc()
}

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	w.work.end()
	return w.ResponseWriter.Write(b)
}

// Unwrap lets [http.ResponseController] reach the underlying writer.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// statusOf returns the status of the answer to r.
func (w *recorder) statusOf(r *http.Request) int {
	if w.status == 0 && r.Context().Err() != nil {
		return wire.StatusClientClosed
	}
	return w.status
}

// ErrPublic says that other machines could reach a server without keys.
var ErrPublic = errors.New("this address can be reached by others, and the server asks for no API key")

// CheckAddress returns ErrPublic if Serve would refuse to listen on an address.
func (c *Config) CheckAddress(a net.Addr) error {
	if c.Keys == nil && !c.Public && !isLoopback(a) {
		return ErrPublic
	}
	return nil
}

// Serve answers requests to l until ctx ends. Then it refuses new requests and lets the others continue for
// DrainTimeout. It ends those that are left, each stream after a whole frame, and returns. It closes l and the pool.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	if err := s.cfg.CheckAddress(l.Addr()); err != nil {
		return errors.Join(err, l.Close(), s.cfg.Pool.Close())
	}
	held, err := newConnections(l, &s.cfg, s.metrics.dropped)
	if err != nil {
		return errors.Join(err, l.Close(), s.cfg.Pool.Close())
	}
	held.plain = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.unknown(r).ServeHTTP(w, r) })
	l = held
	hs := &http.Server{
		ConnState: held.note,
		Handler:   s, TLSConfig: s.cfg.TLS, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeader,
		ErrorLog:       slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	var work sync.WaitGroup // in the background
	defer held.refusing.Wait()
	defer work.Wait()
	stopped := make(chan error, 1)
	work.Go(func() {
		if s.cfg.TLS != nil {
			stopped <- hs.ServeTLS(l, "", "")
		} else {
			stopped <- hs.Serve(l)
		}
	})
	working, end := context.WithCancel(ctx)
	defer end()
	work.Go(func() { s.health.watch(working) })
	work.Go(func() { s.maintain(working) })
	select {
	case err := <-stopped:
		s.cutNow()
		return errors.Join(err, s.cfg.Pool.Close())
	case <-ctx.Done():
	}
	s.log.Info("stopping", "drain_seconds", s.cfg.DrainTimeout.Seconds())
	hs.SetKeepAlivesEnabled(false)
	answered := s.drain.stop()
	s.health.log(healthStopping)
	drained, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.DrainTimeout)
	defer cancel()
	var closing sync.WaitGroup
	for _, c := range s.closers {
		closing.Go(func() { c.Close(drained) })
	}
	closing.Wait()
	select {
	case <-answered:
	case <-drained.Done():
	}
	err = hs.Shutdown(drained)
	if errors.Is(err, context.DeadlineExceeded) {
		s.cutNow()
		cut, cancel := context.WithTimeout(context.WithoutCancel(ctx), cutTimeout)
		defer cancel()
		if err = hs.Shutdown(cut); err != nil {
			err = hs.Close()
		}
	}
	s.cutNow()
	return errors.Join(err, s.cfg.Pool.Close())
}

// maintainEvery is how often memory and the files of sources are checked.
const maintainEvery = 2 * time.Second

// maintain checks them until ctx ends.
func (s *Server) maintain(ctx context.Context) {
	memory := newMemoryKeeper(s)
	tick := time.NewTicker(maintainEvery)
	defer tick.Stop()
	for {
		memory.look()
		s.reread(false)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// isLoopback reports whether only this machine can reach an address.
func isLoopback(a net.Addr) bool {
	if a.Network() == "unix" {
		return true
	}
	addr, err := netip.ParseAddrPort(a.String())
	return err == nil && addr.Addr().Unmap().IsLoopback()
}
