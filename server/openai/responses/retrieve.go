package responses

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"

	"runner/reasoning"
	"runner/server/wire"
)

const visibilityFull = reasoning.VisibilityFull

// stored returns the response that a request names. It returns an error if the principal has no such response, or
// if the response shows more of the reasoning than the principal may see now.
func (a *API) stored(r *http.Request) (*record, error) {
	p := wire.PrincipalOf(r.Context())
	rec := a.store.get(p.ID, r.PathValue("id"))
	if rec == nil {
		return nil, notFound()
	}
	if err := rec.shown.Cap(p.Reasoning); err != nil {
		return nil, wire.FromError(err, nil)
	}
	return rec, nil
}

func notFound() *wire.Error {
	return wire.Errorf(wire.CodeNotFound, "no response with this id is stored (any more)")
}

// show returns a stored response with its reasoning opened.
func (a *API) show(rec *record) *Response {
	response := *rec.response
	response.Output = make([]Item, len(rec.response.Output))
	for i, item := range rec.response.Output {
		response.Output[i] = a.reveal(item, rec)
	}
	if rec.rationale != "" {
		a.opened(rec, rationalePart(rec.id), rec.rationale, &response.Rationale)
	}
	return &response
}

// retrieve serves GET /v1/responses/{id}.
func (a *API) retrieve(w http.ResponseWriter, r *http.Request) error {
	rec, err := a.stored(r)
	if err != nil {
		return err
	}
	if wantsStream(r) {
		return a.replay(w, r, rec, r.URL.Query().Get("starting_after"))
	}
	return wire.Answer(w, a.show(rec))
}

// wantsStream reports whether a GET asks for a stream. OpenAI's Go client does so in a body.
func wantsStream(r *http.Request) bool {
	if q := r.URL.Query(); q.Has("stream") {
		return q.Get("stream") == "true"
	}
	var body struct {
		Stream bool `json:"stream"`
	}
	_ = json.NewDecoder(io.LimitReader(r.Body, 1<<10)).Decode(&body) // usually there is none
	return body.Stream
}

// replay streams the events of a response that are kept, and then new ones.
func (a *API) replay(w http.ResponseWriter, r *http.Request, rec *record, after string) error {
	if rec.run == nil || rec.run.log == nil {
		return wire.Unsupported("stream", "only responses that were created with background and stream keep their events")
	}
	n := 0
	if after != "" {
		last, err := strconv.Atoi(after)
		if err != nil || last < 0 {
			return wire.Invalid("starting_after", "it takes the sequence number of an event")
		}
		n = last + 1
	}
	return a.follow(w, r, rec.run.log, n)
}

// Deleted is the answer of DELETE /v1/responses/{id}.
//
//openapi:answer ResponseDeleted
type Deleted struct {
	// The id of the response.
	ID string `json:"id"`
	// The type of the deleted object.
	Object string `json:"object" api:"=response"`
	// Always true.
	Deleted bool `json:"deleted" api:"=true"`
}

// remove serves DELETE /v1/responses/{id}. It cancels a response that is not finished.
func (a *API) remove(w http.ResponseWriter, r *http.Request) error {
	rec := a.store.remove(wire.PrincipalOf(r.Context()).ID, r.PathValue("id"))
	if rec == nil {
		return notFound()
	}
	if rec.run.busy() {
		rec.run.cancel(errCancelled)
	}
	a.forget(rec.principal, rec.response)
	return wire.Answer(w, Deleted{ID: rec.id, Object: "response", Deleted: true})
}

// forget makes the models forget the reasoning before the calls of a response.
func (a *API) forget(principal string, r *Response) {
	if a.cfg.Calls == nil {
		return
	}
	for _, item := range r.Output {
		if call, ok := item.(*FunctionCall); ok {
			a.cfg.Calls.Forget(principal, call.CallID)
		}
	}
}

// cancel serves POST /v1/responses/{id}/cancel. Cancelling again is harmless.
func (a *API) cancel(w http.ResponseWriter, r *http.Request) error {
	rec, err := a.stored(r)
	if err != nil {
		return err
	}
	if rec.run == nil {
		return wire.Invalid("", "only responses in the background can be cancelled; to end another, close its connection")
	}
	rec.run.cancel(errCancelled)
	select {
	case <-rec.run.done:
	case <-r.Context().Done():
		return nil
	}
	if rec, err = a.stored(r); err != nil {
		return err
	}
	return wire.Answer(w, a.show(rec))
}

// ItemList is the answer of GET /v1/responses/{id}/input_items.
//
//openapi:answer ResponseItemList
type ItemList struct {
	// The type of this object.
	Object string `json:"object" api:"=list"`
	// The items.
	Data []Item `json:"data" api:"[]#ResponseItem"`
	// The id of the first item. Null if there is none.
	FirstID *string `json:"first_id"`
	// The id of the last item. Null if there is none.
	LastID *string `json:"last_id"`
	// Whether there are more.
	HasMore bool `json:"has_more"`
}

// maxPage is the maximum number of items on a page.
const maxPage = 100

// listInput serves GET /v1/responses/{id}/input_items: the items of the request, without those of earlier responses.
func (a *API) listInput(w http.ResponseWriter, r *http.Request) error {
	rec, err := a.stored(r)
	if err != nil {
		return err
	}
	query, err := wire.ReadPage(r.URL.Query(), maxPage)
	if err != nil {
		return err
	}
	items := make([]Item, len(rec.input))
	for i, e := range rec.input {
		items[i] = a.reveal(e.item, rec)
	}
	if !query.OldestFirst {
		slices.Reverse(items)
	}
	if query.After != "" {
		at := slices.IndexFunc(items, func(i Item) bool { return idOf(i) == query.After })
		if at < 0 {
			return wire.Invalid("after", "the response has no input item with this id")
		}
		items = items[at+1:]
	}
	page := ItemList{Object: "list", Data: items, HasMore: len(items) > query.Limit}
	if page.HasMore {
		page.Data = items[:query.Limit]
	}
	if n := len(page.Data); n > 0 {
		first, last := idOf(page.Data[0]), idOf(page.Data[n-1])
		page.FirstID, page.LastID = &first, &last
	}
	return wire.Answer(w, page)
}
