package openapi_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"
)

// FuzzRequests sends any input to the routes that decode a request and generate nothing. The decoders of the others
// have fuzz targets of their own. Every answer matches the description, and none says that the server failed.
func FuzzRequests(f *testing.F) {
	s := start(f, options{})
	posts := []string{"/v1/embeddings", "/api/show", "/api/embed", "/api/embeddings", "/v1/messages/count_tokens",
		"/apply-template", "/infill", "/tokenize", "/detokenize"}
	for i, body := range []string{
		`{"input":["a",[1,2]],"encoding_format":"base64","dimensions":3}`, `{"model":"demo","verbose":true}`,
		`{"model":"demo","input":["a"],"truncate":false}`, `{"model":"demo","prompt":"a"}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}],"system":"b","tools":[{"name":"n",` +
			`"input_schema":{"type":"object"}}]}`,
		`{"messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"name":"n"}}],` +
			`"response_format":{"type":"json_object"},"reasoning_effort":"low"}`,
		`{"content":"a","add_special":true,"parse_special":true,"with_pieces":true}`, `{"tokens":[1,2]}`,
	} {
		f.Add(uint8(i), body)
	}
	f.Add(uint8(len(posts)), "1")
	f.Add(uint8(len(posts)), "resp_1")
	f.Fuzz(func(t *testing.T, which uint8, text string) {
		if len(text) > 1000 {
			return // a query longer than headers may be never reaches a handler
		}
		var a *answer
		if i := int(which) % (len(posts) + 1); i < len(posts) {
			a = s.ask(t, http.MethodPost, posts[i], text, "Content-Type: application/json")
		} else {
			q := url.Values{}
			for _, name := range []string{"starting_after", "limit", "order", "after", "include[]", "stream"} {
				q.Set(name, text)
			}
			id := s.ask(t, http.MethodPost, "/v1/responses", `{"input":"`+question+`"}`)
			var made struct {
				ID string `json:"id"`
			}
			if err := json.Unmarshal(id.body, &made); err != nil {
				t.Fatal(err)
			}
			s.check(t, s.ask(t, http.MethodGet, "/v1/responses/"+made.ID+"?"+q.Encode(), ""))
			a = s.ask(t, http.MethodGet, "/v1/responses/"+made.ID+"/input_items?"+q.Encode(), "")
		}
		s.check(t, a)
		if a.status >= http.StatusInternalServerError && a.status != http.StatusNotImplemented {
			t.Errorf("%d: %s", a.status, a.body)
		}
	})
}
