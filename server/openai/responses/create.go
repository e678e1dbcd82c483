package responses

import (
	"context"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"runner/generation"
	"runner/reasoning/seal"
	"runner/server/wire"
)

// take reads a request and prepares its turn. The caller releases the turn's model.
func (a *API) take(r *http.Request, req *CreateRequest) (*turn, error) {
	if err := wire.ReadJSON(r, req); err != nil {
		return nil, err
	}
	t, err := a.prepare(r.Context(), req)
	if err == nil {
		t.from = r
	}
	return t, err
}

// wireError converts an error of any kind. For an input that is too long it has the words of this API, followed by
// those of chat completions: clients look for one or the other and then shorten the conversation.
func wireError(err error) *wire.Error {
	return wire.FromLong(err, params, func(_ *generation.PromptTooLongError, message string) string {
		return exceeds + " " + strings.TrimPrefix(message, exceeds+" ")
	})
}

const exceeds = "Your input exceeds the context window of this model."

// create serves POST /v1/responses.
func (a *API) create(w http.ResponseWriter, r *http.Request) error {
	var req CreateRequest
	t, err := a.take(r, &req)
	if err != nil {
		return err
	}
	if is(req.Background, false) {
		return a.detach(w, r, t)
	}
	defer t.model.Release()
	if t.streamed() {
		return a.stream(w, r, t)
	}
	t.begin(nil)
	if failure := t.run(r.Context()); failure != nil {
		return failure
	}
	return wire.Answer(w, t.response)
}

// stream answers with server-sent events.
func (a *API) stream(w http.ResponseWriter, r *http.Request, t *turn) error {
	begin := func(to *wire.Stream) wire.Encoder {
		t.begin(to.Send)
		return t
	}
	err := wire.Streamed(w, r, t.model, t.runs(), wire.NewEvents, begin)
	if err == nil {
		return nil
	}
	if failure := failed(err); failure.Code != wire.CodeContextLength {
		return failure
	}
	out := wire.NewEvents(w)
	defer out.End()
	begin(out)
	t.tooLong(err)
	t.End(err)
	return nil
}

// detach makes the response in the background. It answers with its first state or, if the request asks for a stream,
// with its events.
func (a *API) detach(w http.ResponseWriter, r *http.Request, t *turn) error {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	job := &run{cancel: cancel, done: make(chan struct{})}
	if refusal := a.admit(job, t.principal.ID); refusal != nil {
		cancel(nil)
		t.model.Release()
		return refusal
	}
	if t.streamed() {
		job.log = &eventLog{keys: a.cfg.Seal, scope: func(n int) seal.Scope {
			return storedScope(t.principal.ID, t.home.Model, "event "+strconv.Itoa(n)+" of "+t.response.ID)
		}, secret: t.request.Visibility == visibilityFull, limit: a.store.limits.Events}
	}
	t.background = job
	first := make(chan Response, 1)
	refused := make(chan *wire.Error, 1)
	go func() {
		defer cancel(nil)
		defer a.dismiss(job, t.principal.ID)
		defer t.model.Release()
		defer func() {
			// net/http recovers panics only in the goroutines of requests.
			if p := recover(); p != nil {
				a.cfg.Logger.Error("a response in the background panicked", "response", t.response.ID, "stack",
					string(debug.Stack()))
				t.breakOff(refused)
			}
		}()
		if t.begin(nil); job.log != nil {
			t.enc.emit = job.log.append
		}
		t.enc.changed = func() {
			old := t.kept
			t.kept, _ = t.record("")
			if old == nil {
				a.store.put(t.kept)
				first <- *t.kept.response
				return
			}
			a.store.replace(old, t.kept)
		}
		if failure := t.run(ctx); !t.started {
			refused <- failure
		} else if failure != nil {
			a.cfg.Logger.Info("a response in the background did not complete", "response", t.response.ID, "code", failure.Code)
		}
		if a.store.get(t.principal.ID, t.response.ID) == nil {
			a.forget(t.principal.ID, t.response) // it was deleted in the meantime
		}
	}()
	select {
	case failure := <-refused:
		return failure
	case <-r.Context().Done():
		// The client has gone and does not know the response's id.
		cancel(errCancelled)
		return nil
	case response := <-first:
		if !t.streamed() {
			return wire.Answer(w, &response)
		}
		return a.follow(w, r, job.log, 0)
	}
}

// breakOff marks a response as failed after a panic of its run.
func (t *turn) breakOff(refused chan<- *wire.Error) {
	failure := wire.Errorf(wire.CodeInternal, "the server failed; its log says more")
	if t.kept == nil {
		refused <- failure
		return
	}
	broken, response := *t.kept, *t.kept.response
	response.Status, response.Error = statusFailed, &Failure{Code: "server_error", Message: failure.Message}
	broken.response = &response
	t.api.store.replace(t.kept, &broken)
	if log := t.background.log; log != nil {
		log.tell("server_error", failure.Message)
	}
}

// follow streams the events of a run in the background, from event n on.
func (a *API) follow(w http.ResponseWriter, r *http.Request, log *eventLog, n int) error {
	stream := wire.NewEvents(w)
	defer stream.End()
	log.follow(r.Context(), n, stream)
	return nil
}

// admit counts a run in the background of a principal, or returns an error if there are too many.
func (a *API) admit(job *run, principal string) *wire.Error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.closed:
		return wire.FromError(wire.ErrDraining, nil)
	case len(a.active) >= a.cfg.Background:
		return tooMany("as many responses as may be (%d) are being made in the background; try again later", len(a.active))
	case principal != wire.Local && a.of[principal] >= a.cfg.Share:
		return tooMany("as many of your responses as an API key may have (%d) are being made in the background; try "+
			"again later", a.of[principal])
	}
	a.active[job] = struct{}{}
	a.of[principal]++
	return nil
}

func tooMany(format string, args ...any) *wire.Error {
	e := wire.Errorf(wire.CodeQueue, format, args...)
	e.Param, e.RetryAfter = "background", 5*time.Second
	return e
}

// dismiss uncounts a run in the background of a principal, and marks it as over.
func (a *API) dismiss(job *run, principal string) {
	job.over.Store(true)
	if job.log != nil {
		job.log.close()
	}
	a.mu.Lock()
	delete(a.active, job)
	if a.of[principal]--; a.of[principal] == 0 {
		delete(a.of, principal)
	}
	a.mu.Unlock()
	close(job.done)
}

// InputTokens is the answer of POST /v1/responses/input_tokens.
//
//openapi:answer ResponseInputTokens
type InputTokens struct {
	// The type of this object.
	Object string `json:"object" api:"=response.input_tokens"`
	// The tokens of the whole prompt, cached or not.
	InputTokens int `json:"input_tokens"`
}

// countTokens serves POST /v1/responses/input_tokens. Its requests are those of POST /v1/responses.
func (a *API) countTokens(w http.ResponseWriter, r *http.Request) error {
	var req CreateRequest
	t, err := a.take(r, &req)
	if err != nil {
		return err
	}
	defer t.model.Release()
	prompt, err := t.model.Prompt(r.Context(), t.principal.ID, t.request)
	if err != nil {
		return err
	}
	return wire.Answer(w, InputTokens{Object: "response.input_tokens", InputTokens: len(prompt.Tokens)})
}
