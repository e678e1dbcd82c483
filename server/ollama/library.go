package ollama

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"runner/server/wire"
)

// ScopeModelsWrite is the permission to pull, name and delete models.
const ScopeModelsWrite wire.Scope = "models:write"

func init() {
	wire.Declare("ollama", wire.Permission{Scope: ScopeModelsWrite, Named: true,
		Denied: "clients may not change this server's models; start it with --models-write to allow it"})
}

// Library is the models on the disk of the server's machine. A server may serve only some of them. The methods may be
// called by several goroutines at once. Errors are an [*wire.Error] whose text may be sent to clients.
type Library interface {
	// List describes the models that the server does not serve.
	List() []wire.Card
	// Find describes the model that a name means. Its name means the same for good.
	Find(name string) (wire.Card, error)
	// Has reports whether a model that a name means is there and whole.
	Has(name string) bool
	// Pull fetches a model and returns its name. report is called at least once before anything is fetched, and an error
	// before that means that nothing was begun. An error of report, or the end of ctx, ends the call.
	Pull(ctx context.Context, name string, report func(Pulled) error) (string, error)
	// Remove removes a name that was given, or else the model that a name means.
	Remove(name string) error
	// Name gives a model another name. Names returns all names that were given, each with its model's.
	Name(name, model string) error
	Names() (map[string]string, error)
	// Named returns the model that was given a name.
	Named(name string) (model string, ok bool)
	// Close ends all pulls and waits for them.
	Close()
}

// Pulled is a step of a pull.
type Pulled struct {
	// Status says what is done, in Ollama's words.
	Status string
	// Digest is the hash of the file that is fetched, with the name of its algorithm; empty in other steps.
	Digest string
	// Done and Total are bytes of the file.
	Done, Total int64
}

// PullRequest is the body of POST /api/pull.
//
//openapi:request OllamaPullRequest
type PullRequest struct {
	Model string `json:"model" api:"#OllamaPulledName required"`
	// An older name of `model`.
	Name string `json:"name"`
	// Send the answer as lines of JSON.
	Stream *bool `json:"stream" api:"default=true"`
}

// PullResponse is the answer to POST /api/pull, and each line of its stream.
//
//openapi:answer OllamaPullResponse
type PullResponse struct {
	// What the server is doing. The last line has `success`.
	Status string `json:"status"`
	// The hash of the file that is fetched: `sha256:` and 64 digits, or `git-sha1:` and 40.
	Digest string `json:"digest,omitempty"`
	// The length of the file in bytes.
	Total int64 `json:"total,omitempty"`
	// How many of its bytes are here.
	Completed int64 `json:"completed,omitempty"`
	// In the last line: `restart_needed` if the model is here and not served.
	Warnings []wire.Warning `json:"warnings,omitempty"`
}

// DeleteRequest is the body of DELETE /api/delete.
//
//openapi:request OllamaDeleteRequest
type DeleteRequest struct {
	Model string `json:"model" api:"#OllamaModelName required"`
	// An older name of `model`.
	Name string `json:"name"`
}

// CopyRequest is the body of POST /api/copy.
//
//openapi:request OllamaCopyRequest
type CopyRequest struct {
	// The name of a model.
	Source string `json:"source" api:"required"`
	// Another name for it, in the form of a model's name.
	Destination string `json:"destination" api:"required"`
}

// Close ends all pulls. The server calls it when it stops.
func (a *API) Close(context.Context) {
	if a.cfg.Library != nil {
		a.cfg.Library.Close()
	}
}

// Named returns the model to which a client gave a name. The server asks it.
func (a *API) Named(name string) (model string, ok bool) {
	if a.cfg.Library == nil {
		return "", false
	}
	return a.cfg.Library.Named(name)
}

// mayChange returns an error unless the principal may change models.
func (a *API) mayChange(ctx context.Context) error {
	who := wire.PrincipalOf(ctx)
	switch {
	case !who.May(ScopeModelsWrite):
		return who.Lacks(ScopeModelsWrite)
	case who.Models != nil:
		return wire.Errorf(wire.CodeForbidden,
			"this API key is limited to some models, so it may not change models")
	case a.cfg.Library == nil:
		return unmanaged("start it with the model's file")
	}
	return nil
}

// stored describes what else the principal may see: names that clients gave to served models, and for those who may
// change models, all models on the disk.
func (a *API) stored(ctx context.Context) (cards []wire.Card, err error) {
	if a.cfg.Library == nil {
		return nil, nil
	}
	all := a.mayChange(ctx) == nil
	if all {
		cards = a.cfg.Library.List()
	}
	given, err := a.cfg.Library.Names()
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		c, ok := a.models.Find(ctx, name)
		if !ok && all {
			found, err := a.cfg.Library.Find(name)
			c, ok = found, err == nil // a name outlives its model if another program removes that
		}
		if c.Name = name; ok {
			cards = append(cards, c)
		}
	}
	return cards, nil
}

// unserved describes a model that is on the disk and not served, to those who may change models.
func (a *API) unserved(ctx context.Context, name string) (wire.Card, bool) {
	if name == "" || a.mayChange(ctx) != nil {
		return wire.Card{}, false
	}
	if _, served := a.models.Find(ctx, name); served {
		return wire.Card{}, false
	}
	c, err := a.cfg.Library.Find(name)
	return c, err == nil
}

// restart says how a model that is on the disk can be used.
func restart(name string) string {
	return fmt.Sprintf("to use it, start the server again with --model %.200s", name)
}

// restartNeeded is the code of the warning about a model that is here and not served.
const restartNeeded = "restart_needed"

// pull answers POST /api/pull. Scripts pull a model before they use it, so pulling what is here succeeds for everybody.
func (a *API) pull(w http.ResponseWriter, r *http.Request) error {
	var body PullRequest
	if err := wire.ReadJSON(r, &body); err != nil {
		return err
	}
	if body.Model = cmp.Or(body.Model, body.Name); body.Model == "" {
		return errNoName
	}
	out := &pulling{w: w, stream: body.Stream == nil || *body.Stream}
	defer out.end()
	if _, served := a.models.Find(r.Context(), body.Model); served {
		return out.succeed()
	}
	if err := a.mayChange(r.Context()); err != nil {
		who := wire.PrincipalOf(r.Context())
		if a.cfg.Library == nil || !who.MayUse(wire.BareName(body.Model)) || !a.cfg.Library.Has(body.Model) {
			return err
		}
		return out.succeed(wire.Warning{Code: restartNeeded, Message: restart(body.Model)})
	}
	wire.Rest(r)
	name, err := a.cfg.Library.Pull(r.Context(), body.Model, out.report)
	if err != nil {
		return out.fail(err)
	}
	return out.succeed(wire.Warning{Code: restartNeeded, Message: restart(name)})
}

// pulling is the answer to a pull: a stream of its steps, or one object at its end.
type pulling struct {
	w      http.ResponseWriter
	stream bool
	lines  *wire.Stream
	// asking is the first step: the hub is asked for the files. It is sent with the second, so that an error of the hub
	// has its own status.
	asking *PullResponse
}

// report sends a step.
func (p *pulling) report(s Pulled) error {
	if !p.stream {
		return nil
	}
	step := PullResponse{Status: s.Status, Digest: s.Digest, Total: s.Total, Completed: s.Done}
	if p.asking == nil {
		p.asking = &step
		return nil
	}
	if p.lines == nil {
		if err := p.send(*p.asking); err != nil {
			return err
		}
	}
	return p.send(step)
}

func (p *pulling) send(v any) error {
	if p.lines == nil {
		p.lines = wire.NewLines(p.w)
	}
	return p.lines.Send("", v)
}

// fail ends the answer with an error. Before the second step that is the error's own answer.
func (p *pulling) fail(err error) error {
	if p.lines == nil {
		return err
	}
	_ = p.send(errorResponse(wireError(err))) // the client may be gone
	return nil
}

// succeed ends the answer.
func (p *pulling) succeed(warnings ...wire.Warning) error {
	done := PullResponse{Status: "success", Warnings: warnings}
	if !p.stream {
		return wire.Answer(p.w, done)
	}
	if p.lines == nil {
		_ = p.send(PullResponse{Status: "pulling manifest"}) // the client may be gone
	}
	_ = p.send(done)
	return nil
}

func (p *pulling) end() { p.lines.End() }

// remove answers DELETE /api/delete.
func (a *API) remove(w http.ResponseWriter, r *http.Request) error {
	var body DeleteRequest
	if err := wire.ReadJSON(r, &body); err != nil {
		return err
	}
	if body.Model = cmp.Or(body.Model, body.Name); body.Model == "" {
		return errNoName
	}
	if err := a.mayChange(r.Context()); err != nil {
		return err
	}
	if err := a.free(r.Context(), body.Model); err != nil {
		return err
	}
	if err := a.cfg.Library.Remove(body.Model); err != nil {
		return a.notFound(r.Context(), err, body.Model)
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// free returns an error if a name is that of a served model and was not given by a client.
func (a *API) free(ctx context.Context, name string) error {
	if _, served := a.models.Find(ctx, name); !served {
		return nil
	}
	given, err := a.cfg.Library.Names()
	if err != nil {
		return err
	}
	if _, ok := given[wire.BareName(name)]; ok {
		return nil
	}
	return wire.Errorf(wire.CodeModelInUse, "the server serves the model '%.100s'", name)
}

// copy answers POST /api/copy. The copy is another name for the same files.
func (a *API) copy(w http.ResponseWriter, r *http.Request) error {
	var body CopyRequest
	if err := wire.ReadJSON(r, &body); err != nil {
		return err
	}
	switch {
	case body.Source == "":
		return wire.Invalid("source", "it is required")
	case body.Destination == "":
		return wire.Invalid("destination", "it is required")
	}
	if err := a.mayChange(r.Context()); err != nil {
		return err
	}
	if err := a.free(r.Context(), body.Destination); err != nil {
		return err
	}
	source, ok := a.models.Find(r.Context(), body.Source)
	if !ok {
		var err error
		if source, err = a.cfg.Library.Find(body.Source); err != nil {
			return a.notFound(r.Context(), err, body.Source)
		}
	}
	if err := a.cfg.Library.Name(body.Destination, source.Name); err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	return nil
}
