package traces

import (
	"context"
	"embed"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"runner/reasoning/trace"
	"runner/reasoning/trace/store"
	"runner/server/internal/apierror"
	"runner/server/wire"
)

// Store is the part of a [store.Store] that is served.
type Store interface {
	Page(ctx context.Context, q store.Query) (list []store.Entry, more bool, err error)
	Get(ctx context.Context, id trace.ID) (store.Entry, error)
	Blob(ctx context.Context, id trace.ID) (io.Reader, error)
	Erase(ctx context.Context, ids ...trace.ID) error
}

// Config says how the API works. The zero value is usable.
type Config struct {
	// Store holds the traces; nil means that the server keeps none, and all requests fail with CodeNoStore.
	Store Store
	// Logger receives the store's failures; nil is silent.
	Logger *slog.Logger
}

// API serves the routes. It may be used by several goroutines at once.
type API struct{ cfg Config }

var _ wire.Format = (*API)(nil)

// New returns the API.
func New(cfg Config) *API {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &API{cfg}
}

// The permissions of the format: to read and to erase the sealed traces of the key's own runs. ScopeAll extends both to
// the traces of all keys.
const (
	ScopeRead  wire.Scope = "trace:read"
	ScopeErase wire.Scope = "trace:erase"
	ScopeAll   wire.Scope = "trace:all"
)

func init() {
	wire.Declare("traces", wire.Permission{Scope: ScopeRead, Private: true},
		wire.Permission{Scope: ScopeErase, Private: true}, wire.Permission{Scope: ScopeAll, Named: true, Private: true})
}

//go:embed openapi
var description embed.FS

// OpenAPI returns the description of the format, see package openapi.
func (*API) OpenAPI() fs.FS { return description }

// Routes implements [wire.Format].
func (a *API) Routes() []wire.Route {
	return []wire.Route{
		{Method: http.MethodGet, Path: "/v1/traces", Scope: ScopeRead, Handle: a.list},
		{Method: http.MethodGet, Path: "/v1/traces/{id}", Scope: ScopeRead, Handle: a.describe},
		{Method: http.MethodGet, Path: "/v1/traces/{id}/content", Scope: ScopeRead, Handle: a.content},
		{Method: http.MethodDelete, Path: "/v1/traces/{id}", Scope: ScopeErase, Free: true, Handle: a.erase},
	}
}

// The codes of this package's errors. Other codes come from package store.
const (
	// CodeNoStore: the server keeps no traces.
	CodeNoStore = "traces_disabled"
	// CodeNotFound: there is no trace with that id, or the key may not see it.
	CodeNotFound = "trace_not_found"
)

// Trace describes a trace without opening it.
//
// What can be known about a trace without opening it.
//
//openapi:answer Trace
type Trace struct {
	// The id of the trace, 32 hexadecimal digits.
	ID string `json:"id"`
	// The type of this object.
	Object string `json:"object" api:"=trace"`
	// `open` while the run goes on, `complete` after it. `cut` if the end is missing because the server crashed or the
	// trace became too long. `erased` after DELETE.
	State string `json:"state" api:"=open,complete,cut,erased"`
	// When the run began, in seconds since 1970.
	CreatedAt int64 `json:"created_at"`
	// When the trace ended, in seconds since 1970.
	EndedAt *int64 `json:"ended_at"`
	// When the trace was erased, in seconds since 1970.
	ErasedAt *int64 `json:"erased_at"`
	// The length of the encrypted trace in bytes. 0 while the trace is open.
	Bytes int64 `json:"bytes"`
	// The SHA-256 digest of the encrypted trace, in hexadecimal.
	SHA256 string `json:"sha256,omitempty"`
	// Who started the run: the id of an API key, or `local`.
	Principal string `json:"principal"`
	// The SHA-256 of what the model's files hold, as in the list of models. Absent while it is not known, also after the
	// end.
	ModelDigest string `json:"model_digest,omitempty"`
	// True if nothing proves that the trace is as the store wrote it.
	Unattested bool `json:"unattested,omitempty"`
}

func newTrace(e *store.Entry) Trace {
	t := Trace{
		ID: e.ID.String(), Object: "trace", State: e.State.String(), CreatedAt: e.Began.Unix(), Bytes: e.Size,
		SHA256:    e.SHA256,
		Principal: e.Principal, ModelDigest: e.Model, Unattested: e.Unattested,
	}
	for _, at := range []struct {
		time time.Time
		to   **int64
	}{{e.Ended, &t.EndedAt}, {e.ErasedAt, &t.ErasedAt}} {
		if !at.time.IsZero() {
			seconds := at.time.Unix()
			*at.to = &seconds
		}
	}
	return t
}

// List is the answer of GET /v1/traces.
//
//openapi:answer TraceList
type List struct {
	// The type of this object.
	Object string `json:"object" api:"=list"`
	// The traces.
	Data []Trace `json:"data"`
	// The id of the first trace in `data`. Null if there are no traces.
	FirstID *string `json:"first_id"`
	// The id of the last trace in `data`. Null if there are no traces.
	LastID *string `json:"last_id"`
	// Whether there are more traces after the last one.
	HasMore bool `json:"has_more"`
}

// maxPage is the maximum number of traces on a page.
const maxPage = 100

// list serves GET /v1/traces.
func (a *API) list(w http.ResponseWriter, r *http.Request) error {
	p := wire.PrincipalOf(r.Context())
	page, err := wire.ReadPage(r.URL.Query(), maxPage)
	if err != nil {
		return err
	}
	q := store.Query{Principal: p.ID, All: p.May(ScopeAll), Limit: page.Limit, OldestFirst: page.OldestFirst}
	if page.After != "" {
		id, err := trace.ParseID(page.After)
		if err != nil {
			return wire.Invalid("after", "it takes the id of a trace")
		}
		q.After = &id
	}
	if a.cfg.Store == nil {
		return errNoStore
	}
	entries, more, err := a.cfg.Store.Page(r.Context(), q)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return wire.Invalid("after", "there is no trace with this id")
	case err != nil:
		return err
	}
	out := List{Object: "list", Data: make([]Trace, len(entries)), HasMore: more}
	for i := range entries {
		out.Data[i] = newTrace(&entries[i])
	}
	if n := len(out.Data); n > 0 {
		out.FirstID, out.LastID = &out.Data[0].ID, &out.Data[n-1].ID
	}
	return wire.Answer(w, out)
}

// find returns the trace that a request names, if its principal may see it.
func (a *API) find(r *http.Request) (e store.Entry, err error) {
	if a.cfg.Store == nil {
		return e, errNoStore
	}
	id, err := trace.ParseID(r.PathValue("id"))
	if err != nil {
		return e, store.ErrNotFound
	}
	p := wire.PrincipalOf(r.Context())
	if e, err = a.cfg.Store.Get(r.Context(), id); err == nil && e.Principal != p.ID && !p.May(ScopeAll) {
		err = store.ErrNotFound
	}
	return e, err
}

// describe serves GET /v1/traces/{id}.
func (a *API) describe(w http.ResponseWriter, r *http.Request) error {
	e, err := a.find(r)
	if err != nil {
		return err
	}
	return wire.Answer(w, newTrace(&e))
}

// chunkTimeout is how long a client may take to read one part of a blob.
const chunkTimeout = 30 * time.Second

// content serves GET /v1/traces/{id}/content.
func (a *API) content(w http.ResponseWriter, r *http.Request) error {
	e, err := a.find(r)
	var blob io.Reader
	if err == nil {
		blob, err = a.cfg.Store.Blob(r.Context(), e.ID)
	}
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Length", strconv.FormatInt(e.Size, 10))
	h.Set("Content-Disposition", `attachment; filename="`+e.ID.String()+`.rtrace"`)
	a.copyTrace(w, r, e.ID.String(), blob)
	return nil
}

// copyTrace sends the bytes of a trace. It gives up when the client has gone.
func (a *API) copyTrace(w http.ResponseWriter, r *http.Request, id string, blob io.Reader) {
	control, buf := http.NewResponseController(w), make([]byte, 32<<10)
	for {
		n, err := blob.Read(buf)
		if n > 0 {
			_ = control.SetWriteDeadline(time.Now().Add(chunkTimeout)) // only the writers of tests have no deadlines
			if _, err := w.Write(buf[:n]); err != nil {
				return
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			if r.Context().Err() == nil && !errors.Is(err, store.ErrErased) {
				a.cfg.Logger.Error("a trace cannot be read", "trace", id, "error", err)
			}
			panic(http.ErrAbortHandler) // the client must not mistake a part for the whole
		}
	}
}

// Erased is the answer of DELETE /v1/traces/{id}.
//
//openapi:answer TraceErased
type Erased struct {
	// The id of the trace.
	ID string `json:"id"`
	// The type of this object.
	Object string `json:"object" api:"=trace"`
	// Always true: the trace is erased.
	Deleted bool `json:"deleted" api:"=true"`
}

// erase serves DELETE /v1/traces/{id}. Erasing again is harmless. It goes on after the client has gone.
func (a *API) erase(w http.ResponseWriter, r *http.Request) error {
	e, err := a.find(r)
	if err == nil {
		err = a.cfg.Store.Erase(context.WithoutCancel(r.Context()), e.ID)
	}
	if err != nil {
		return err
	}
	return wire.Answer(w, Erased{ID: e.ID.String(), Object: "trace", Deleted: true})
}

// notFound returns an error with a code of this format and the status 404.
func notFound(code, message string) *wire.Error {
	e := wire.Errorf(code, "%s", message)
	e.Status = http.StatusNotFound
	return e
}

var errNoStore = notFound(CodeNoStore,
	"this server keeps no traces; its operator can enable them with runner serve --traces")

// WriteError implements [wire.Format]. Errors of the store are known to it.
func (a *API) WriteError(w http.ResponseWriter, err error) {
	known := (*store.Error)(nil)
	answer := func(status int) *wire.Error {
		e := wire.Errorf(known.Code, "%v", known).Because(err)
		e.Status = status
		return e
	}
	e := (*wire.Error)(nil)
	switch {
	case errors.As(err, &e):
	case errors.Is(err, store.ErrNotFound):
		e = notFound(CodeNotFound,
			"there is no trace with this id that you may see; GET /v1/traces lists those that you may see")
	case !errors.As(err, &known):
		a.cfg.Logger.Error("the trace store failed", "error", err)
		e = wire.Errorf(wire.CodeInternal,
			"the trace store failed; the server's log has the details")
	case errors.Is(err, store.ErrErased):
		e = answer(http.StatusGone)
	case errors.Is(err, store.ErrOpen):
		e = answer(http.StatusConflict)
	default:
		e = answer(http.StatusServiceUnavailable)
		e.Message += "; " + known.Hint()
	}
	apierror.Write(w, e)
}
