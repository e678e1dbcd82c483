package openai

import (
	"fmt"
	"strings"
	"testing"

	"runner/backend/fake"
	"runner/reasoning/seal"
	"runner/server/wiretest"
)

// startWeighed starts the API with a model of these weights.
func startWeighed(t *testing.T, w *wiretest.Weights, ring *seal.Keyring) *fixture {
	t.Helper()
	const after = "result 5<|end|><|start|>assistant"
	f := &fixture{t: t, models: wiretest.NewWeighed(t, w,
		fake.Reply{After: wiretest.Ask("add"), Say: wiretest.Call("the canary thought", "", "add", `{}`)},
		fake.Reply{Prompt: "the canary thought", After: after, Say: wiretest.Think("", "It is 5.")},
		fake.Reply{After: after, Say: wiretest.Think("", "I forgot why.")})}
	f.api = New(f.models, Config{Seal: ring, Random: zeros{}})
	f.url = wiretest.Serve(t, f.api, wiretest.Anyone()).URL
	return f
}

// sealed asks for a call and returns its id with its sealed reasoning.
func sealed(f *fixture) (id, value string) {
	f.t.Helper()
	m := f.ask("add", addTool+`,"reasoning_seal":true`).Choices[0].Message
	return m.ToolCalls[0].ID, m.ReasoningEncryptedContent
}

// opens reports whether sealed reasoning reaches the model.
func opens(f *fixture, id, value string) bool {
	f.t.Helper()
	a := f.post("/v1/chat/completions", fmt.Sprintf(`{"messages":[{"role":"user","content":"add"},
		{"role":"assistant","content":null,"reasoning_encrypted_content":%q,
		"tool_calls":[{"id":%q,"function":{"name":"add","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":%[2]q,"content":"result 5"}],%s}`, value, id, addTool))
	open, dropped := strings.Contains(a.body, "It is 5."), strings.Contains(a.body, "sealed_foreign")
	if open == dropped {
		f.t.Errorf("%s", a.body)
	}
	return open
}

// TestFingerprintIsThatOfTheContents: no form of an answer has a fingerprint before the model's digest is known. Then
// it is always the same.
func TestFingerprintIsThatOfTheContents(t *testing.T) {
	w := &wiretest.Weights{File: "file", Sum: strings.Repeat("ab", 32)}
	f := startWeighed(t, w, keys())
	for _, known := range []bool{false, true, true} {
		w.Known.Store(known)
		for path, body := range map[string]string{
			"/v1/chat/completions": body("add", addTool),
			"/v1/completions":      `{"prompt":"a","max_tokens":1}`,
		} {
			for _, stream := range []string{"", `,"stream":true}`} {
				if stream != "" {
					body = strings.TrimSuffix(body, "}") + stream
				}
				a := f.post(path, body)
				want := strings.Count(a.body, `"model":`)
				if !known {
					want = 0
				}
				if n := strings.Count(a.body, `"system_fingerprint":"fp_abababababab"`); n != want || a.status != 200 ||
					strings.Count(a.body, "fingerprint") != want {
					t.Errorf("known: %v: %s has %d fingerprints, want %d: %s", known, path, n, want, a.body)
				}
			}
		}
		if list := f.get("/v1/models").body; strings.Contains(list, w.Sum) != known {
			t.Errorf("known: %v: %s", known, list)
		}
	}
}

// TestSealsBelongToTheWeights: values open from before the digest is known to after it, and back after the program was
// started again, as long as the file or its contents are the same.
func TestSealsBelongToTheWeights(t *testing.T) {
	ring := keys()
	w := &wiretest.Weights{File: "file", Sum: "one"}
	f := startWeighed(t, w, ring)
	earlyID, early := sealed(f)
	if !opens(f, earlyID, early) {
		t.Error("a value does not open while the digest is unknown")
	}
	w.Known.Store(true)
	if !opens(f, earlyID, early) {
		t.Error("an early value does not open when the digest is known")
	}
	lateID, late := sealed(f)

	for _, c := range []struct {
		name        string
		file, sum   string
		known       bool
		early, late bool
	}{
		{"again", "file", "one", false, true, true},
		{"again, known", "file", "one", true, true, true},
		{"a copy", "copy", "one", false, false, false},
		{"a copy, known", "copy", "one", true, false, true},
		{"other weights", "other", "two", false, false, false},
		{"other weights, known", "other", "two", true, false, false},
	} {
		w := &wiretest.Weights{File: c.file, Sum: c.sum}
		w.Known.Store(c.known)
		f := startWeighed(t, w, ring)
		if got := opens(f, earlyID, early); got != c.early {
			t.Errorf("%s: the early value opens: %v", c.name, got)
		}
		if got := opens(f, lateID, late); got != c.late {
			t.Errorf("%s: the late value opens: %v", c.name, got)
		}
	}
}
