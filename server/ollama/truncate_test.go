package ollama

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"runner/backend/fake"
	"runner/server/wiretest"
)

// A chat that does not fit loses its oldest messages, but not its system message and its last ones. It is refused if
// truncate is false, or if the last message alone does not fit.
func TestLongChatsLoseTheirOldestMessages(t *testing.T) {
	const context = 600
	long := func(last string) string {
		list := []string{`{"role":"system","content":"Rules stay."}`}
		for i := range 12 {
			list = append(list,
				fmt.Sprintf(`{"role":"user","content":"Question %d %s"}`, i, strings.Repeat("word ", 8)),
				fmt.Sprintf(`{"role":"assistant","content":"Answer %d."}`, i))
		}
		return strings.Join(append(list, `{"role":"user","content":"`+last+`"}`), ",")
	}
	calls := `{"role":"user","content":"sum"}`
	for i := range 12 {
		calls += fmt.Sprintf(`,{"role":"assistant","tool_calls":[{"function":{"name":"get","arguments":{"a":%d}}}]},`+
			`{"role":"tool","tool_name":"get","content":"Result %d %s"}`,
			i, i, strings.Repeat("word ", 10))
	}
	for name, c := range map[string]struct {
		messages, more string
		status         int
		has, lacks     []string
	}{
		"by default": {long("sum"), "", 200,
			[]string{"Rules stay.", "Question 11", "Answer 11.", "sum"}, []string{"Question 0", "Answer 0."}},
		"true": {long("sum"), `,"truncate":true`, 200,
			[]string{"Rules stay.", "Question 11"}, []string{"Question 0"}},
		"null": {long("sum"), `,"truncate":null`, 200,
			[]string{"Rules stay.", "Question 11"}, []string{"Question 0"}},
		"little to say": {long("sum"), `,"options":{"num_predict":5}`, 200,
			[]string{"Rules stay.", "Question 9"}, []string{"Question 0"}},
		"calls":    {calls, tool, 200, []string{"sum", "Result 11"}, []string{"Result 0"}},
		"false":    {long("sum"), `,"truncate":false`, 400, nil, nil},
		"the last": {long(strings.Repeat("word ", context)), "", 400, nil, nil},
		"short":    {`{"role":"user","content":"sum"}`, "", 200, []string{"sum"}, nil},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprint(name, stream), func(t *testing.T) {
				s := serve(t, fake.Config{ContextSize: context}, wiretest.Anyone(), replies()...)
				body := fmt.Sprintf(`{"model":%q,"stream":%t%s,"messages":[%s]}`, wiretest.Name, stream, c.more, c.messages)
				status, answer := s.ask(t, http.MethodPost, "/api/chat", body)
				if status != c.status || status == http.StatusBadRequest &&
					!strings.Contains(answer, "exceeds the context length") {
					t.Fatalf("status %d: %s", status, answer)
				}
				if status != http.StatusOK {
					return
				}
				if warned := strings.Contains(answer, `"input_truncated"`); warned != (c.lacks != nil) {
					t.Errorf("warned: %t: %s", warned, answer)
				}
				prompt := s.Prompt(t)
				for _, text := range c.has {
					if !strings.Contains(prompt, text) {
						t.Errorf("%q is not in %q", text, prompt)
					}
				}
				for _, text := range c.lacks {
					if strings.Contains(prompt, text+" ") || strings.Contains(prompt, text+"<") {
						t.Errorf("%q is in %q", text, prompt)
					}
				}
			})
		}
	}
}

// Any text to embed is truncated to the context, unless the request forbids that.
func TestEmbeddingsAreCutAtTheContext(t *testing.T) {
	const context = 64
	s := serve(t, fake.Config{ContextSize: context}, wiretest.Anyone())
	whole := strings.Repeat("7", context)
	vectors := func(path, fields string) (any, any) {
		m := s.get(t, http.MethodPost, path, `{"model":"`+wiretest.Name+`",`+fields+`}`)
		if path == "/api/embeddings" {
			return []any{m["embedding"]}, nil
		}
		return m["embeddings"], m["prompt_eval_count"]
	}
	want, _ := vectors("/api/embed", `"input":"`+whole+`"`)
	for _, longer := range []int{1, context, 2049, 100_000} {
		for path, fields := range map[string]string{
			"/api/embed": `"input":"%s"`, "/api/embed?": `"truncate":true,"input":["%s"]`, "/api/embeddings": `"prompt":"%s"`,
		} {
			got, counted := vectors(strings.TrimSuffix(path, "?"), fmt.Sprintf(fields, whole+strings.Repeat("8", longer)))
			if fmt.Sprint(got) != fmt.Sprint(want) || counted != nil && counted != float64(context) {
				t.Errorf("%s, %d more: %v tokens, %v, want %v", path, longer, counted, got, want)
			}
		}
		body := `{"model":"` + wiretest.Name + `","truncate":false,"input":"` + whole + strings.Repeat("8", longer) + `"}`
		status, answer := s.ask(t, http.MethodPost, "/api/embed", body)
		if status != http.StatusBadRequest || !strings.Contains(answer, "context_length_exceeded") {
			t.Errorf("%d more with truncate false: %d %s", longer, status, answer)
		}
	}
	body := `{"model":"` + wiretest.Name + `","truncate":false,"input":"` + whole + `"}`
	if status, answer := s.ask(t, http.MethodPost, "/api/embed", body); status != http.StatusOK {
		t.Errorf("a text that fills the context: %d %s", status, answer)
	}
}
