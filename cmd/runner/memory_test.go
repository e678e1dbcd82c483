//go:build linux

package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"runner/models/random"
	"runner/models/random/randomtest"
)

// TestTooFewAddresses limits the address space of the program. What is too little is said in one line, with the least
// that is enough, and that is enough. So is what a large context or a large model needs.
func TestTooFewAddresses(t *testing.T) {
	large := filepath.Join(t.TempDir(), "large.gguf")
	if err := randomtest.WriteFile(large, random.Config{Layers: 4, Width: 2048, FeedForward: 4096, Seed: 1}); err != nil {
		t.Fatal(err)
	}
	answer := func(kib int, args ...string) (out string, err error) {
		t.Helper()
		args = append([]string{"run", "--seed", "1"}, append(args, "What is 17 + 25?")...)
		c := exec.Command("sh", append([]string{"-c", fmt.Sprintf(`ulimit -v %d; exec runner "$@"`, kib), "sh"}, args...)...)
		c.Env = append(os.Environ(), "XDG_CACHE_HOME="+t.TempDir(), "XDG_DATA_HOME="+t.TempDir())
		text, err := c.CombinedOutput()
		if out = string(text); err != nil && (strings.Count(out, "\n") != 1 || !strings.Contains(out, "ulimit -v")) {
			t.Errorf("%d KiB for %s: %s", kib, args, out)
		}
		return out, err
	}
	out, err := answer(200_000)
	least := regexp.MustCompile(`use ulimit -v (\d+)`).FindStringSubmatch(out)
	if err == nil || least == nil {
		t.Fatalf("%s, %v", out, err)
	}
	enough, err := strconv.Atoi(least[1])
	if err != nil {
		t.Fatal(err)
	}
	for _, kib := range []int{700_000, 850_000, 1_050_000, 1_300_000, enough - 1} {
		if out, err := answer(kib); err == nil {
			t.Errorf("%d KiB are enough: %s", kib, out)
		}
	}
	if out, err := answer(enough); err != nil || !strings.Contains(out, "42") {
		t.Errorf("%d KiB: %s, %v", enough, out, err)
	}
	for _, args := range [][]string{{"--ctx-size", "1000000"}, {"--model", large}} {
		if out, err := answer(enough, args...); err == nil || !strings.Contains(out, "--ctx-size") {
			t.Errorf("%s: %s, %v", args, out, err)
		}
	}
}

// TestLargeRequestsInLittleMemory limits the address space of the server. Large requests of every kind at once do not
// end it, and afterwards it returns their memory.
func TestLargeRequestsInLittleMemory(t *testing.T) {
	space := 0
	t.Run("without a limit", func(t *testing.T) { // the memory of a server depends on the number of processors
		s := serve(t)
		s.healthy()
		space = s.status("VmSize") + 1200<<20
	})
	s := serveAs(t, func(c *exec.Cmd) {
		c.Args = append([]string{"sh", "-c", fmt.Sprintf(`ulimit -v %d; exec "$0" "$@"`, space>>10)}, c.Args...)
		c.Args[3] = c.Path
		c.Path, c.Err = exec.LookPath("sh")
	})
	s.healthy()
	before := s.status("VmRSS")
	message := `{"messages":[{"role":"user","content":"x"}],`
	requests := []struct {
		path, body string
		times      int
	}{
		{"/tokenize", `{"content":"` + strings.Repeat("a", 30_000_000) + `"}`, 6},
		{"/tokenize", `{"content":"` + strings.Repeat("a", 4_000_000) + `"}`, 6},
		{"/tokenize", `{"content":"` + strings.Repeat("1 ", 2_000_000) + `"}`, 6},
		{"/detokenize", `{"tokens":[` + strings.Repeat("400,", 900_000) + `1]}`, 4},
		{"/v1/chat/completions", message + `"stop":[` + strings.Repeat(`"a",`, 900_000) + `"a"]}`, 12},
		{"/v1/chat/completions", message + `"logit_bias":{` + strings.Repeat(`"1":1,`, 400_000) + `"2":1}}`, 6},
		{"/v1/chat/completions", `{"messages":[` + strings.Repeat(`{},`, 490_000) + `{}]}`, 6},
		{"/v1/chat/completions", message + `"metadata":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`, 6},
		{"/v1/messages", `{"max_tokens":1,"messages":[` + strings.Repeat(`{},`, 490_000) + `{}]}`, 6},
		{"/v1/embeddings", `{"input":[` + strings.Repeat(`"a",`, 900_000) + `"a"]}`, 6},
		{"/v1/responses", `{"input":[` + strings.Repeat(`{},`, 490_000) + `{}]}`, 6},
		{"/api/chat", `{"model":"demo","messages":[` + strings.Repeat(`{},`, 490_000) + `{}]}`, 6},
		{"/v1/completions", `{"prompt":"` + strings.Repeat("a", 30_000_000) + `"}`, 6},
	}
	var wg sync.WaitGroup
	for _, r := range requests {
		for range r.times {
			wg.Go(func() {
				res, err := http.Post(s.url+r.path, "application/json", bytes.NewReader([]byte(r.body)))
				if err != nil {
					t.Errorf("%s with %d bytes: %v", r.path, len(r.body), err)
					return
				}
				defer res.Body.Close()
				if _, err := io.Copy(io.Discard, res.Body); err != nil {
					t.Errorf("%s with %d bytes: %v", r.path, len(r.body), err)
				}
				if res.StatusCode >= 500 && res.StatusCode != http.StatusServiceUnavailable {
					t.Errorf("%s with %d bytes is answered with %d", r.path, len(r.body), res.StatusCode)
				}
			})
		}
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	peak := s.status("VmHWM")
	const most = 64 << 20 // less than this need not be returned
	deadline := time.Now().Add(30 * time.Second)
	for s.status("VmRSS") > before+most+8<<20 {
		if time.Now().After(deadline) {
			t.Fatalf("it has %d MiB, %d more than before and %d at most", s.status("VmRSS")>>20, (s.status("VmRSS")-before)>>20,
				peak>>20)
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Logf("%d MiB before, %d at most, %d after", before>>20, peak>>20, s.status("VmRSS")>>20)
}

// status reads a figure in bytes from the system's status of the server process.
func (s *serving) status(name string) int {
	s.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	m := regexp.MustCompile(name + `:\s+(\d+) kB`).FindSubmatch(b)
	if m == nil {
		s.t.Fatalf("no %s:\n%s\n%s", name, b, s.logged())
	}
	n, err := strconv.Atoi(string(m[1]))
	if err != nil {
		s.t.Fatal(err)
	}
	return n << 10
}
