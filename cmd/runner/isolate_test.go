//go:build linux || darwin

package main

import (
	"bufio"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"runner/models/demo"
)

// engines returns the numbers of the processes in which a server's engines run.
func (s *serving) engines() []int { return children(s.t, s.cmd.Process.Pid) }

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

// TestLogNamesTheModel: two models of one file crash. The log has a line for each, with the name under which it is
// served.
func TestLogNamesTheModel(t *testing.T) {
	s := serve(t, "--isolate", "on", "first=demo", "second=demo")
	for _, name := range []string{"first", "second"} {
		if status, body := s.say(name); status != http.StatusOK {
			t.Fatalf("%s answers with %d %s", name, status, body)
		}
	}
	for _, pid := range s.engines() {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"first", "second"} {
		s.logs(`msg="the engine's process is gone" model=` + name + " file=")
		s.logs(`msg="the engine's process was started again" model=` + name + " file=")
	}
}

// TestAutoIsolatesLargeModels: by default a server gives a model of more than 256 MiB a process of its own, and a
// smaller one none. The models are the bundled one, whose files end in a hole.
func TestAutoIsolatesLargeModels(t *testing.T) {
	bundled, err := demo.Path(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	weights, err := os.ReadFile(bundled)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		size    int64
		engines int
	}{{256 << 20, 0}, {256<<20 + 1, 1}} {
		path := filepath.Join(t.TempDir(), "padded.gguf")
		if err := os.WriteFile(path, weights, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, c.size); err != nil {
			t.Fatal(err)
		}
		s := serve(t, "padded="+path)
		if status, body := s.say("padded"); status != http.StatusOK {
			t.Fatalf("%d bytes: %d %s\n%s", c.size, status, body, s.logged())
		}
		if n := len(s.engines()); n != c.engines {
			t.Errorf("a model of %d bytes has %d processes of its own, want %d", c.size, n, c.engines)
		}
	}
}

// dies waits until a process is gone.
func dies(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !gone(t, pid); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d is still there", pid)
		}
	}
}

// poisoned sends requests that crash the engine, one after another, which must all fail. It calls meanwhile again and
// again until then, and once more.
func (s *serving) poisoned(t *testing.T, poison string, requests int, meanwhile func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range requests {
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
		meanwhile()
	}
}

// TestPoisonedRequestFailsAlone: of nine requests at once, one crashes the engine. It fails, and the answers to the
// others are those of an undisturbed engine.
func TestPoisonedRequestFailsAlone(t *testing.T) {
	const poison = "qwxzvkjq"
	judge := leaveAlone(t, "--isolate", "off", "--parallel", "9").judge(t)
	t.Setenv(poisonVariable, poison)
	s := serve(t, "--isolate", "on", "--parallel", "9")
	s.healthy()
	const bad = 3
	s.poisoned(t, poison, bad, func() {
		got, _ := s.crowd()
		for i := range got {
			if _, err := judge(i, got[i], said{}); err != nil {
				t.Errorf("answer %d is\n%q\n%v", i, got[i], err)
			}
		}
	})
	if n := s.metric(`runner_engine_failed_total{model="demo"}`); n != bad {
		t.Errorf("%v sequences failed, want %d", n, bad)
	}
	if strings.Contains(s.logged(), poison) {
		t.Errorf("the log quotes the request:\n%s", s.logged())
	}
}

// TestTheEngineEndsWithTheServer kills a server. Its engine's process ends too.
func TestTheEngineEndsWithTheServer(t *testing.T) { endsWithTheServer(t, "--isolate", "on") }

// endsWithTheServer kills servers with one engine in a process of its own, which must end too. Linux ends it even if it
// is stopped.
func endsWithTheServer(t *testing.T, args ...string) {
	t.Helper()
	for name, signal := range map[string]syscall.Signal{"waiting": 0, "stopped": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			if signal == syscall.SIGSTOP && runtime.GOOS != "linux" {
				t.Skip("a stopped process does not see that the server has ended")
			}
			s := serve(t, args...)
			s.healthy()
			pid := s.engine()
			if err := syscall.Kill(pid, signal); err != nil {
				t.Error(err)
			}
			s.killed = true
			if err := s.cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
			dies(t, pid)
		})
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
