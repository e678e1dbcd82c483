//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"runner/models/random"
)

// engines returns the numbers of the processes in which a server's engines run.
func (s *serving) engines() []int { return children(s.t, s.cmd.Process.Pid) }

// children returns the numbers of a process's children.
func children(t *testing.T, parent int) []int {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) == 0 {
		t.Skip("this system does not list its processes in /proc")
	}
	var list []int
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // state, parent, ...
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && len(fields) > 1 && fields[1] == strconv.Itoa(parent) && fields[0] != "Z" {
			list = append(list, pid)
		}
	}
	return list
}

// engine waits until a server has one engine and returns the number of its process.
func (s *serving) engine() int {
	s.t.Helper()
	var all []int
	s.until("the server has no engine in a process of its own", func() bool {
		all = s.engines()
		return len(all) == 1
	})
	return all[0]
}

// descriptors returns what a server has open, without the connections that this process keeps for later.
func (s *serving) descriptors() []string {
	s.t.Helper()
	http.DefaultClient.CloseIdleConnections()
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", s.cmd.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	var list []string
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil { // else it was closed in the meantime
			list = append(list, to)
		}
	}
	return list
}

// dies waits until a process is gone.
func dies(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || bytes.Contains(text, []byte(") Z ")) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d is still there: %s", pid, text)
		}
	}
}

// A crowd is some clients, each of which asks some questions one after the other.
const (
	crowdClients   = 8
	crowdQuestions = 2
)

// crowdRequest returns a client's request. All stream at temperature 1 with a seed. Some have a schema, some a
// call, and some see summaries.
func crowdRequest(client, question int) string {
	seed := client*crowdQuestions + question
	body := map[string]any{"temperature": 1, "seed": seed, "stream": true, "max_tokens": 200, "reasoning": "full",
		"stream_options": map[string]any{"include_usage": true},
		"messages": []any{map[string]any{"role": "user",
			"content": fmt.Sprintf("What is %d + %d?", 100+7*seed, 35+11*seed)}}}
	schema := map[string]any{"type": "object", "required": []string{"a", "note"}, "properties": map[string]any{
		"a": map[string]any{"type": "integer"}, "note": map[string]any{"type": "string"}}}
	switch client % 4 {
	case 1:
		body["response_format"] = map[string]any{"type": "json_schema",
			"json_schema": map[string]any{"name": "sum", "schema": schema}}
	case 2:
		body["reasoning"] = "summary"
	case 3:
		body["tool_choice"] = "required"
		body["tools"] = []any{map[string]any{"type": "function",
			"function": map[string]any{"name": "add", "parameters": schema}}}
	}
	text, _ := json.Marshal(body) // it has only texts and numbers
	return string(text)
}

// said is what a stream says: each kind of text, how it ended, and the number of tokens. How a text is cut into pieces
// depends on time and is left out.
type said struct {
	content, reasoning, summary, calls, end string
}

// crowd asks all questions of the clients at the same time.
type crowd struct {
	mu      sync.Mutex
	answers []said // as far as they have come
}

// now returns what has come so far.
func (c *crowd) now() []said {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.answers)
}

// ask returns the answers of a server when all have ended. An answer that failed ends in its error's text; failed is
// their number.
func (c *crowd) ask(s *serving) (answers []said, failed int) {
	transport := &http.Transport{MaxIdleConnsPerHost: crowdClients}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	c.answers = make([]said, crowdClients*crowdQuestions)
	lost := make([]bool, len(c.answers))
	var wg sync.WaitGroup
	for k := range crowdClients {
		wg.Go(func() {
			for q := range crowdQuestions {
				i := k*crowdQuestions + q
				if err := c.stream(s, client, crowdRequest(k, q), i); err != nil {
					lost[i] = true
					c.add(i, func(a *said) { a.end += "error: " + err.Error() })
				}
			}
		})
	}
	wg.Wait()
	for _, l := range lost {
		if l {
			failed++
		}
	}
	return c.answers, failed
}

func (c *crowd) add(i int, more func(*said)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	more(&c.answers[i])
}

// stream sends a request and reads the stream of answer i.
func (c *crowd) stream(s *serving, client *http.Client, body string, i int) error {
	res, err := client.Post(s.url+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(res.Body)
		return fmt.Errorf("status %d: %s", res.StatusCode, text)
	}
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if data == "[DONE]" {
			return nil
		}
		var chunk struct {
			Choices []struct {
				Delta struct {
					Content, Reasoning string
					Summary            string `json:"reasoning_summary"`
					ToolCalls          []struct {
						Function struct{ Name, Arguments string }
					} `json:"tool_calls"`
				}
				FinishReason string `json:"finish_reason"`
			}
			Usage *struct {
				CompletionTokens int `json:"completion_tokens"`
			}
			Error *struct{ Message string }
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			return fmt.Errorf("a torn frame %q: %w", data, err)
		}
		if chunk.Error != nil {
			return fmt.Errorf("the stream ends with an error: %s", chunk.Error.Message)
		}
		c.add(i, func(a *said) {
			for _, choice := range chunk.Choices {
				a.content += choice.Delta.Content
				a.reasoning += choice.Delta.Reasoning
				a.summary += choice.Delta.Summary
				for _, call := range choice.Delta.ToolCalls {
					a.calls += call.Function.Name + call.Function.Arguments
				}
				a.end += choice.FinishReason
			}
			if chunk.Usage != nil {
				a.end += fmt.Sprintf(" %d tokens", chunk.Usage.CompletionTokens)
			}
		})
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}

// crowd lets a crowd ask a server.
func (s *serving) crowd() (answers []said, failed int) { return new(crowd).ask(s) }

// blow is a way to end an engine's process, in a number of rounds.
type blow struct {
	name   string
	signal syscall.Signal
	rounds int

	// answers are equal to those of an engine that was left alone, or continued in another way, or lost.
	answers, equal, continued, lost int
	took                            []time.Duration
}

// blows returns the ways in which engines are ended.
func blows(kill, abort, stop int) []*blow {
	return []*blow{{name: "SIGKILL", signal: syscall.SIGKILL, rounds: kill},
		{name: "SIGABRT", signal: syscall.SIGABRT, rounds: abort}, {name: "SIGSTOP", signal: syscall.SIGSTOP, rounds: stop}}
}

// TestAnswersOutliveTheEngine ends the engine's process at random moments, while eight clients stream. Every answer is
// that of a server whose engine was left alone, and nothing is left over.
func TestAnswersOutliveTheEngine(t *testing.T) {
	if !repeats(t) {
		t.Skip("the processor lacks AVX2 with FMA and F16C; the engine's own kernels round by what else is in the batch")
	}
	var want []said
	t.Run("undisturbed", func(t *testing.T) {
		s := serve(t, "--isolate", "off", "--parallel", "8")
		s.healthy()
		if len(s.engines()) != 0 {
			t.Error("the engine has a process of its own")
		}
		var failed int
		if want, failed = s.crowd(); failed > 0 {
			t.Fatalf("%d requests failed: %q", failed, want)
		}
		if again, _ := s.crowd(); !slices.Equal(again, want) {
			t.Fatalf("the answers of two undisturbed rounds differ:\n%q\n%q", want, again)
		}
	})
	if want == nil {
		return
	}
	all := blows(5, 4, 1)
	if os.Getenv("RUNNER_LONG") != "" {
		all = blows(45, 40, 15)
	}
	late := outlive(t, "demo", all, func(i int, answer, _ said) (equal bool, err error) {
		if answer != want[i] {
			return false, fmt.Errorf("undisturbed it is\n%q", want[i])
		}
		return true, nil
	})
	if late != 0 {
		t.Errorf("%v engines that worked were taken for hanging", late)
	}
}

// outlive serves a model, of which the name is demo, and ends its engine's process at random moments, while a crowd
// streams. judge returns whether answer i is that of an engine that is left alone, and an error if the answer must not
// be what it is. before is what had come of it when the engine was ended. late is how many engines were taken for
// hanging although nobody stopped them.
func outlive(t *testing.T, model string, all []*blow,
	judge func(i int, answer, before said) (equal bool, err error)) (late float64) {
	t.Helper()
	last := 0
	t.Cleanup(func() { dies(t, last) }) // after the end of the server
	s := serve(t, "--isolate", "on", "--parallel", "8", model)
	s.healthy()
	usual := time.Hour
	for range 3 {
		began := time.Now()
		got, _ := s.crowd()
		usual = min(usual, time.Since(began))
		for i := range got {
			if _, err := judge(i, got[i], said{}); err != nil {
				t.Fatalf("without a crash, answer %d is\n%q\n%v", i, got[i], err)
			}
		}
	}
	before := s.descriptors()
	for range 20 { // some connections of clients may still be closing
		time.Sleep(50 * time.Millisecond)
		if now := s.descriptors(); len(now) < len(before) {
			before = now
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	rounds, stops := 0, 0
	for {
		var open []*blow
		for _, b := range all {
			if len(b.took) < b.rounds {
				open = append(open, b)
			}
		}
		if len(open) == 0 {
			break
		}
		b := open[r.IntN(len(open))]
		after := time.Duration(r.Int64N(int64(usual)))
		pid := s.engine()
		began := time.Now()
		c, come := new(crowd), make(chan []said, 1)
		timer := time.AfterFunc(after, func() {
			come <- c.now()
			_ = syscall.Kill(pid, b.signal)
		})
		got, lost := c.ask(s)
		took := time.Since(began)
		s.answers() // this finds an engine that was ended after the last answer
		if timer.Stop() {
			continue // all had answered before
		}
		then := <-come
		rounds++
		if b.signal == syscall.SIGSTOP {
			stops++
		}
		b.took = append(b.took, took)
		b.lost += lost
		for i := range got {
			b.answers++
			equal, err := judge(i, got[i], then[i])
			switch {
			case err != nil:
				t.Errorf("round %d, %s after %v: answer %d is\n%q\n%v", rounds, b.name, after, i, got[i], err)
			case equal:
				b.equal++
			default:
				b.continued++
			}
		}
		if t.Failed() {
			t.Fatalf("the server's log:\n%s", s.logged())
		}
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		left := s.descriptors()
		if len(left) <= len(before) {
			break
		}
		if time.Now().After(deadline) {
			t.Errorf("the server has open\n%q\nand before the crashes\n%q", left, before)
			break
		}
	}
	crashes, hangs := s.metric(`runner_engine_crashes_total{model="demo"}`),
		s.metric(`runner_engine_hangs_total{model="demo"}`)
	t.Logf("an undisturbed round takes %v\n%s", usual.Round(time.Millisecond), blowTable(all))
	late = hangs - float64(stops)
	if late < 0 || crashes != float64(rounds)+late {
		t.Errorf("%v crashes and %v hangs were counted in %d rounds", crashes, hangs, rounds)
	}
	if n := s.metric(`runner_engine_failed_total{model="demo"}`); n != 0 {
		t.Errorf("%v sequences failed", n)
	}
	if n := s.metric(`runner_engine_memory_bytes{model="demo"}`); n < 1<<20 {
		t.Errorf("the engine's process has %v bytes", n)
	}
	if strings.Contains(s.logged(), "What is") {
		t.Errorf("the log quotes a prompt:\n%s", s.logged())
	}
	last = s.engine()
	return late
}

// blowTable returns a table of the rounds.
func blowTable(all []*blow) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "signal\trounds\tanswers\tequal\tcontinued\tlost\tmedian round\tlongest\t")
	for _, b := range all {
		slices.Sort(b.took)
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%v\t%v\t\n", b.name, len(b.took), b.answers, b.equal, b.continued, b.lost,
			b.took[len(b.took)/2].Round(time.Millisecond), b.took[len(b.took)-1].Round(time.Millisecond))
	}
	w.Flush()
	return text.String()
}

// TestPoisonedRequestFailsAlone: of nine requests at once, one crashes the engine. It fails, and the answers to the
// others are those of an undisturbed engine.
func TestPoisonedRequestFailsAlone(t *testing.T) {
	if !repeats(t) {
		t.Skip("the processor lacks AVX2 with FMA and F16C; the engine's own kernels round by what else is in the batch")
	}
	const poison = "qwxzvkjq"
	var want []said
	t.Run("undisturbed", func(t *testing.T) {
		s := serve(t, "--isolate", "off", "--parallel", "9")
		s.healthy()
		want, _ = s.crowd()
	})
	t.Setenv(poisonVariable, poison)
	s := serve(t, "--isolate", "on", "--parallel", "9")
	s.healthy()
	const bad = 3
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range bad {
			status, body := send(t, http.MethodPost, s.url+"/v1/chat/completions", "",
				`{"messages":[{"role":"user","content":"What is `+poison+`?"}]}`)
			if status != http.StatusServiceUnavailable || !strings.Contains(body, `"code":"model_unavailable"`) {
				t.Errorf("the poisoned request is answered with %d %s", status, body)
			}
		}
	}()
	for working := true; working; {
		select {
		case <-done:
			working = false // one more time, without the poison
		default:
		}
		got, _ := s.crowd()
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("answer %d is\n%q\nand undisturbed\n%q", i, got[i], want[i])
			}
		}
	}
	if n := s.metric(`runner_engine_failed_total{model="demo"}`); n != bad {
		t.Errorf("%v sequences failed, want %d", n, bad)
	}
	if strings.Contains(s.logged(), poison) {
		t.Errorf("the log quotes the request:\n%s", s.logged())
	}
}

// TestTheEngineEndsWithTheServer kills a server. Its engine's process ends too, even if it is stopped.
func TestTheEngineEndsWithTheServer(t *testing.T) {
	for name, signal := range map[string]syscall.Signal{"waiting": 0, "stopped": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("runner", "serve", "--port", "0", "--isolate", "on")
			cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+filepath.Join(t.TempDir(), "data"))
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			s := &serving{t: t, cmd: cmd}
			pid := s.engine()
			if err := syscall.Kill(pid, signal); err != nil {
				t.Error(err)
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
			_ = cmd.Wait() // it was killed
			dies(t, pid)
		})
	}
}

// say sends a question to one of several models and returns the answer's status and body.
func (s *serving) say(model string) (status int, body string) {
	s.t.Helper()
	return send(s.t, http.MethodPost, s.url+"/v1/chat/completions", "", `{"model":"`+model+
		`","max_tokens":4,"messages":[{"role":"user","content":"What is 17 + 25?"}]}`)
}

// fails checks that a model is not available, which another try may change, and that the server works without it.
func (s *serving) fails(model string, codes ...string) {
	s.t.Helper()
	status, body := s.say(model)
	if status != http.StatusServiceUnavailable || !slices.ContainsFunc(codes, func(c string) bool {
		return strings.Contains(body, `"code":"`+c+`"`)
	}) {
		s.t.Errorf("status %d %s, want 503 and one of %v\n%s", status, body, codes, s.logged())
	}
	if status, body := s.say("demo"); status != http.StatusOK {
		s.t.Errorf("another model answers with %d %s\n%s", status, body, s.logged())
	}
}

// TestModelIsTruncatedUnderTheServer cuts a model's file off while its engine has it mapped, so that the next step ends
// the engine's process with SIGBUS.
func TestModelIsTruncatedUnderTheServer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "random.gguf")
	if err := random.WriteFile(path, random.Config{Layers: 8, Width: 256, FeedForward: 256, Seed: 3}); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, "--isolate", "on", "demo", "cut="+path)
	s.healthy()
	if status, body := s.say("cut"); status != http.StatusOK {
		t.Fatalf("status %d %s", status, body)
	}
	if err := os.Truncate(path, int64(len(whole)/8)); err != nil {
		t.Fatal(err)
	}
	s.fails("cut", "model_unavailable")
	if status, body := send(t, http.MethodGet, s.url+"/health", "", ""); status != http.StatusServiceUnavailable {
		t.Errorf("the health is %d %s", status, body)
	}
	s.fails("cut", "model_unusable", "model_changed")
	w := weights{t: t, path: path}
	w.put(whole)
	s.until("the model is not used again", func() bool {
		status, _ := s.say("cut")
		return status == http.StatusOK
	})
}

// TestEngineIsOverItsMemoryLimit: a model that needs more memory than its process may take is not available.
func TestEngineIsOverItsMemoryLimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "random.gguf")
	err := random.WriteFile(path, random.Config{Layers: 2, Width: 512, Vocabulary: 300_000, Seed: 3}) // 330 MB
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, "--isolate", "on", "--engine-memory", "300MB", "--no-mmap", "demo", "large="+path)
	s.healthy()
	s.fails("large", "model_unusable")
	for _, text := range []string{"MiB is left within the limit of its process", "--engine-memory"} {
		if !strings.Contains(s.logged(), text) {
			t.Errorf("the log does not say %q:\n%s", text, s.logged())
		}
	}
}

// TestEngineHasNoMemoryToStart: a limit that is too small for any model is named as the reason, however small it is.
func TestEngineHasNoMemoryToStart(t *testing.T) {
	for _, limit := range []string{"1", "1MB", "30MB", "60MB", "80MB", "100MB", "120MB", "140MB"} {
		cmd := exec.Command("runner", "run", "--engine-memory", limit, "What is 17 + 25?")
		cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if err == nil {
			t.Errorf("%s is enough: %s", limit, out)
		}
		for _, text := range []string{"the engine needs more memory than --engine-memory allows", "; raise --engine-memory"} {
			if !strings.Contains(string(out), text) {
				t.Errorf("%s: the message lacks %q: %s", limit, text, out)
			}
		}
	}
}

// TestEngineGrowsOverItsMemoryLimit: a request that makes the engine take more memory than its process may ends that
// process. The request fails, the log says why, and the server goes on.
func TestEngineGrowsOverItsMemoryLimit(t *testing.T) {
	const hungry = "qwxzvkjq"
	t.Setenv(poisonVariable, hungry)
	t.Setenv(hungerVariable, "1")
	s := serve(t, "--isolate", "on", "--engine-memory", "1GB", "demo", "other=demo")
	s.healthy()
	status, body := send(t, http.MethodPost, s.url+"/v1/chat/completions", "",
		`{"messages":[{"role":"user","content":"What is `+hungry+`?"}]}`)
	if status != http.StatusServiceUnavailable || !strings.Contains(body, `"code":"model_unavailable"`) {
		t.Errorf("the request is answered with %d %s", status, body)
	}
	for _, model := range []string{"demo", "other"} {
		if status, body := s.say(model); status != http.StatusOK {
			t.Errorf("%s answers with %d %s\n%s", model, status, body, s.logged())
		}
	}
	if text := "the engine needs more memory than --engine-memory allows (1000 MB)"; !strings.Contains(s.logged(), text) {
		t.Errorf("the log does not say %q:\n%s", text, s.logged())
	}
	if n := s.metric(`runner_engine_failed_total{model="demo"}`); n != 1 {
		t.Errorf("%v sequences failed, want 1", n)
	}
}

// TestUpgradeOnDisk replaces the server's program by another file. The engine's process is still started again, from
// the program that runs.
func TestUpgradeOnDisk(t *testing.T) {
	installed, err := exec.LookPath("runner")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(installed)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "runner")
	if err := os.WriteFile(path, program, 0o755); err != nil {
		t.Fatal(err)
	}
	s := serveAs(t, func(c *exec.Cmd) { c.Path, c.Args[0] = path, path }, "--isolate", "on")
	s.healthy()
	old := s.engine()
	upgrade := path + ".new"
	if err := os.WriteFile(upgrade, []byte("#!/bin/sh\nexit 9\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(upgrade, path); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if status, body := s.say("demo"); status != http.StatusOK {
		t.Fatalf("status %d %s\n%s", status, body, s.logged())
	}
	if pid := s.engine(); pid == old {
		t.Errorf("the engine's process is still %d", pid)
	}
}

// TestStoppedServerFindsNoHang stops the engine within a step, and then the server for longer than a hang lasts. The
// time in which the server was stopped does not count, so the engine goes on and is not started again.
func TestStoppedServerFindsNoHang(t *testing.T) {
	s := serve(t, "--isolate", "on")
	s.healthy()
	if status, body := s.say("demo"); status != http.StatusOK { // steps of this length are known now
		t.Fatalf("status %d %s", status, body)
	}
	engine := s.engine()
	res, err := http.Post(s.url+"/v1/chat/completions", "application/json", strings.NewReader(
		`{"stream":true,"max_tokens":500,"temperature":1,"seed":3,"messages":[{"role":"user","content":"What is 1 + 2?"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	if !lines.Scan() {
		t.Fatal("the stream is empty")
	}
	for _, pid := range []int{engine, s.cmd.Process.Pid} {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	time.Sleep(6 * time.Second)
	for _, pid := range []int{s.cmd.Process.Pid, engine} {
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			t.Error(err)
		}
		time.Sleep(500 * time.Millisecond) // the server looks at the silence before the engine works
	}
	for lines.Scan() {
	}
	if err := lines.Err(); err != nil {
		t.Error(err)
	}
	if n := s.metric(`runner_engine_crashes_total{model="demo"}`); n != 0 || s.engine() != engine {
		t.Errorf("%v crashes were counted, and process %d became %d\n%s", n, engine, s.engine(), s.logged())
	}
}
