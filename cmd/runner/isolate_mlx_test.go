//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"runner/backend/mlx"
	"runner/backend/mlx/fromgguf"
)

// mlxDemo returns the bundled model in MLX's format, for servers that the test starts later. It skips the test where
// there is no MLX.
func mlxDemo(t *testing.T) (folder string) {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", ".cache", "mlx", "bin", "python"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mlx.Find(t.Context(), mlx.Config{Python: path}); err != nil {
		t.Skipf("no MLX here: %v", err)
	}
	t.Setenv("RUNNER_PYTHON", path)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	folder = filepath.Join(t.TempDir(), "demo")
	if err := fromgguf.Convert(filepath.Join("..", "..", "models", "demo", "demo.gguf"), folder); err != nil {
		t.Fatal(err)
	}
	return folder
}

// TestAnswersOutliveMLX is TestAnswersOutliveTheEngine for MLX. Its logits depend a little on what else is in the step,
// so an answer may go on in another way after a crash. What had come before the crash must then be the beginning of an
// undisturbed answer, and the whole must be well formed.
func TestAnswersOutliveMLX(t *testing.T) {
	folder := mlxDemo(t)
	undisturbed := make([][]said, crowdClients*crowdQuestions)
	t.Run("undisturbed", func(t *testing.T) {
		s := serve(t, "--parallel", "8", folder)
		s.healthy()
		for range 2 {
			answers, failed := s.crowd()
			if failed > 0 {
				t.Fatalf("%d requests failed: %q", failed, answers)
			}
			for i, a := range answers {
				if err := wellFormed(i, a); err != nil {
					t.Errorf("answer %d is\n%q\n%v", i, a, err)
				}
				if !slices.Contains(undisturbed[i], a) {
					undisturbed[i] = append(undisturbed[i], a)
				}
			}
		}
	})
	if t.Failed() {
		return
	}
	all := blows(1, 1, 1)
	if os.Getenv("RUNNER_LONG") != "" {
		all = blows(35, 35, 35)
	}
	late := outlive(t, "demo="+folder, all, func(i int, answer, before said) (equal bool, err error) {
		if slices.Contains(undisturbed[i], answer) {
			return true, nil
		}
		if !slices.ContainsFunc(undisturbed[i], before.begins) {
			return false, fmt.Errorf("before the crash it was\n%q\nand undisturbed it is\n%q", before, undisturbed[i])
		}
		return false, wellFormed(i, answer)
	})
	t.Logf("%v engines were slow for so long that they were taken for hanging", late) // on a busy machine
	for _, b := range all {
		if b.continued*50 > b.answers {
			t.Errorf("after %s %d of %d answers differ from undisturbed ones", b.name, b.continued, b.answers)
		}
	}
}

// begins reports whether each text of a begins the same text of b.
func (a said) begins(b said) bool {
	return strings.HasPrefix(b.content, a.content) && strings.HasPrefix(b.reasoning, a.reasoning) &&
		strings.HasPrefix(b.summary, a.summary) && strings.HasPrefix(b.calls, a.calls)
}

var wellEnded = regexp.MustCompile(`^(stop|length|tool_calls) [1-9][0-9]* tokens$`)

// wellFormed checks answer i of a crowd. It must have ended, and have the form that was asked for unless it was too
// long.
func wellFormed(i int, a said) error {
	if !wellEnded.MatchString(a.end) {
		return fmt.Errorf("it ends with %q", a.end)
	}
	if strings.HasPrefix(a.end, "length") {
		return nil
	}
	text := a.content
	switch i / crowdQuestions % 4 {
	case 1:
	case 3:
		var ok bool
		if text, ok = strings.CutPrefix(a.calls, "add"); !ok {
			return fmt.Errorf("it calls %q", a.calls)
		}
	default:
		return nil
	}
	var form struct {
		A    *int
		Note *string
	}
	if err := json.Unmarshal([]byte(text), &form); err != nil || form.A == nil || form.Note == nil {
		return fmt.Errorf("%q is not of the form: %w", text, err)
	}
	return nil
}
