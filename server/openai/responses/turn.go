package responses

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"runner/chattemplate"
	"runner/generation"
	"runner/reasoning"
	"runner/reasoning/seal"
	"runner/server/internal/contract"
	"runner/server/wire"
)

// turn is a request with its conversation, its model and its response.
type turn struct {
	api *API
	// from is the request; nil in tests.
	from      *http.Request
	asked     *asked
	principal *wire.Principal
	model     wire.Model
	// chain are the earlier responses of the conversation, the oldest first.
	chain []*record
	// request is what the model runs, and observer follows it.
	request  generation.Request
	observer generation.Observer
	response *Response
	// homeID is the id of the first reasoning item. home is the scope with which the run's reasoning is sealed.
	homeID string
	home   seal.Scope
	// root is the id of the first response of the chain.
	root string
	// background is the run, if it is in the background, and kept what the store has of its response; otherwise nil.
	background *run
	kept       *record

	// enc makes the response of the events, after free. started says that there was one, and failure is why the run has
	// failed after that.
	enc     *encoder
	free    contract.FreeCalls
	started bool
	failure *wire.Error
}

// params are this format's names of the fields of [generation.Request].
var params = wire.Names[CreateRequest]("", map[string]string{
	"ToolName": "tool_choice.name", "Form": "text.format", "ResponseFormat": "text.format",
	"Effort": "reasoning.effort", "Budget": "reasoning.max_tokens", "Sampling": "temperature",
})

// prepare makes the turn of a request and gets its model, which the caller releases. Errors are a *wire.Error.
func (a *API) prepare(ctx context.Context, w *CreateRequest) (*turn, error) {
	principal := wire.PrincipalOf(ctx)
	q, err := read(w, a.cfg.Request(principal))
	if err != nil {
		return nil, err
	}
	if err := q.contract.CanTrace(a.cfg.Traces); err != nil {
		return nil, err
	}
	t := &turn{api: a, asked: q, principal: principal, homeID: a.cfg.NewID("rs_")}
	if err := t.lookUp(); err != nil {
		return nil, err
	}
	if t.model, err = a.models.Use(ctx, w.Model); err != nil {
		return nil, wire.FromError(err, params)
	}
	if err := t.assemble(ctx); err != nil {
		t.model.Release()
		return nil, err
	}
	return t, nil
}

// lookUp finds the responses and items that the request names.
func (t *turn) lookUp() error {
	a, q := t.api, t.asked
	t.root = a.cfg.NewID("resp_")
	t.response = &Response{ID: t.root}
	if id := q.wire.PreviousResponseID; id != nil && *id != "" {
		chain, missing := a.store.chain(t.principal.ID, *id)
		if missing != "" {
			return wire.Errorf("previous_response_not_found", "this response, or one that it continues, is not stored (any "+
				"more); send the whole conversation as input").At("previous_response_id")
		}
		last := chain[len(chain)-1]
		if s := last.response.Status; s != statusCompleted && s != statusIncomplete {
			return wire.Invalid("previous_response_id",
				"the response is %s; one can go on from a completed or incomplete one only", s)
		}
		t.chain, t.root = chain, last.root
	}
	for i := range q.items {
		if err := t.dereference(&q.items[i]); err != nil {
			return err
		}
	}
	return nil
}

// dereference replaces an item that only names a stored one: a reference, or an empty reasoning item.
func (t *turn) dereference(e *entry) error {
	ref, isRef := e.item.(*reference)
	r, isReasoning := e.item.(*Reasoning)
	if !isRef && (!isReasoning || r.ID == "" || r.EncryptedContent != "" || len(r.Content) > 0) {
		return nil
	}
	item, rec := t.api.store.item(t.principal.ID, idOf(e.item))
	if item == nil {
		if isRef {
			return wire.Errorf("item_not_found", "the item %q is not stored (any more); send the item itself",
				wire.Clip(ref.id)).At(e.path + ".id")
		}
		return nil // an empty item has no effect
	}
	e.item = item
	r, ok := item.(*Reasoning)
	value := ""
	if ok {
		value = r.EncryptedContent
	}
	if value == "" && idOf(item) == rec.homeID {
		value = rec.thoughts
	}
	if value != "" {
		// The value belongs to the conversation of its response, which may be another one.
		home := rec.home
		if rec.root != t.root {
			home.Conversation = t.conversation()
		}
		e.sealed, e.home = value, &home
	}
	if ok {
		if e.item = t.api.reveal(r, rec); rec.shown.Cap(t.principal.Reasoning) != nil {
			e.item = &Reasoning{ID: r.ID, Type: typeReasoning, Summary: []Part{}}
		}
	}
	return nil
}

// history returns the entries of the earlier responses. Their reasoning is the sealed one, whether it was shown or not.
func (t *turn) history() []entry {
	var entries []entry
	for _, r := range t.chain {
		for _, e := range r.input {
			if e.item = t.api.reveal(e.item, r); e.sealed == "" {
				e.home = &r.home
			}
			entries = append(entries, e)
		}
		if r.thoughts != "" {
			entries = append(entries, entry{item: &Reasoning{Type: typeReasoning}, sealed: r.thoughts, home: &r.home})
		}
		for _, item := range r.response.Output {
			if _, ok := item.(*Reasoning); !ok {
				entries = append(entries, entry{item: item})
			}
		}
	}
	return entries
}

// unrepeated returns the items of the request without those of earlier responses, which some clients send again.
func (t *turn) unrepeated() []entry {
	known := map[string]bool{}
	for _, r := range t.chain {
		for item := range r.items() {
			known[idOf(item)] = true
		}
	}
	delete(known, "") // items without an id are not compared
	return slices.DeleteFunc(slices.Clone(t.asked.items), func(e entry) bool { return known[idOf(e.item)] })
}

// conversation identifies the conversation by the first response of the chain. Without previous_response_id the client
// sends the whole conversation, and it has no id.
func (t *turn) conversation() seal.Conversation {
	if len(t.chain) == 0 {
		return seal.Conversation{}
	}
	return seal.ConversationID("response", t.root)
}

// assemble makes the request for the model and describes it in the response.
func (t *turn) assemble(ctx context.Context) error {
	q := t.asked
	entries := append(t.history(), t.unrepeated()...)
	t.home = seal.Scope{Principal: t.principal.ID, Model: contract.WeightsOf(t.model), Conversation: t.conversation()}
	restorer := contract.NewRestorer(t.api.cfg.Seal, t.home, t.api.cfg.StrictSeal)
	said, err := messages(entries, &opener{restorer, t.home.Model})
	if err != nil {
		return err
	}
	q.warnings = append(q.warnings, restorer.Warnings()...)
	t.request = q.request
	if i := q.wire.Instructions; i != nil && *i != "" {
		said = append([]chattemplate.Message{{Role: chattemplate.System, Content: *i}}, said...)
	}
	t.request.Messages = said
	t.request.Unremembered = !q.store
	t.request.Seal = q.store || q.contract.Seal
	t.observer = contract.Reply(contract.Begin(t.api.cfg.Seal, t.home, said),
		contract.Tracer(q.contract.Encrypt, t.api.cfg.Traces, t.principal, t.response.ID))
	t.loosen(ctx)
	if q.truncates {
		dropped, err := contract.Shorten(ctx, t.model, t.principal.ID, &t.request)
		if err != nil {
			return wireError(err)
		}
		if dropped > 0 {
			q.warnings.Add(CodeTruncated, strconv.Itoa(dropped)+" messages were left out so that the rest fits into the context")
		}
	}
	t.describe()
	return nil
}

// loosen turns off strict for functions whose calls cannot be made to match their parameters, if the client did not ask
// for strict.
func (t *turn) loosen(ctx context.Context) {
	q := t.asked
	for _, tool := range q.loose {
		if !wire.Given(tool.Parameters) || t.model.CheckTool(ctx,
			chattemplate.Tool{Name: tool.full, Parameters: tool.Parameters}) == nil {
			continue
		}
		no := false
		tool.Strict = &no
		for j := range t.request.Tools {
			if t.request.Tools[j].Name == tool.full {
				t.request.Tools[j].Strict = false
			}
		}
		q.warnings.Add(CodeStrictUnavailable,
			"the parameters of "+tool.path+" cannot be enforced; set strict to true to get the reason")
	}
}

// describe sets the fields of the response that repeat the request.
func (t *turn) describe() {
	q, w, r := t.asked, t.asked.wire, t.response
	r.Object, r.Status, r.Output = "response", statusInProgress, []Item{}
	r.CreatedAt = t.api.cfg.Clock().Unix()
	r.Background, r.Store, r.Model = is(w.Background, false), q.store, t.model.Card().Name
	r.Instructions, r.MaxOutputTokens, r.MaxToolCalls = w.Instructions, w.MaxOutputTokens, w.MaxToolCalls
	if r.Metadata = w.Metadata; r.Metadata == nil {
		r.Metadata = map[string]string{}
	}
	if len(t.chain) > 0 {
		r.PreviousResponseID = w.PreviousResponseID
	}
	r.User, r.SafetyIdentifier, r.PromptCacheKey, r.ServiceTier = w.User, w.SafetyIdentifier, w.PromptCacheKey, "default"
	r.ParallelToolCalls, r.Tools, r.ToolChoice, r.Text = is(w.ParallelToolCalls, true), q.tools, w.ToolChoice, q.text
	sampling := t.request.Sampling.Plain()
	r.Temperature, r.TopP = plain(sampling.Temperature), plain(sampling.TopP)
	if w.TopP != nil {
		r.TopP = *w.TopP
	}
	r.TopLogprobs = t.request.Sampling.TopLogprobs
	if r.Truncation = "disabled"; q.truncates {
		r.Truncation = "auto"
	}
	if e := string(q.contract.Effort); e != "" {
		r.Reasoning.Effort = &e
	}
	if s := q.contract.Summary; s != "" {
		r.Reasoning.Summary = &s
	}
	r.Warnings = q.warnings
}

// plain converts a number without adding digits: the result is written in the same way.
func plain(f float32) float64 {
	v, _ := strconv.ParseFloat(strconv.FormatFloat(float64(f), 'g', -1, 32), 64)
	return v
}

// begin makes the encoder of the turn, which fills in its response.
func (t *turn) begin(emit func(name string, event any) error) {
	t.enc = &encoder{
		resp: t.response, emit: emit, newID: t.api.cfg.NewID, homeID: t.homeID, carries: t.asked.contract.Seal,
		custom: t.asked.custom, groups: t.asked.groups, clock: func() int64 { return t.api.cfg.Clock().Unix() },
	}
	t.enc.To = t.enc.take
	t.free = contract.FreeCalls{Names: t.asked.custom, To: t.enc.push}
}

// streamed reports whether the request asks for a stream.
func (t *turn) streamed() bool { return is(t.asked.wire.Stream, false) }

// Push implements [wire.Encoder].
func (t *turn) Push(_ int, e *reasoning.Event) error {
	if t.started = true; e.Kind == reasoning.Done {
		t.end(e, nil)
		return nil
	}
	if _ = t.free.Push(e); t.enc.lost != nil {
		return errCancelled // the client has gone
	}
	return nil
}

// End implements [wire.Encoder]. A failure is also in the response.
func (t *turn) End(err error) {
	if err == nil && !t.enc.over {
		err = errCancelled
	}
	if err != nil {
		t.failure = failed(err)
		t.end(nil, t.failure)
	}
}

// runs returns the only run of the turn.
func (t *turn) runs() []wire.Run { return []wire.Run{{Request: t.request, Observer: t.observer}} }

// run generates and ends the response. If the run has not started, the failure is only returned.
func (t *turn) run(ctx context.Context) *wire.Error {
	err := wire.Generate(ctx, t.model, t.runs(), func() {}, t.Push)
	if t.started || t.tooLong(err) {
		t.End(err)
		return t.failure
	}
	return failed(err)
}

// tooLong begins a response that is too long, and reports whether it is, if the request asks for a stream: the error is
// in the stream, as in OpenAI's API. Codex looks for it only there.
func (t *turn) tooLong(err error) bool {
	if !t.streamed() || failed(err).Code != wire.CodeContextLength {
		return false
	}
	t.started = true
	t.enc.create()
	return true
}

// failed converts the error of a run.
func failed(err error) *wire.Error {
	if errors.Is(err, errCancelled) {
		return wire.Errorf(wire.CodeClientCancelled, "%s", errCancelled)
	}
	return wireError(err)
}

// end passes the last event or the failure to the encoder. The response is stored before the client learns that it is
// finished.
func (t *turn) end(done *reasoning.Event, failure *wire.Error) {
	t.enc.atEnd = func() {
		if !t.asked.store {
			return
		}
		_ = wire.Work(t.from) // it is also stored if the client has gone
		defer wire.Rest(t.from)
		if !t.keep(t.enc.ending.Sealed) {
			t.response.Warnings = append(t.response.Warnings,
				wire.Warning{Code: CodeNotStored, Message: "the response is too large to be stored; its id cannot be used"})
		}
	}
	if failure != nil {
		t.enc.fail(failure)
		return
	}
	_ = t.enc.push(done)
}

// keep stores the response in its present state, and reports whether there was room.
func (t *turn) keep(thoughts string) bool {
	r, ok := t.record(thoughts)
	if !ok {
		return false
	}
	if t.kept != nil {
		return t.api.store.replace(t.kept, r)
	}
	return t.api.store.put(r)
}

// recordCost estimates the memory of a record without its texts, in bytes.
const recordCost = 2048

// record returns the response for the store, with all reasoning sealed. ok is false if that failed.
func (t *turn) record(thoughts string) (*record, bool) {
	copied := *t.response
	r := &record{
		id: copied.ID, principal: t.principal.ID, root: t.root, made: time.Unix(copied.CreatedAt, 0), response: &copied,
		thoughts: thoughts, home: t.home, homeID: t.homeID, shown: t.request.Visibility, run: t.background,
	}
	if copied.PreviousResponseID != nil {
		r.previous = *copied.PreviousResponseID
	}
	ok := true
	if copied.Rationale = nil; len(t.response.Rationale) > 0 {
		r.rationale = t.sealed(rationalePart(copied.ID), t.response.Rationale, &ok)
		r.size += len(r.rationale)
	}
	copied.Output = make([]Item, len(t.response.Output))
	for i, item := range t.response.Output {
		copied.Output[i] = t.conceal(item, &ok)
	}
	inputs := make([]Item, len(t.asked.items))
	for i, e := range t.asked.items {
		if id, kind := e.item.head(); *id == "" {
			*id = t.api.cfg.NewID(idPrefix[kind])
		}
		e.path, e.item = "", t.conceal(e.item, &ok)
		r.input = append(r.input, e)
		inputs[i] = e.item
		r.size += len(e.sealed)
	}
	size := func(v any) int {
		data, err := json.Marshal(v)
		ok = ok && err == nil
		return len(data)
	}
	r.size += recordCost + size(&copied) + size(inputs) + len(thoughts)
	for item := range r.items() {
		if item, isReasoning := item.(*Reasoning); isReasoning {
			r.size += len(item.sealed)
		}
	}
	if t.background != nil {
		r.size += t.background.log.size()
	}
	return r, ok
}

// storedScope returns the scope with which a part of a response is sealed for the store.
func storedScope(principal string, model seal.Model, part string) seal.Scope {
	return seal.Scope{Principal: principal, Model: model, Conversation: seal.ConversationID("stored", part)}
}

// sealed seals a part of the response for the store. It sets ok to false if that fails.
func (t *turn) sealed(part string, v any, ok *bool) (value string) {
	data, err := json.Marshal(v)
	if err == nil {
		value, err = t.api.cfg.Seal.Seal(storedScope(t.principal.ID, t.home.Model, part), string(data))
	}
	*ok = *ok && err == nil
	return value
}

// opened opens a part of a stored response into v. It reports whether it could, because the key may be gone.
func (a *API) opened(r *record, part, value string, v any) bool {
	data, err := a.cfg.Seal.Open(storedScope(r.principal, r.home.Model, part), value)
	return err == nil && json.Unmarshal([]byte(data), v) == nil
}

// The names of sealed parts: the text of a reasoning item and the rationale of a response.
func textPart(id string) string      { return "text of " + id }
func rationalePart(id string) string { return "rationale of " + id }

// conceal returns an item with its reasoning sealed for the store. It sets ok to false if that fails.
func (t *turn) conceal(item Item, ok *bool) Item {
	r, isReasoning := item.(*Reasoning)
	if !isReasoning || len(r.Content) == 0 {
		return item
	}
	copied := *r
	texts := make([]string, len(r.Content))
	for i, p := range r.Content {
		texts[i] = p.Text
	}
	copied.sealed, copied.Content = t.sealed(textPart(r.ID), texts, ok), nil
	return &copied
}

// reveal returns a stored item with its reasoning opened.
func (a *API) reveal(item Item, r *record) Item {
	stored, isReasoning := item.(*Reasoning)
	if !isReasoning || stored.sealed == "" {
		return item
	}
	copied := *stored
	var texts []string
	if !a.opened(r, textPart(stored.ID), stored.sealed, &texts) {
		return item
	}
	for _, text := range texts {
		copied.Content = append(copied.Content, Part{Type: partReasoning, Text: text})
	}
	return &copied
}
