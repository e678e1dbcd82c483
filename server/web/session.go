package web

import (
	"context"
	"net/http"
	"sync"

	"runner/server/web/markdown"
	"runner/server/wire"
)

// Session is what the page has to know before it can ask for anything.
//
//openapi:answer WebSession
type Session struct {
	// The id of the API key; `local` if the server asks for none.
	Principal string `json:"principal"`
	// True if the server asks for API keys.
	Keys bool `json:"keys"`
	// How much of the reasoning the key may see at most.
	MaxReasoning string `json:"max_reasoning" api:"#Visibility"`
	// How much of the reasoning is shown if a request does not say.
	Reasoning string `json:"reasoning" api:"#Visibility"`
	// True if the key may see the view for operators.
	Admin bool `json:"admin"`
	// True if the server keeps traces of runs that ask for it.
	Traces bool `json:"traces"`
	// The models that the key may use, the default first. Absent if the key may not list models.
	Models []SessionModel `json:"models,omitempty"`
}

// SessionModel describes a model for the page.
//
//openapi:answer WebSessionModel
type SessionModel struct {
	// Its name in requests.
	Name string `json:"name"`
	// True if it is in memory.
	Loaded bool `json:"loaded"`
	// The size of its context in tokens; 0 if it is not known yet.
	Context int `json:"context"`
}

// session answers GET /web/session.
func (a *API) session(w http.ResponseWriter, r *http.Request) error {
	who := wire.PrincipalOf(r.Context())
	s := Session{Principal: who.ID, Keys: who.ID != wire.Local, MaxReasoning: who.Reasoning.String(),
		Reasoning: who.Default(a.cfg.Defaults.Visibility).String(),
		Admin:     who.May(ScopeAdmin) && a.cfg.Figures != nil, Traces: a.cfg.Traces != nil}
	if who.May(wire.ScopeModels) {
		for _, c := range a.models.List(r.Context()) {
			s.Models = append(s.Models, SessionModel{Name: c.Name, Loaded: c.Loaded, Context: c.Context})
		}
	}
	w.Header().Set("Cache-Control", "no-store")
	return wire.Answer(w, s)
}

// maxRender is the maximum length of a body of /web/render in bytes.
const maxRender = 2 << 20

// RenderRequest is the body of POST /web/render.
//
//openapi:request WebRenderRequest
type RenderRequest struct {
	// The texts.
	Texts []RenderText `json:"texts" api:"[..1024]"`
}

// RenderText is a text to render.
//
//openapi:request WebRenderText
type RenderText struct {
	// The text.
	Text string `json:"text"`
	// The text is JSON code, not Markdown.
	JSON bool `json:"json"`
}

// Rendered is the answer of POST /web/render.
//
//openapi:answer WebRendered
type Rendered struct {
	// The HTML of each text.
	HTML []string `json:"html"`
}

// renderCost estimates how many bytes of memory a byte of text takes as HTML.
const renderCost = 32

// renderings lets each principal have one text rendered at a time, because rendering takes the processor's time and is
// not limited like requests for answers. The zero value is ready to use.
type renderings struct {
	mu   sync.Mutex
	busy map[string]chan struct{} // by principal; closed when it is over
}

// begin waits until the principal has no rendering. end must be called if there is no error.
func (r *renderings) begin(ctx context.Context, who string) (end func(), err error) {
	for {
		r.mu.Lock()
		other := r.busy[who]
		if other == nil {
			break
		}
		r.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	defer r.mu.Unlock()
	if r.busy == nil {
		r.busy = map[string]chan struct{}{}
	}
	over := make(chan struct{})
	r.busy[who] = over
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.busy, who)
		close(over)
	}, nil
}

// render answers POST /web/render. Conversations come back from the browser's storage as plain text, so that nobody who
// writes to that storage can put HTML into the page.
func (a *API) render(w http.ResponseWriter, r *http.Request) error {
	var in RenderRequest
	if err := wire.ReadJSON(r, &in); err != nil {
		return err
	}
	n := 0
	for i := range in.Texts {
		n += len(in.Texts[i].Text)
	}
	if err := wire.Reserve(r, renderCost*int64(n)); err != nil {
		return err
	}
	end, err := a.rendering.begin(r.Context(), wire.PrincipalOf(r.Context()).ID)
	if err != nil {
		return wire.FromError(err, nil)
	}
	defer end()
	out := Rendered{HTML: make([]string, len(in.Texts))}
	for i, t := range in.Texts {
		if err := r.Context().Err(); err != nil {
			return wire.FromError(err, nil)
		}
		if t.JSON {
			out.HTML[i] = markdown.JSON(t.Text)
		} else {
			out.HTML[i] = markdown.HTML(t.Text)
		}
	}
	return wire.Answer(w, out)
}
