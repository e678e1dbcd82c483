package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"time"

	"runner/server/wire"
)

// Config is the configuration of the format. The zero value is usable.
type Config struct {
	wire.Config
	// Figures returns the figures for operators; nil means that there are none.
	Figures func() wire.Figures
	// Pace is the shortest time between two renderings of a text that grows; 0 means 40 ms.
	Pace time.Duration
}

// API is the format. Its methods may be called by several goroutines at once.
type API struct {
	models wire.Models
	cfg    Config
	files  map[string]file

	rendering renderings
}

var _ wire.Format = (*API)(nil)

//go:embed page
var pageFiles embed.FS

// file is a file of the page.
type file struct {
	kind, tag string
	text      []byte
}

// New returns the format over models.
func New(models wire.Models, cfg Config) *API {
	cfg.Fill()
	if cfg.Pace == 0 {
		cfg.Pace = 40 * time.Millisecond
	}
	return &API{models: models, cfg: cfg, files: readFiles()}
}

// readFiles returns the files of the page. It panics if they are missing, because they are part of the program.
func readFiles() map[string]file {
	entries, err := pageFiles.ReadDir("page")
	if err != nil {
		panic(err)
	}
	files := map[string]file{}
	for _, e := range entries {
		text, err := pageFiles.ReadFile("page/" + e.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(text)
		kind := mime.TypeByExtension(path.Ext(e.Name()))
		switch path.Ext(e.Name()) { // the system's table may be wrong about these
		case ".js":
			kind = "text/javascript; charset=utf-8"
		case ".css":
			kind = "text/css; charset=utf-8"
		case ".html":
			kind = "text/html; charset=utf-8"
		case ".svg":
			kind = "image/svg+xml"
		}
		files[e.Name()] = file{kind, `"` + hex.EncodeToString(sum[:12]) + `"`, text}
	}
	return files
}

// ScopeAdmin is the permission to see the operator's view of the page, the use of every key included.
const ScopeAdmin wire.Scope = "admin"

func init() { wire.Declare("web", wire.Permission{Scope: ScopeAdmin, Named: true, Private: true}) }

//go:embed openapi
var description embed.FS

// OpenAPI returns the description of the format, see package openapi.
func (*API) OpenAPI() fs.FS { return description }

// Routes lists the endpoints. The root is the page only for browsers.
func (a *API) Routes() []wire.Route {
	return []wire.Route{
		{Method: http.MethodGet, Path: "/{$}", Handle: a.page, When: wire.WantsPage},
		{Method: http.MethodGet, Path: "/web/{file}", Handle: a.asset},
		{Method: http.MethodGet, Path: "/web/session", Scope: wire.ScopeGenerate, Handle: a.session},
		{Method: http.MethodPost, Path: "/web/chat", Scope: wire.ScopeGenerate, Handle: a.chat},
		{Method: http.MethodPost, Path: "/web/render", Scope: wire.ScopeGenerate, Free: true, MaxBody: maxRender,
			Handle: a.render},
		{Method: http.MethodGet, Path: "/web/figures", Scope: ScopeAdmin, Handle: a.figures},
	}
}

// contentPolicy is what browsers let the page do: run its own scripts, and talk to this server. Trusted Types keep
// scripts from writing HTML in any other place than the one that shows rendered answers.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; " +
	"trusted-types rendered"

func (a *API) page(w http.ResponseWriter, r *http.Request) error {
	w.Header().Add("Vary", "Accept")
	a.serve(w, r, a.files["index.html"])
	return nil
}

func (a *API) asset(w http.ResponseWriter, r *http.Request) error {
	f, ok := a.files[r.PathValue("file")]
	if !ok {
		return wire.Errorf(wire.CodeNotFound, "the page has no such file")
	}
	a.serve(w, r, f)
	return nil
}

func (a *API) serve(w http.ResponseWriter, r *http.Request, f file) {
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
	h.Set("Cache-Control", "no-cache") // browsers must ask whether it has changed
	h.Set("ETag", f.tag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.text))
}

// fields are this format's names of the fields of [generation.Request].
var fields = wire.Names[Request]("", map[string]string{"Sampling": "temperature"})

// WriteError answers with an error, as a [wire.PlainError].
func (a *API) WriteError(w http.ResponseWriter, err error) {
	wire.WritePlain(w, wire.FromError(err, fields))
}
