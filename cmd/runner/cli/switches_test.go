package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// formats are the formats that say in reasoning_info what was in effect. $M is the model and $F the fields of a test.
var formats = []struct{ name, path, body, streamed string }{
	{"chat", "/v1/chat/completions", `{"model":"$M","messages":[{"role":"user","content":"` + asksSum + `"}]$F}`, `,"stream":true`},
	{"responses", "/v1/responses", `{"model":"$M","input":"` + asksSum + `"$F}`, `,"stream":true`},
	{"agui", "/agui", `{"threadId":"t","runId":"r","messages":[{"id":"m","role":"user","content":"` + asksSum + `"}],` +
		`"forwardedProps":{"model":"$M"$F}}`, ``},
	{"anthropic", "/v1/messages", `{"model":"$M","max_tokens":2000,"messages":[{"role":"user","content":"` + asksSum + `"}]$F}`, `,"stream":true`},
	{"ollama", "/api/chat", `{"model":"$M","messages":[{"role":"user","content":"` + asksSum + `"}]$F}`, `,"stream":true`},
	{"generate", "/api/generate", `{"model":"$M","prompt":"` + asksSum + `"$F}`, `,"stream":true`},
}

// inEffect is what an answer says of a run.
type inEffect struct {
	Visibility string `json:"visibility"`
	Effort     string `json:"effort"`
	Budget     int    `json:"budget"`
}

var (
	infoInAnswer    = regexp.MustCompile(`"reasoning_info":(\{[^}]*\})`)
	warningInAnswer = regexp.MustCompile(`"code":"(field_ignored|unsupported_parameter)","message":"([^"]*)"`)
)

// ask sends a request to a server with fields in a format, and returns what the answer says was in effect and what it warns of. How is "" or the
// format's way to stream.
func ask(t *testing.T, url, key, format, how, fields string) (status int, info inEffect, warned []string, out string) {
	t.Helper()
	for _, f := range formats {
		if f.name != format {
			continue
		}
		if how == "" && strings.HasPrefix(f.path, "/api/") {
			how = `,"stream":false`
		}
		body := strings.NewReplacer("$M", "demo", "$F", how+fields).Replace(f.body)
		status, out = all(t.Context(), t, http.MethodPost, url+f.path, key, body)
		if found := infoInAnswer.FindAllStringSubmatch(out, -1); len(found) > 0 {
			if err := json.Unmarshal([]byte(found[len(found)-1][1]), &info); err != nil {
				t.Fatal(err)
			}
		}
		for _, found := range warningInAnswer.FindAllStringSubmatch(out, -1) {
			warned = append(warned, found[2])
		}
		return status, info, warned, out
	}
	t.Fatalf("there is no format %s", format)
	return 0, info, nil, ""
}

// Every format takes every effort where it has a place for one, and says which was in effect.
func TestEffortsInEveryFormat(t *testing.T) {
	url := wholeServer(t, io.Discard)
	places := map[string][]string{
		"chat":      {`,"reasoning_effort":%q`, `,"reasoning":{"effort":%q}`, `,"chat_template_kwargs":{"reasoning_effort":%q}`},
		"responses": {`,"reasoning":{"effort":%q}`, `,"reasoning_effort":%q`},
		"agui":      {`,"reasoning_effort":%q`, `,"reasoning":{"effort":%q}`},
		"anthropic": {`,"output_config":{"effort":%q}`},
		"ollama":    {`,"think":%q`},
		"generate":  {`,"think":%q`},
	}
	for effort, want := range map[string]string{
		"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "high", "max": "high",
	} {
		for _, f := range formats {
			for _, place := range places[f.name] {
				for _, how := range []string{"", f.streamed} {
					fields := fmt.Sprintf(place, effort)
					status, info, _, out := ask(t, url, "most", f.name, how, fields)
					if status != http.StatusOK || info.Effort != want {
						t.Errorf("%s%s: %d, effort %q, want %q:\n%s", f.name, fields, status, info.Effort, want, out)
					}
					if f.name == "responses" && !strings.Contains(out, fmt.Sprintf(`"reasoning":{"effort":%q`, want)) {
						t.Errorf("responses%s: the response repeats another effort:\n%s", fields, out)
					}
				}
			}
		}
	}
}
