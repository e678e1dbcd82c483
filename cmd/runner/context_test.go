package main

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"runner/models/random"
	"runner/models/random/randomtest"
)

// TestServeUsesTheModelsOwnContext serves a model that was trained for a long context. The model gets this context, the
// log says why, and the first prompt of a coding agent fits. Two models at once leave room for each other.
func TestServeUsesTheModelsOwnContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "long.gguf")
	if err := randomtest.WriteFile(path, random.Config{Context: 1 << 17}); err != nil {
		t.Fatal(err)
	}
	s := serve(t, path, "second="+path)
	for _, model := range []string{"long", "second"} {
		body, err := json.Marshal(map[string]any{"model": model, "prompt": strings.Repeat("a b c d ", 3000), "max_tokens": 2})
		if err != nil {
			t.Fatal(err)
		}
		status, answer := send(t, http.MethodPost, s.url+"/v1/completions", "", string(body))
		var reply struct {
			Usage struct {
				Prompt int `json:"prompt_tokens"`
			}
		}
		if status != http.StatusOK || json.Unmarshal([]byte(answer), &reply) != nil || reply.Usage.Prompt < 10_000 {
			t.Fatalf("%s: status %d: %.300s", model, status, answer)
		}
		line := regexp.MustCompile(`msg=context model=` + model +
			` tokens=131072 trained=131072 cache_tokens=\d+ why="as long as in training"`)
		for end := time.Now().Add(5 * time.Second); !line.MatchString(s.logged()); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the log does not say what the context of %s is:\n%s", model, s.logged())
			}
		}
	}
}
