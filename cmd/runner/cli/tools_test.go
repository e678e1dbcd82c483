package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func FuzzTools(f *testing.F) {
	f.Add(
		[]byte(
			`[{"type":"function","function":{"name":"a","parameters":{"type":"object"}}},{"type":"web_search"},{"name":"b"}]`))
	f.Add([]byte(`{"name":"a","parameters":null,"strict":true}`))
	f.Add([]byte(`[{"name":"a","parameters":[]}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		tools, _, err := parseTools(data)
		if err != nil {
			if tools != nil {
				t.Fatal("tools with an error")
			}
			return
		}
		if len(tools) > maxTools {
			t.Fatalf("%d tools", len(tools))
		}
		names := map[string]bool{}
		for _, tool := range tools {
			if !toolName.MatchString(tool.Name) || names[tool.Name] {
				t.Fatalf("name %q", tool.Name)
			}
			names[tool.Name] = true
			if len(tool.Parameters) > 0 && (!json.Valid(tool.Parameters) || tool.Parameters[0] != '{') {
				t.Fatalf("parameters %q", tool.Parameters)
			}
		}
	})
}

func TestTooManyTools(t *testing.T) {
	_, _, err := parseTools([]byte("[" + strings.Repeat(`{"name":"a"},`, maxTools) + `{"name":"a"}]`))
	if err == nil || !strings.Contains(err.Error(), "1025 functions") {
		t.Error(err)
	}
}

func TestHistory(t *testing.T) {
	path := t.TempDir() + "/folder/history"
	h := openHistory(path)
	for _, line := range []string{"one", "two\nlines", " secret", "two\nlines"} {
		if err := h.add(line); err != nil {
			t.Fatal(err)
		}
	}
	if got := openHistory(path).lines; len(got) != 2 || got[1] != "two\nlines" {
		t.Errorf("read back %q", got)
	}
	for i := range 2*historyLines + 1 {
		if err := h.add(fmt.Sprint("more ", i)); err != nil {
			t.Fatal(err)
		}
	}
	openHistory(path) // shortens the file
	if got := openHistory(path).lines; len(got) != historyLines {
		t.Errorf("%d lines after shortening, want %d", len(got), historyLines)
	}
	checkPrivate(t, path)
}

func TestReservedFunctionName(t *testing.T) {
	_, _, err := parseTools([]byte(`[{"name":"report_reasoning"}]`))
	if err == nil || !strings.Contains(err.Error(), "report_reasoning") {
		t.Error(err)
	}
}

// Names that people know from other programs work, but only alone.
func TestParseCommand(t *testing.T) {
	for text, want := range map[string]string{"/help": "/help", " /? ": "/help", "exit": "/exit", "quit ": "/exit",
		"/bye": "/exit", "/quit": "/exit", "/save exit": "/save", "exit now": "", "exit\nquit": "", "/?x": "", "Exit": "",
		"/etc/passwd": ""} {
		name, _, ok := parseCommand(text)
		if ok != (want != "") || ok && name != want {
			t.Errorf("%q is %q, %v, want %q", text, name, ok, want)
		}
	}
}
