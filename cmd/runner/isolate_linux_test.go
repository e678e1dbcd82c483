package main

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"runner/models/random"
	"runner/models/random/randomtest"
)

// TestModelIsTruncatedUnderTheServer cuts a model's file off while its engine has it mapped, so that the next step ends
// the engine's process with SIGBUS.
func TestModelIsTruncatedUnderTheServer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "random.gguf")
	if err := randomtest.WriteFile(path, random.Config{Layers: 8, Width: 256, FeedForward: 256, Seed: 3}); err != nil {
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
	err := randomtest.WriteFile(path, random.Config{Layers: 2, Width: 512, Vocabulary: 300_000, Seed: 3}) // 330 MB
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

// TestEngineGetsNoMemoryAgain: a model whose engine ends and gets less memory than it asks for when it is started again
// is not available after three starts. The server is not healthy, serves its other model, and loads this one again when
// there is memory.
func TestEngineGetsNoMemoryAgain(t *testing.T) {
	t.Setenv(poisonVariable, "qwxzvkjq")
	path := filepath.Join(t.TempDir(), "random.gguf")
	if err := randomtest.WriteFile(path, random.Config{Layers: 2, Width: 256, FeedForward: 256, Seed: 3}); err != nil {
		t.Fatal(err)
	}
	s := serve(t, "--isolate", "on", "--engine-memory", "1GB", "demo", "large="+path)
	s.healthy()
	first := s.engine()
	if status, body := s.say("large"); status != http.StatusOK {
		t.Fatalf("status %d %s\n%s", status, body, s.logged())
	}
	if err := os.WriteFile(path+hungerSuffix, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, pid := range s.engines() {
		if pid != first {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.fails("large", "model_unavailable")
	if status, body := send(t, http.MethodGet, s.url+"/health", "", ""); status != http.StatusServiceUnavailable {
		t.Errorf("the health is %d %s", status, body)
	}
	const failed = `msg="the engine's process could not be started again" model=large`
	if n := strings.Count(s.logged(), failed); n != 3 {
		t.Errorf("%d starts failed, want 3\n%s", n, s.logged())
	}
	for line := range strings.Lines(s.logged()) {
		if strings.Contains(line, failed) && !strings.Contains(line, "--engine-memory allows (1000 MB)") {
			t.Errorf("the log does not say why: %s", line)
		}
	}
	if err := os.Remove(path + hungerSuffix); err != nil {
		t.Fatal(err)
	}
	s.until("the model is not used again", func() bool {
		status, _ := s.say("large")
		return status == http.StatusOK
	})
	s.healthy()
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
