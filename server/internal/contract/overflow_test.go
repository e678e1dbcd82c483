package contract_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"runner/backend/fake"
	"runner/server/agui"
	"runner/server/anthropic"
	"runner/server/ollama"
	"runner/server/openai"
	"runner/server/openai/responses"
	"runner/server/wire"
	"runner/server/wiretest"
)

// These are the words by which clients recognize that a prompt does not fit: langchain and litellm in Python, pi,
// Claude Code and Codex. The last two also read the numbers.
var (
	openAIWords = regexp.MustCompile(`^This model's maximum context length is (\d+) tokens\. However, your (\S+) ` +
		`resulted in (\d+) tokens(?:, [a-z ]+)?\. Please reduce the length of the (\S+)\.$`)
	anthropicWords = regexp.MustCompile(`^prompt is too long: (\d+) tokens > (\d+) maximum$`)
	ollamaWords    = regexp.MustCompile(`^the input length exceeds the context length: `)
)

// overflow is a request of a format whose text %s is too long, and the expected error.
type overflow struct {
	path, body string
	param      string
	// error and message are the places of the error in the answer.
	error []string
	words *regexp.Regexp
	// begins is the text before the words.
	begins string
}

const demo = `"model":"` + wiretest.Name + `"`

var overflows = map[string]overflow{
	"chat completions": {
		"/v1/chat/completions", `{` + demo + `,"messages":[{"role":"user","content":"%s"}]%s}`,
		"messages", []string{"error"}, openAIWords, "",
	},
	"completions": {
		"/v1/completions", `{` + demo + `,"prompt":"%s"%s}`,
		"prompt", []string{"error"}, openAIWords, "",
	},
	"responses": {
		"/v1/responses", `{` + demo + `,"input":"%s"%s}`,
		"input", []string{"error"}, openAIWords, "Your input exceeds the context window of this model. ",
	},
	"messages": {
		"/v1/messages", `{` + demo + `,"max_tokens":9,"messages":[{"role":"user","content":"%s"}]%s}`,
		"messages", []string{"error"}, anthropicWords, "",
	},
	"ollama chat": {
		"/api/chat", `{` + demo + `,"truncate":false,"messages":[{"role":"user","content":"%s"}]%s}`,
		"messages", nil, ollamaWords, "",
	},
	"ollama generate": {"/api/generate", `{` + demo + `,"prompt":"%s"%s}`, "prompt", nil, ollamaWords, ""},
	"ollama raw":      {"/api/generate", `{` + demo + `,"raw":true,"prompt":"%s"%s}`, "prompt", nil, ollamaWords, ""},
	"agui": {
		"/agui", `{"threadId":"t","runId":"r","state":{},"tools":[],"context":[],"forwardedProps":{},` +
			`"messages":[{"id":"1","role":"user","content":"%s"}]%s}`,
		"messages", nil, openAIWords, "",
	},
	"embeddings": {
		"/v1/embeddings", `{` + demo + `,"input":["a","%s"]%s}`,
		"input[1]", []string{"error"}, openAIWords, "",
	},
	"ollama embed": {
		"/api/embed", `{` + demo + `,"truncate":false,"input":["a","%s"]%s}`,
		"input[1]", nil, ollamaWords, "",
	},
	"ollama embeddings": {"/api/embed", `{` + demo + `,"truncate":false,"input":"%s"%s}`, "input", nil, ollamaWords, ""},
}

// Every format reports a prompt that is longer than the context with status 400, in the words that its clients match,
// and names the field. A stream of responses reports it in its events.
func TestOverflowUsesTheWordsThatClientsMatch(t *testing.T) {
	const context = 400
	models := wiretest.New(t, fake.Config{ContextSize: context})
	openAI, messages := openai.New(models, openai.Config{}), anthropic.New(models, anthropic.Config{})
	api := map[string]wire.Format{
		"/v1/chat/completions": openAI, "/v1/completions": openAI, "/v1/embeddings": openAI, "/v1/messages": messages,
		"/v1/responses": responses.New(models, responses.Config{}), "/agui": agui.New(models, agui.Config{}),
	}
	for name, o := range overflows {
		format := api[o.path]
		if format == nil {
			format = ollama.New(models, ollama.Config{})
		}
		url := wiretest.Serve(t, format, wiretest.Anyone()).URL + o.path
		for _, stream := range []string{"", `,"stream":true`, `,"stream":false`} {
			for _, length := range []int{context + 50, 100_000} {
				t.Run(fmt.Sprint(name, stream, length), func(t *testing.T) {
					body := fmt.Sprintf(o.body, strings.Repeat("a", length), stream)
					status, _, answer := wiretest.Send(t, http.MethodPost, url, body, http.Header{"Anthropic-Version": {"2023-06-01"}})
					if o.path == "/v1/responses" && stream == `,"stream":true` {
						o.checkStream(t, status, answer, context, length)
						return
					}
					if status != http.StatusBadRequest {
						t.Fatalf("status %d: %.300s", status, answer)
					}
					var e map[string]any
					read(t, answer, &e)
					for _, key := range o.error {
						e = e[key].(map[string]any)
					}
					o.check(t, e, context, length)
				})
			}
		}
	}
}

// check checks that clients recognize an error. If a text is so long that its tokens are not counted, the error has
// fewer words.
func (o *overflow) check(t *testing.T, e map[string]any, context, length int) {
	t.Helper()
	text := func(name string) string {
		s, _ := e[name].(string)
		return s
	}
	details, _ := e["details"].(map[string]any)
	code, param, message := text("code"), text("param"), text("message")
	if details != nil {
		code, _ = details["error_code"].(string)
		param, _ = details["param"].(string)
	}
	if message == "" {
		message = text("error")
	}
	if code != wire.CodeContextLength || param != o.param {
		t.Errorf("code %q, param %q", code, param)
	}
	words, ok := strings.CutPrefix(message, o.begins)
	counted := length < 10_000
	if !counted {
		for _, least := range []string{"more than ", "at least "} {
			words = strings.Replace(words, least, "", 1)
		}
	}
	found := o.words.FindStringSubmatch(words)
	if !ok || found == nil {
		t.Fatalf("the message is %q", message)
	}
	numbers := map[int]bool{}
	for _, s := range found[1:] {
		if n, err := strconv.Atoi(s); err == nil {
			numbers[n] = true
		} else if s != o.param {
			t.Errorf("the field is called %q in %q", s, message)
		}
	}
	if len(found) > 1 && !numbers[context] {
		t.Errorf("the context is not told: %q", message)
	}
}

// checkStream checks that a stream ends as OpenAI's does. Codex reads the code of response.failed. The official
// clients raise an exception at the event before it.
func (o *overflow) checkStream(t *testing.T, status int, answer string, context, length int) {
	t.Helper()
	if status != http.StatusOK {
		t.Fatalf("status %d: %.300s", status, answer)
	}
	var kinds []string
	for _, frame := range strings.Split(answer, "\n") {
		data, ok := strings.CutPrefix(frame, "data: ")
		if !ok {
			continue
		}
		var e map[string]any
		read(t, data, &e)
		kinds = append(kinds, e["type"].(string))
		switch e["type"] {
		case "error":
			o.check(t, e, context, length)
			o.check(t, e["error"].(map[string]any), context, length)
		case "response.failed":
			failed := e["response"].(map[string]any)
			cause := failed["error"].(map[string]any)
			if failed["status"] != "failed" || cause["code"] != wire.CodeContextLength ||
				!strings.HasPrefix(cause["message"].(string), o.begins) {
				t.Errorf("%.300s", data)
			}
		}
	}
	if got := strings.Join(kinds, " "); got != "response.created response.in_progress error response.failed" {
		t.Errorf("events %s", got)
	}
}
