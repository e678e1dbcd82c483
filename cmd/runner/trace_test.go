//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"runner/reasoning"
	"runner/reasoning/trace"
	"runner/reasoning/trace/keys"
	"runner/reasoning/trace/store"
	"runner/testenv"
)

const (
	passphrase = "correct horse"
	// canary is in prompts. thinks is in the reasoning of the bundled model for each sum. Both are hidden.
	canary = "marmalade-4711"
	named  = "You work for " + canary + "."
	thinks = "digit by digit"
)

// archive is a data folder with a key, in which the program stores traces.
type archive struct {
	t     *testing.T
	data  string
	env   []string
	opens []*trace.Identity
}

func newArchive(t *testing.T) *archive {
	t.Helper()
	a := &archive{t: t, data: t.TempDir()}
	a.env = append(os.Environ(), "XDG_DATA_HOME="+a.data, "RUNNER_PASSPHRASE="+passphrase)
	a.runner("trace", "keys", "new")
	ring, err := keys.Load(filepath.Join(a.data, "runner", "trace.keys"))
	if err != nil {
		t.Fatal(err)
	}
	if a.opens, err = ring.Unlock([]byte(passphrase)); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *archive) command(args ...string) *exec.Cmd {
	cmd := exec.Command("runner", args...)
	cmd.Env = a.env
	return cmd
}

// runner runs the program, which must succeed, and returns its standard output.
func (a *archive) runner(args ...string) string {
	a.t.Helper()
	var complaint bytes.Buffer
	cmd := a.command(args...)
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		a.t.Fatalf("runner %q: %v: %s%s", args, err, out, complaint.String())
	}
	return string(out)
}

// sealed fails the test if a file of the data folder contains a text that must be sealed.
func (a *archive) sealed() {
	a.t.Helper()
	a.lacks(canary, thinks)
}

// lacks fails the test if a file of the data folder contains one of the texts.
func (a *archive) lacks(texts ...string) {
	a.t.Helper()
	err := filepath.WalkDir(a.data, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a database file that was removed meanwhile
		}
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		for _, text := range texts {
			if bytes.Contains(content, []byte(text)) {
				a.t.Errorf("%s contains %q", path, text)
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		a.t.Error(err)
	}
}

// audit checks the chain and reads every trace. acknowledged maps ids to prompts: these traces must be complete and
// contain their prompts.
func (a *archive) audit(acknowledged map[string]string) (complete, cut int) {
	a.t.Helper()
	a.runner("trace", "verify")
	s, err := store.Open(filepath.Join(a.data, "runner", "traces"), store.Config{})
	if err != nil {
		a.t.Fatal(err)
	}
	defer s.Close()
	list, err := s.List(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	for _, e := range list {
		text, err := a.read(s, e.ID)
		id := e.ID.String()
		asked, known := acknowledged[id]
		switch {
		case e.State == store.StateComplete && err == nil:
			complete++
		case e.State == store.StateCut && errors.Is(err, trace.ErrTruncated) && !known:
			cut++
		default:
			a.t.Errorf("%s is %s, acknowledged %v: %v", id, e.State, known, err)
		}
		if known && (!strings.Contains(text, asked) || !strings.Contains(text, thinks)) {
			a.t.Errorf("%s was asked %q and contains %q", id, asked, text)
		}
		delete(acknowledged, id)
	}
	for id := range acknowledged {
		a.t.Errorf("%s was acknowledged and is not there", id)
	}
	return complete, cut
}

// read returns the prompt, reasoning and answer in a trace.
func (a *archive) read(s *store.Store, id trace.ID) (string, error) {
	blob, err := s.Blob(a.t.Context(), id)
	if err != nil {
		return "", err
	}
	r, err := trace.NewReader(blob, a.opens...)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for {
		line, err := r.Next()
		if errors.Is(err, io.EOF) {
			return text.String(), nil
		}
		if err != nil {
			return text.String(), err
		}
		var rec trace.Record
		if err := json.Unmarshal(line, &rec); err != nil {
			return text.String(), err
		}
		if rec.Begin != nil {
			text.Write(rec.Begin.Prompt)
		}
		if e := rec.Event; e != nil && e.Kind == reasoning.SegmentDelta {
			text.WriteString(e.Text)
		}
	}
}

// some returns the number of repetitions of a test: n, or many if RUNNER_LONG is set.
func some(n, many int) int {
	if os.Getenv("RUNNER_LONG") != "" {
		return many
	}
	return n
}

// TestRunIsKilled kills run --trace at random moments. No trace that it has reported is lost, and nothing is stored
// unsealed.
func TestRunIsKilled(t *testing.T) {
	a := newArchive(t)
	begin := time.Now()
	a.runner("run", "--trace", "--system", named, "What is 417 + 285?")
	whole := time.Since(begin)
	acknowledged := map[string]string{}
	for i := range some(8, 200) {
		question := fmt.Sprintf("What is %d + %d?", 100+rand.IntN(900), 100+rand.IntN(900))
		cmd := a.command("run", "--trace", "--temperature", "0", "--system", named, question)
		var told bytes.Buffer
		cmd.Stderr = &told
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// it may have exited already
		timer := time.AfterFunc(time.Duration(rand.Int64N(int64(3*whole))), func() { _ = cmd.Process.Kill() })
		err := cmd.Wait()
		timer.Stop()
		if cmd.ProcessState.Exited() && err != nil {
			t.Fatalf("it ended before it was killed: %v: %s", err, told.String())
		}
		if _, id, ok := strings.Cut(told.String(), "trace "); ok && strings.HasSuffix(id, "\n") {
			acknowledged[strings.TrimSpace(id)] = question
		}
		if i%10 == 0 {
			a.sealed()
		}
	}
	a.sealed()
	n := len(acknowledged)
	complete, cut := a.audit(acknowledged)
	t.Logf("%d acknowledged, %d complete, %d cut", n, complete, cut)
}

// start starts a server that stores traces. Its standard error also goes to log.
func (a *archive) start(log io.Writer, args ...string) (url string, cmd *exec.Cmd) {
	a.t.Helper()
	cmd = a.command(append([]string{"serve", "--port", "0", "--traces", "--verbose"}, args...)...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		a.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { _ = cmd.Process.Kill() }) // usually it has exited already
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		fmt.Fprintln(log, lines.Text())
		if m := address.FindStringSubmatch(lines.Text()); m != nil {
			go func() { _, _ = io.Copy(log, stderr) }()
			return m[1], cmd
		}
	}
	_ = cmd.Wait()
	a.t.Fatal("the server did not start")
	return "", nil
}

// traced requests an answer and its trace.
func traced(url, question string) (id string, err error) {
	body, err := json.Marshal(map[string]any{
		"temperature": 0, "reasoning_encrypt": true, "messages": []map[string]string{{"role": "system", "content": named},
			{"role": "user", "content": question}},
	})
	if err != nil {
		return "", err
	}
	res, err := http.Post(url+"/v1/chat/completions", "application/json", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	var answer struct {
		Choices []struct {
			TraceID string `json:"trace_id"`
		}
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return "", err
	}
	if len(answer.Choices) != 1 {
		return "", fmt.Errorf("status %d", res.StatusCode)
	}
	return answer.Choices[0].TraceID, nil
}

// TestServeIsKilled kills a server at random moments. No trace that it has reported is lost, and nothing is stored or
// logged unsealed.
func TestServeIsKilled(t *testing.T) {
	a := newArchive(t)
	var mu sync.Mutex
	acknowledged := map[string]string{}
	log := &testenv.Buffer{}
	least := some(10, 200)
	for kills := 0; kills < some(3, 40) || len(acknowledged) < least; kills++ {
		if kills == 400 {
			t.Fatalf("only %d traces were stored", len(acknowledged))
		}
		url, cmd := a.start(log)
		var clients sync.WaitGroup
		for range 4 {
			clients.Go(func() {
				for {
					question := fmt.Sprintf("What is %d + %d?", 100+rand.IntN(900), 100+rand.IntN(900))
					id, err := traced(url, question)
					if err != nil {
						return // the server was killed
					}
					mu.Lock()
					acknowledged[id] = question
					mu.Unlock()
				}
			})
		}
		time.Sleep(time.Duration(500+rand.IntN(3000)) * time.Millisecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		clients.Wait()
		if err := cmd.Wait(); cmd.ProcessState.Exited() {
			t.Fatalf("it ended before it was killed: %v: %s", err, log.String())
		}
		a.sealed()
	}
	for _, text := range []string{canary, thinks, "What is"} {
		if strings.Contains(log.String(), text) {
			t.Errorf("the log contains %q", text)
		}
	}
	n := len(acknowledged)
	complete, cut := a.audit(acknowledged)
	t.Logf("%d acknowledged, %d complete, %d cut", n, complete, cut)
}

// TestServeTraces: two keys have their own traces. One trace is erased permanently.
func TestServeTraces(t *testing.T) {
	a := newArchive(t)
	file := filepath.Join(t.TempDir(), "keys.json")
	one := strings.TrimSpace(a.runner("serve", "apikey", "new", file, "one"))
	two := strings.TrimSpace(a.runner("serve", "apikey", "new", file, "two", "--reasoning", "full"))
	auditor := strings.TrimSpace(a.runner("serve", "apikey", "new", file, "auditor",
		"--permission", "trace:read,trace:all"))
	log := &testenv.Buffer{}
	url, cmd := a.start(log, "--api-keys", file)
	ask := func(method, path, key, body string) (status int, text string) {
		t.Helper()
		return send(t, method, url+path, key, body)
	}
	traceOf := func(key, path, body string) string {
		t.Helper()
		status, text := ask("POST", path, key, body)
		_, id, ok := strings.Cut(text, `"trace_id":"`)
		if status != 200 || !ok {
			t.Fatalf("%s: %d: %s", path, status, text)
		}
		return id[:32]
	}
	const question = "What is 17 + 25?"
	ofOne := traceOf(one, "/v1/chat/completions",
		`{"stream":true,"reasoning_encrypt":true,"messages":[{"role":"system","content":"`+named+
			`"},{"role":"user","content":"`+question+`"}]}`)
	ofTwo := []string{
		traceOf(two, "/v1/responses", `{"reasoning_encrypt":true,"instructions":"`+named+`","input":"`+question+`"}`),
		traceOf(two, "/agui", `{"threadId":"t","runId":"r","messages":[{"id":"s","role":"system","content":"`+named+
			`"},{"id":"m","role":"user","content":"`+question+
			`"}],"forwardedProps":{"reasoning":"full","reasoning_encrypt":true}}`),
	}
	a.sealed()
	_, blob := ask("GET", "/v1/traces/"+ofOne+"/content", one, "")
	for _, c := range []struct {
		method, path, key string
		status            int
		contains, lacks   string
	}{
		{"GET", "/v1/traces", one, 200, ofOne, ofTwo[0]}, {"GET", "/v1/traces", two, 200, ofTwo[1], ofOne},
		{"GET", "/v1/traces", auditor, 200, ofOne, canary},
		{"GET", "/v1/traces/" + ofOne, two, 404, "trace_not_found", ""}, {"GET", "/v1/traces/" + ofOne + "/content", two, 404,
			"trace_not_found", ""},
		{"DELETE", "/v1/traces/" + ofOne, two, 404, "trace_not_found", ""}, {"DELETE", "/v1/traces/" + ofOne, auditor, 403,
			"trace:erase", ""},
		{"GET", "/v1/traces/" + ofOne + "/content", one, 200, "rtrace", canary},
		{"GET", "/v1/traces/" + ofTwo[0] + "/content", auditor, 200, "rtrace", thinks},
		{"DELETE", "/v1/traces/" + ofOne, one, 200, `"deleted":true`, ""}, {"GET", "/v1/traces/" + ofOne + "/content", one,
			410, "trace_erased", ""},
	} {
		status, text := ask(c.method, c.path, c.key, "")
		if status != c.status || !strings.Contains(text, c.contains) || c.lacks != "" && strings.Contains(text, c.lacks) {
			t.Errorf("%s %s: %d: %.500s", c.method, c.path, status, text)
		}
	}
	// parts of the erased trace: a recipient with its sealed key, and sealed records
	a.lacks(blob[26:90], blob[len(blob)/2:len(blob)/2+64], blob[len(blob)-64:])
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, log.String())
	}
	a.sealed()
	if shown := a.runner("trace", "show", ofTwo[1]); !strings.Contains(shown, canary) ||
		!strings.Contains(shown, `"by":"two"`) || !strings.Contains(shown, `"how":"reasoning_encrypt"`) {
		t.Errorf("%.1000s", shown)
	}
	told := a.runner("trace", "explain", ofTwo[0])
	if !strings.Contains(told, "Debrief: run resp_") || !strings.Contains(told, "Goal: "+question) {
		t.Errorf("%s", told)
	}
	if verified := a.runner("trace", "verify"); !strings.Contains(verified, "2 traces") ||
		!strings.Contains(verified, "1 erased, 0 open") {
		t.Errorf("%s", verified)
	}
	if strings.Contains(log.String(), canary) || strings.Contains(log.String(), thinks) {
		t.Errorf("the log:\n%s", log.String())
	}
}
