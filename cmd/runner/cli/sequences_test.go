package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"runner/backend"
	"runner/backend/fake"
	"runner/reasoning/prompts"
)

// A run that makes no summary uses one sequence. Every other run uses two.
func TestSequences(t *testing.T) {
	const turn = "<|start|>assistant"
	final := "<|channel|>final<|message|>"
	script := fake.Replies(fake.Harmony(),
		fake.Reply{After: "question<|end|>" + turn, Say: "<|channel|>analysis<|message|>thought<|end|>" + turn + final +
			"forty-two<|return|>"},
		fake.Reply{After: prompts.SummaryConciseV1 + "<|end|>" + turn + final, Say: "Short.<|return|>"})
	for visibility, want := range map[string]int{"none": 1, "full": 1, "summary": 2} {
		var asked int
		var model *fake.Model
		demo := filepath.Join(t.TempDir(), "demo.gguf")
		if err := os.WriteFile(demo, []byte("GGUF"), 0o600); err != nil {
			t.Fatal(err)
		}
		a := newApp(Engine{
			Demo:   func(context.Context) (string, error) { return demo, nil },
			Choose: func(context.Context, string, string, func(string)) (string, error) { return "", nil },
			Open: func(_ context.Context, _ string, cfg backend.Config) (backend.Model, error) {
				asked = cfg.Sequences
				model = fake.New(fake.Config{Script: script, Sequences: cfg.Sequences})
				return model, nil
			},
		}, Build{})
		var err error
		if a.in, err = os.Open(os.DevNull); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if a.out, err = os.Create(filepath.Join(dir, "out")); err != nil {
			t.Fatal(err)
		}
		if a.err, err = os.Create(filepath.Join(dir, "err")); err != nil {
			t.Fatal(err)
		}
		a.inTerminal, a.outTerminal, a.errTerminal = false, false, false
		code := a.execute([]string{"run", "--temperature", "0", "--reasoning", visibility, "question"})
		for _, f := range []*os.File{a.in, a.out, a.err} {
			f.Close()
		}
		out, _ := os.ReadFile(a.out.Name())
		aside, _ := os.ReadFile(a.err.Name())
		if code != 0 || string(out) != "forty-two\n" || asked != want {
			t.Errorf("%s: exit %d, %d sequences, want %d; %q, %q", visibility, code, asked, want, out, aside)
		}
		if summarized := strings.Contains(string(aside), "Short."); summarized != (visibility == "summary") {
			t.Errorf("%s: standard error %q", visibility, aside)
		}
		if n := model.OpenSequences(); n != 0 {
			t.Errorf("%s: %d sequences leaked", visibility, n)
		}
	}
}
