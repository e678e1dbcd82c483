package cli

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// Clients that combine several tool servers send hundreds of functions. Every format accepts them, and they reach the
// prompt.
func TestManyToolsInEveryFormat(t *testing.T) {
	url := wholeServer(t, io.Discard)
	const many = 200
	for format, tool := range map[string]string{
		"chat":      `{"type":"function","function":{"name":"f%d"}}`,
		"responses": `{"type":"function","name":"f%d"}`,
		"anthropic": `{"name":"f%d","input_schema":{"type":"object"}}`,
		"ollama":    `{"type":"function","function":{"name":"f%d"}}`,
	} {
		list := make([]string, many)
		for i := range list {
			list[i] = fmt.Sprintf(tool, i)
		}
		status, _, warned, out := ask(t, url, "most", format, "", `,"tools":[`+strings.Join(list, ",")+`]`)
		if status != http.StatusOK || len(warned) > 0 {
			t.Errorf("%s: %d, %q: %.600s", format, status, warned, out)
		}
	}
	list := make([]string, many)
	for i := range list {
		list[i] = fmt.Sprintf(`{"name":"f%d","description":"a"}`, i)
	}
	body := `{"threadId":"t","runId":"r","messages":[{"id":"m","role":"user","content":"` + asksSum + `"}],` +
		`"forwardedProps":{"model":"demo"},"tools":[` + strings.Join(list, ",") + `]}`
	if status, out := all(t.Context(), t, http.MethodPost, url+"/agui", "most", body); status != http.StatusOK {
		t.Errorf("agui: %d: %.600s", status, out)
	}
}
