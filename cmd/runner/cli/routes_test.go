package cli

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// There is no route to compact a conversation, so clients do it themselves.
func TestNoRouteToCompact(t *testing.T) {
	url := wholeServer(t, io.Discard)
	for _, c := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{http.MethodPost, "/v1/responses/compact", http.StatusNotFound, ""},
		{http.MethodGet, "/v1/responses/compact", http.StatusNotFound, ""},
		{http.MethodOptions, "/v1/responses/compact", http.StatusNotFound, ""},
		{http.MethodOptions, "/v1/responses/input_tokens", http.StatusNoContent, "Allow: POST, OPTIONS"},
		{http.MethodOptions, "/v1/responses/resp_1", http.StatusNoContent, "Allow: GET, HEAD, DELETE, OPTIONS"},
		{http.MethodOptions, "/v1/responses", http.StatusNoContent, "Allow: POST, OPTIONS"},
		{http.MethodGet, "/v1/responses/resp_1", http.StatusNotFound, ""},
	} {
		status, out := all(t.Context(), t, c.method, url+c.path, "most", "")
		if status != c.status || strings.Contains(out, "Allow:") != (c.allow != "") || !strings.Contains(out, c.allow) {
			t.Errorf("%s %s: %d:\n%s", c.method, c.path, status, out)
		}
	}
}
