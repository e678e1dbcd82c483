//go:build unix

package main

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"runner/models/demo"
	"runner/models/hub/hubtest"
)

// readmeSteps returns the five commands of the README that lead from nothing to a served model.
func readmeSteps(t *testing.T) [][]string {
	t.Helper()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(readme), "\n## From nothing to gpt-oss-20b\n")
	_, rest, _ = strings.Cut(rest, "```sh\n")
	block, _, _ := strings.Cut(rest, "```")
	var steps [][]string
	for line := range strings.Lines(block) {
		line, _, _ = strings.Cut(line, "#")
		before, question, _ := strings.Cut(line, `"`)
		args := strings.Fields(before)[1:]
		if question, _, ok := strings.Cut(question, `"`); ok {
			args = append(args, question)
		}
		steps = append(steps, args)
	}
	if len(steps) != 5 {
		t.Fatalf("the README has the commands %q", steps)
	}
	for i, name := range []string{"bench", "pull", "run", "run", "serve"} {
		if steps[i][0] != name {
			t.Errorf("command %d of the README is %q, want %s", i, steps[i], name)
		}
	}
	return steps
}

// TestFirstSteps goes from a machine with an empty home folder to a pulled model, an answer, a chat and a served model,
// with the README's commands. The hub is a stand-in on loopback, and the model the bundled one under another name. The
// first command, which makes a file of 12 GB, measures that model instead, after it was pulled.
func TestFirstSteps(t *testing.T) {
	steps := readmeSteps(t)
	for i, s := range steps {
		for k := range s {
			steps[i][k] = strings.Replace(s[k], "gpt-oss-20b", "first/steps", 1)
		}
	}
	bundled, err := demo.Path(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	weights, err := os.ReadFile(bundled)
	if err != nil {
		t.Fatal(err)
	}
	hub := hubtest.Start(t)
	hub.Add(hubtest.Repo{ID: "First/Steps-GGUF", License: "mit", Files: []hubtest.File{
		{Path: "steps-F16.gguf", Content: weights, LFS: true}, {Path: "README.md", Content: []byte("# Steps")}}})
	home := t.TempDir()
	command := func(args ...string) *exec.Cmd {
		bin, err := exec.LookPath("runner")
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(bin, args...)
		cmd.Dir = home
		cmd.Env = []string{"HOME=" + home, "HF_ENDPOINT=" + hub.URL, "TERM=xterm", "PATH=/usr/bin:/bin"}
		return cmd
	}

	out, err := command(steps[1]...).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "ready: runner run First/Steps-GGUF:F16") {
		t.Fatalf("pull: %v: %s", err, out)
	}
	sent := hub.Sent()

	out, err = command(append(steps[2], "--max-tokens", "200")...).CombinedOutput()
	if err != nil || len(bytes.TrimSpace(out)) == 0 {
		t.Errorf("%q: %v: %s", steps[2], err, out)
	}
	out, err = command("bench", "first/steps", "-p", "16", "-n", "4", "-r", "1").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "pp16") {
		t.Errorf("bench: %v: %s", err, out)
	}

	chat := command(append(steps[3], "--temperature", "0")...)
	terminal, err := pty.StartWithSize(chat, &pty.Winsize{Rows: 24, Cols: 80})
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	defer chat.Process.Kill() // it has ended, if all is well
	expect(t, terminal, ">>>")
	typed(t, terminal, "What is 17 + 25?")
	expect(t, terminal, "17 + 25 = 42.")
	expect(t, terminal, ">>>")
	typed(t, terminal, "/exit")
	if err := chat.Wait(); err != nil {
		t.Errorf("the chat ended with %v", err)
	}

	server := command(append(steps[4], "--port", "0")...)
	told, err := server.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer server.Process.Kill() // it has ended, if all is well
	url := ""
	lines := bufio.NewScanner(told)
	for url == "" && lines.Scan() {
		if m := address.FindStringSubmatch(lines.Text()); m != nil {
			url = m[1]
		}
	}
	go func() { _, _ = io.Copy(io.Discard, told) }()
	res, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(
		`{"model":"first/steps","temperature":0,"messages":[{"role":"user","content":"What is 17 + 25?"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil || res.StatusCode != http.StatusOK || !bytes.Contains(answer, []byte("17 + 25 = 42.")) {
		t.Errorf("the served model: %d %s, %v", res.StatusCode, answer, err)
	}
	if err := server.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := server.Wait(); err != nil {
		t.Errorf("the server ended with %v", err)
	}
	if hub.Sent() != sent {
		t.Errorf("%d bytes were downloaded after the pull", hub.Sent()-sent)
	}
	if blobs, err := filepath.Glob(home + "/.cache/huggingface/hub/models--First--Steps-GGUF/blobs/*"); len(blobs) != 1 {
		t.Errorf("the cache has %q: %v", blobs, err)
	}
}

// expect reads what a program writes on a terminal until text is there.
func expect(t *testing.T, terminal *os.File, text string) {
	t.Helper()
	if err := terminal.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	var seen []byte
	for buf := make([]byte, 1); !bytes.HasSuffix(seen, []byte(text)); {
		n, err := terminal.Read(buf)
		if seen = append(seen, buf[:n]...); err != nil {
			t.Fatalf("no %q in %q: %v", text, seen, err)
		}
	}
}

// typed types a line on a terminal.
func typed(t *testing.T, terminal *os.File, line string) {
	t.Helper()
	if _, err := terminal.WriteString(line + "\r"); err != nil {
		t.Fatal(err)
	}
}
