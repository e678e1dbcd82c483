package anthropic

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"runner/backend/fake"
	"runner/chattemplate"
	"runner/reasoning"
	"runner/server/wiretest"
)

// conversation returns a request with these messages, after a question and its answer.
func conversation(fields string, messages ...string) string {
	list := append([]string{`{"role":"user","content":"hi"}`, `{"role":"assistant","content":"ho"}`}, messages...)
	return `{"max_tokens":20` + fields + `,"messages":[` + strings.Join(list, ",") + `]}`
}

func user(blocks string) string { return `{"role":"user","content":` + blocks + `}` }

// nothingLeftOut checks that no warning says that a part of the request was left out.
func nothingLeftOut(t *testing.T, m map[string]any) {
	t.Helper()
	if w := fmt.Sprint(m["warnings"]); strings.Contains(w, "left out") {
		t.Errorf("warnings %s", w)
	}
}

// What changes in the first line of Claude Code's system prompt does not reach the prompt.
func TestBillingLineIsLeftOut(t *testing.T) {
	s := serve(t, fake.Config{}, wiretest.Anyone(), fake.Reply{Say: ""})
	var prompts []string
	for _, system := range []string{
		`[{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1; cch=1a2b3;"},` +
			`{"type":"text","text":"Be brief."}]`,
		`[{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1; cch=fffff;\nBe brief."}]`,
		`"x-anthropic-billing-header: cch=00000;\nBe brief."`,
		`"Be brief."`,
	} {
		s.message(t, conversation(`,"system":`+system, user(`"go on"`)))
		prompts = append(prompts, s.Prompt(t))
	}
	for i, p := range prompts {
		if p != prompts[len(prompts)-1] {
			t.Errorf("prompt %d is %q", i, p)
		}
	}
	s.message(t, conversation("", user(`"x-anthropic-billing-header: mine"`)))
	if p := s.Prompt(t); !strings.Contains(p, "x-anthropic-billing-header: mine") {
		t.Errorf("a user's text was changed: %q", p)
	}
}

// A tool with defer_loading is unknown to the model until a result refers to it. The prompt before that result stays as
// it was, so that it is not read again.
func TestToolsAreFoundLater(t *testing.T) {
	s := serve(t, fake.Config{}, wiretest.Anyone(), fake.Reply{Say: ""})
	tools := `,"tools":[{"name":"search","input_schema":{"type":"object"}},` +
		`{"name":"weather","description":"Tells the weather.","defer_loading":true,"input_schema":{"type":"object"}},` +
		`{"name":"stocks","defer_loading":true,"input_schema":{"type":"object"}}]`
	call := `{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"search","input":{}}]}`
	s.message(t, conversation(tools, user(`"find"`)))
	before := s.Prompt(t)
	if got := len(s.Last().Tools); got != 1 || strings.Contains(before, "weather") {
		t.Errorf("%d tools are offered before the search; the prompt is %q", got, before)
	}
	s.message(t, conversation(tools, user(`"find"`), call, user(`[{"type":"tool_result","tool_use_id":"c1","content":[`+
		`{"type":"tool_reference","tool_name":"weather"},{"type":"tool_reference","tool_name":"nothing"},`+
		`{"type":"tool_reference","tool_name":"weather"}]}]`)))
	var names []string
	for _, tool := range s.Last().Tools {
		names = append(names, tool.Name)
	}
	if got := strings.Join(names, " "); got != "search weather" {
		t.Errorf("tools after the search: %s", got)
	}
	after := s.Prompt(t)
	shared := strings.TrimSuffix(before, "<|start|>assistant")
	if !strings.HasPrefix(after, shared) || strings.Count(after[len(shared):], "Tells the weather.") != 1 ||
		strings.Contains(after, "stocks") {
		t.Errorf("the prompt before the search %q\nand after it %q", before, after)
	}
}

func TestClientToolsHaveParameters(t *testing.T) {
	s := serve(t, fake.Config{}, wiretest.Anyone(), fake.Reply{Say: ""})
	m := s.message(t, conversation(`,"tools":[{"type":"bash_20250124","name":"bash"},`+
		`{"type":"text_editor_20250728","name":"str_replace_based_edit_tool","max_characters":100},`+
		`{"type":"memory_20250818","name":"memory"}]`, user(`"go"`)))
	nothingLeftOut(t, m)
	want := map[string]string{"bash": "restart", "str_replace_based_edit_tool": "insert_text", "memory": "old_path"}
	for _, tool := range s.Last().Tools {
		var schema struct{ Properties map[string]any }
		if err := json.Unmarshal(tool.Parameters, &schema); err != nil || schema.Properties[want[tool.Name]] == nil {
			t.Errorf("%s has the parameters %s (%v)", tool.Name, tool.Parameters, err)
		}
		delete(want, tool.Name)
	}
	if len(want) > 0 {
		t.Errorf("missing %v", want)
	}
}

func TestTextInOtherBlocksIsRead(t *testing.T) {
	s := serve(t, fake.Config{}, wiretest.Anyone(), fake.Reply{Say: ""})
	m := s.message(t, conversation("", user(`[
		{"type":"document","title":"Notes","source":{"type":"text","media_type":"text/plain","data":"alpha"}},
		{"type":"document","source":{"type":"content","content":[{"type":"text","text":"beta"}]}},
		{"type":"search_result","title":"Found","source":"file:///x","content":[{"type":"text","text":"gamma"}]},
		{"type":"text","text":"Which?"}]`)))
	nothingLeftOut(t, m)
	said := s.Last().Messages[2].Content
	for _, want := range []string{"<document title=\"Notes\">\nalpha\n</document>", "<document>\nbeta\n</document>",
		"<search_result title=\"Found\" source=\"file:///x\">\ngamma\n</search_result>", "\n\nWhich?"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in %q", want, said)
		}
	}
}

// What stands in a history never ends a conversation. Only an image in the last message is refused, because the model
// would answer without having seen it.
func TestNothingInAHistoryIsRefused(t *testing.T) {
	s := serve(t, fake.Config{}, wiretest.Anyone(), fake.Reply{Say: ""})
	image := `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}`
	pdf := `{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0="}}`
	for _, last := range []string{image, pdf} {
		status, answer := s.post(t, "/v1/messages", conversation("", user(`[`+last+`,{"type":"text","text":"what is it?"}]`)))
		if status != http.StatusBadRequest || !strings.Contains(answer, "messages[2].content[0]") {
			t.Errorf("%d %s", status, answer)
		}
	}
	call := `{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"read","input":{}}]}`
	for name, c := range map[string]struct{ code, note, body string }{
		"an image before": {"media_skipped", "[image:", conversation("", user(`[`+image+`]`), user(`"go on"`))},
		"a file before":   {"media_skipped", "[document:", conversation("", user(`[`+pdf+`]`), user(`"go on"`))},
		"an image as a result": {"media_skipped", "[image:", conversation("", user(`"go"`), call,
			user(`[{"type":"tool_result","tool_use_id":"c1","content":[`+image+`,`+image+`]}]`))},
		"hosted tools": {"block_skipped", "", conversation("", user(`"go"`), `{"role":"assistant","content":[`+
			`{"type":"server_tool_use","id":"s1","name":"web_search","input":{}},`+
			`{"type":"web_search_tool_result","tool_use_id":"s1","content":[]},`+
			`{"type":"mcp_tool_use","id":"m1","name":"x","server_name":"y","input":{}},{"type":"text","text":"Found."}]}`,
			user(`"go on"`))},
		"a compaction": {"block_skipped", "", conversation("", `{"role":"assistant","content":[`+
			`{"type":"compaction","content":"short"}]}`, user(`"go on"`))},
	} {
		m := s.message(t, c.body)
		w := fmt.Sprint(m["warnings"])
		if strings.Count(w, c.code) != 1 || !strings.Contains(s.Prompt(t), c.note) {
			t.Errorf("%s: warnings %s, prompt %q", name, w, s.Prompt(t))
		}
	}
}

// Tools that no search can find are known from the start.
func TestDeferredToolsWithoutASearchAreKnown(t *testing.T) {
	s := serve(t, fake.Config{}, wiretest.Anyone(), fake.Reply{Say: ""})
	later := `{"name":"sum","defer_loading":true,"input_schema":{"type":"object"}}`
	own := `{"name":"find","input_schema":{"type":"object"}}`
	hosted := `{"type":"tool_search_tool_regex_20251119","name":"tool_search_tool_regex"}`
	called := `{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"sum","input":{}}]}`
	result := user(`[{"type":"tool_result","tool_use_id":"c1","content":"4"}]`)
	both := `,"tools":[` + own + `,` + later + `]`
	for name, c := range map[string]struct {
		body  string
		known bool
	}{
		"alone":         {conversation(`,"tools":[`+later+`]`, user(`"go"`)), true},
		"hosted search": {conversation(`,"tools":[`+own+`,`+hosted+`,`+later+`]`, user(`"go"`)), true},
		"named":         {conversation(both+`,"tool_choice":{"type":"tool","name":"sum"}`, user(`"go"`)), true},
		"called before": {conversation(both, user(`"go"`), called, result), true},
		"own search":    {conversation(both, user(`"go"`)), false},
	} {
		s.message(t, c.body)
		is := func(t chattemplate.Tool) bool { return t.Name == "sum" }
		if known := slices.ContainsFunc(s.Last().Tools, is); known != c.known {
			t.Errorf("%s: known %v", name, known)
		}
	}
}

func TestContextManagementIsWarnedOf(t *testing.T) {
	s := serve(t, fake.Config{}, wiretest.Anyone(), fake.Reply{Say: ""})
	m := s.message(t, conversation(`,"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]}`,
		user(`"go"`)))
	if w := fmt.Sprint(m["warnings"]); !strings.Contains(w, "context_management") {
		t.Errorf("warnings %s", w)
	}
	m = s.message(t, conversation(`,"context_management":{"edits":[]}`, user(`"go"`)))
	if strings.Contains(fmt.Sprint(m["warnings"]), "context_management") {
		t.Errorf("warnings %v", m["warnings"])
	}
}

func TestUpdatesAreSummaries(t *testing.T) {
	s := serve(t, fake.Config{}, wiretest.Anyone(), fake.Reply{Say: ""})
	s.message(t, body("hi", `,"thinking":{"type":"adaptive","display":"updates"}`))
	if v := s.Last().Visibility; v != reasoning.VisibilitySummary {
		t.Errorf("visibility %v", v)
	}
}

func TestHello(t *testing.T) {
	s := serve(t, fake.Config{}, wiretest.Anyone())
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		if status, _, body := wiretest.Send(t, method, s.url+"/api/hello", "", nil); status != http.StatusOK {
			t.Errorf("%s: %d %s", method, status, body)
		}
	}
}
