//go:build unix

package cli

import (
	"bufio"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rivo/uniseg"
)

// On a terminal of 80 columns a request is one row. In a pipe its line has all fields.
func TestRequestsAreRows(t *testing.T) {
	const took, id = ` [0-9.]+(µs|ms|s)`, ` req_[0-9a-f]{8}$`
	file := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(file, []byte("GGUF"), 0o600); err != nil {
		t.Fatal(err)
	}
	tt := startIn(t, 80, nil, "serve", "--port", "0", file)
	for _, row := range checkLog(t, func() string { return strings.TrimRight(tt.expect("\n"), "\r\n") }, map[string]string{
		" /v1/chat": `^\d\d:\d\d:\d\d POST /v1/chat/completions 200` + took + ` \d+\+9 tokens` + id,
		" /nowhere": `^\d\d:\d\d:\d\d POST /nowhere/世+… 404 [a-z_]+` + took + id,
	}) {
		if w := uniseg.StringWidth(row); w > 80 {
			t.Errorf("%q is %d columns wide", row, w)
		}
	}
	piped := exec.Command("runner", "serve", "--port", "0", file)
	out, err := piped.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := piped.Start(); err != nil {
		t.Fatal(err)
	}
	watch := time.AfterFunc(hang, func() { _ = piped.Process.Kill() })
	defer func() {
		watch.Stop()
		_ = piped.Process.Kill()
		_ = piped.Wait()
	}()
	lines := bufio.NewScanner(out)
	checkLog(t, func() string {
		if !lines.Scan() {
			t.Fatalf("the log ends: %v", lines.Err())
		}
		return lines.Text()
	}, map[string]string{
		"/v1/chat": `msg=request route="POST /v1/chat/completions" status=200 ms=[0-9.]+ key=local ` +
			`id=req_[0-9a-f]{32} runs=1 prompt_tokens=\d+ completion_tokens=9$`,
		"/nowhere": `msg=request route=unknown status=404 .* code=[a-z_]+ method=POST path=/nowhere/世+\.\.\.$`,
	})
}

// checkLog sends requests to a server and reads its log until it has a line for each. want has what the lines must be,
// by a text in them. It returns these lines.
func checkLog(t *testing.T, next func() string, want map[string]string) (found []string) {
	t.Helper()
	url := ""
	for url == "" {
		url = regexp.MustCompile(`http://127[0-9.:]+`).FindString(next())
	}
	for _, path := range []string{"/v1/chat/completions", "/nowhere/" + strings.Repeat("世", 100) + "?key=secret"} {
		r, err := http.Post(url+path, "application/json",
			strings.NewReader(`{"model":"m","max_tokens":9,"seed":1,"messages":[{"role":"user","content":"hello"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
	}
	for len(found) < len(want) {
		line := next()
		for text, pattern := range want {
			if !strings.Contains(line, text) || strings.Contains(line, "curl") ||
				!strings.Contains(line, "200") && !strings.Contains(line, "404") {
				continue
			}
			if found = append(found, line); !regexp.MustCompile(pattern).MatchString(line) {
				t.Errorf("%q, want %s", line, pattern)
			}
		}
	}
	return found
}
