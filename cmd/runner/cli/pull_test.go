package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"runner/models/catalog"
	"runner/models/hub"
	"runner/models/hub/hubtest"
	"runner/models/pull"
	"runner/testenv"
)

// A pulled model can be listed, shown, checked and removed. What was pulled is not fetched again, a damaged file is
// found, and an unknown name is answered with the nearest.
func TestPulledModel(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short no test starts this many processes")
	}
	h := hubtest.Start(t)
	content := bytes.Repeat([]byte("GGUF weights "), 100_000)
	h.Add(hubtest.Repo{ID: "Org/Tiny-GGUF", License: "mit", Files: []hubtest.File{
		{Path: "tiny-Q4_K_M.gguf", Content: content}, {Path: "tiny-Q8_0.gguf", Content: append(content, content...)},
		{Path: "README.md", Content: []byte("# Tiny")}}})
	cache := t.TempDir()
	run := func(want int, args ...string) (stdout, stderr string) {
		t.Helper()
		cmd := exec.Command("runner", args...)
		cmd.Env = append(os.Environ(), "HF_ENDPOINT="+h.URL, "HF_HUB_CACHE="+cache, "HOME="+t.TempDir(), "HF_TOKEN=",
			noRaceDelay)
		var out, err bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &err
		if e := cmd.Run(); cmd.ProcessState.ExitCode() != want {
			t.Fatalf("runner %s: %v, want exit code %d\n%s%s", strings.Join(args, " "), e, want, &out, &err)
		}
		return out.String(), err.String()
	}
	_, told := run(0, "verify")
	if !strings.Contains(told, "there are no models") {
		t.Errorf("verify without models: %s", told)
	}
	_, told = run(0, "list")
	if !strings.Contains(told, "runner pull") {
		t.Errorf("without models: %s", told)
	}
	h.Fail(func(r hubtest.Request) hubtest.Fault {
		if r.Number == 1 {
			return hubtest.Fault{Status: http.StatusServiceUnavailable}
		}
		return hubtest.Fault{}
	})
	_, told = run(0, "pull", "org/tiny:q4_k_m")
	h.Fail(nil)
	if !strings.Contains(told, "answers 503; trying again\n") {
		t.Errorf("a hub that fails is tried again without a word: %s", told)
	}
	if !strings.Contains(told, "Org/Tiny-GGUF, Q4_K_M, 1.2 MiB, licence mit") ||
		!strings.Contains(told, "ready: runner run Org/Tiny-GGUF:Q4_K_M") {
		t.Errorf("pull: %s", told)
	}
	sent := h.Sent()
	out, _ := run(0, "pull", "--json", "https://hf.co/Org/Tiny-GGUF:Q4_K_M")
	if h.Sent() != sent {
		t.Errorf("%d bytes were sent again", h.Sent()-sent)
	}
	for line := range strings.Lines(out) {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Errorf("line %q: %v", line, err)
		}
		if state, ok := v["state"].(string); !ok || state == "" {
			t.Errorf("no state in %q", line)
		}
	}
	if !strings.Contains(out, `"state":"success"`) {
		t.Errorf("pull --json: %s", out)
	}
	// Without the hub, what is here is good, and what is not here is not.
	t.Setenv("HF_HUB_OFFLINE", "1")
	if _, told = run(0, "pull", "org/tiny:Q4_K_M"); !strings.Contains(told, "the model is here") ||
		!strings.Contains(told, "ready: runner run Org/Tiny-GGUF") {
		t.Errorf("pull: %s", told)
	}
	run(1, "pull", "org/tiny:Q8_0")
	if out, _ = run(1, "pull", "--json", "org/tiny:Q8_0"); !strings.HasPrefix(out, `{"state":"error","error":"`) ||
		!strings.Contains(out, `"hint":"unset HF_HUB_OFFLINE`) {
		t.Errorf("pull --json: %s", out)
	}
	t.Setenv("HF_HUB_OFFLINE", "")
	h.Fail(func(hubtest.Request) hubtest.Fault { return hubtest.Fault{Status: http.StatusServiceUnavailable} })
	asked := len(h.Asked())
	if out, _ = run(0, "pull", "--json", "org/tiny"); !strings.Contains(out, `"state":"success"`) {
		t.Errorf("pull --json: %s", out)
	}
	if n := len(h.Asked()) - asked; n != 1 {
		t.Errorf("the hub was asked %d times for what is here", n)
	}
	h.Fail(nil)
	if out, _ = run(0, "list"); !strings.Contains(out, "Org/Tiny-GGUF") || !strings.Contains(out, "Q4_K_M") {
		t.Errorf("list: %s", out)
	}
	if out, _ = run(0, "show", "org/tiny"); !strings.Contains(out, "tiny-Q4_K_M.gguf") {
		t.Errorf("show: %s", out)
	}
	if out, _ = run(0, "verify"); !strings.Contains(out, "Org/Tiny-GGUF: 1 file,") {
		t.Errorf("verify: %s", out)
	}
	// The names that run takes are taken by the other commands, and what is near is suggested.
	entries, err := filepath.Glob(filepath.Join(cache, "models--*", "snapshots", "*", "*"))
	if err != nil || len(entries) != 1 {
		t.Fatalf("%q, %v", entries, err)
	}
	for _, name := range []string{"tiny", "Tiny-GGUF", "tiny:latest", entries[0]} {
		if out, _ = run(0, "verify", name); !strings.Contains(out, "Org/Tiny-GGUF: 1 file,") {
			t.Errorf("verify %s: %s", name, out)
		}
	}
	if _, told = run(0, "pull", "tiny-gguf"); !strings.Contains(told, "ready: runner run Org/Tiny-GGUF") {
		t.Errorf("pull: %s", told)
	}
	for _, command := range []string{"verify", "rm"} {
		if _, told = run(1, command, "org/tinny"); !strings.Contains(told, "did you mean Org/Tiny-GGUF") {
			t.Errorf("%s: %s", command, told)
		}
		if _, told = run(1, command, "Demo"); !strings.Contains(told, "demo is part of this program") {
			t.Errorf("%s: %s", command, told)
		}
	}
	blobs, err := filepath.Glob(filepath.Join(cache, "models--*", "blobs", "*"))
	if err != nil || len(blobs) != 1 {
		t.Fatalf("%q, %v", blobs, err)
	}
	if err := os.Chmod(blobs[0], 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(blobs[0], append([]byte("X"), content[1:]...), 0o600); err != nil {
		t.Fatal(err)
	}
	out, told = run(1, "verify", "org/tiny")
	if !strings.Contains(out, "1 damaged") || !strings.Contains(told, "runner rm") {
		t.Errorf("verify: %s%s", out, told)
	}
	if _, told = run(0, "rm", entries[0]); !strings.Contains(told, "removed") {
		t.Errorf("rm: %s", told)
	}
	if out, _ = run(0, "list"); strings.Contains(out, "Tiny") {
		t.Errorf("list: %s", out)
	}
	if _, told = run(1, "rm", "org/tiny"); !strings.Contains(told, "see runner list") {
		t.Errorf("rm: %s", told)
	}
	if _, told = run(1, "pull", "gpt-os-20b"); !strings.Contains(told, "did you mean gpt-oss") {
		t.Errorf("pull: %s", told)
	}
	if _, told = run(1, "pull", "org/nothing"); !strings.Contains(told, "org/nothing") ||
		strings.Contains(told, "did you mean") {
		t.Errorf("pull: %s", told)
	}
	if _, told = run(1, "pull", "ggml-org/gpt-oss-20"); !strings.Contains(told, "did you mean gpt-oss:20b") {
		t.Errorf("pull: %s", told)
	}
	if _, told = run(1, "pull", "Org/Tiny-GGUF:Q2_K"); !strings.Contains(told, "Q8_0") {
		t.Errorf("pull: %s", told)
	}
}

// An interrupted pull goes on where it stopped, and says so.
func TestInterruptedPull(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short no test waits for a slow download")
	}
	h := hubtest.Start(t)
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	h.Add(hubtest.Repo{ID: "Org/Slow-GGUF", Files: []hubtest.File{{Path: "slow.gguf", Content: content}}})
	h.Fail(func(r hubtest.Request) hubtest.Fault {
		if !r.Bytes {
			return hubtest.Fault{}
		}
		return hubtest.Fault{Slow: 2 * time.Millisecond}
	})
	cache := t.TempDir()
	command := func(args ...string) (*exec.Cmd, *bytes.Buffer) {
		cmd := exec.Command("runner", args...)
		cmd.Env = append(os.Environ(), "HF_ENDPOINT="+h.URL, "HF_HUB_CACHE="+cache, "HOME="+t.TempDir(), "HF_TOKEN=",
			noRaceDelay)
		told := &bytes.Buffer{}
		cmd.Stderr = told
		return cmd, told
	}
	cmd, told := command("pull", "org/slow")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); h.Sent() < 6<<20; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes were sent in a minute: %s", h.Sent(), told)
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the exit code says it
	if cmd.ProcessState.ExitCode() != exitInterrupted || !strings.Contains(told.String(), "the same command goes on") {
		t.Errorf("%v: %s", cmd.ProcessState, told)
	}
	list, _ := command("list")
	var listed bytes.Buffer
	list.Stdout = &listed
	if err := list.Run(); err != nil || !strings.Contains(listed.String(), "of 16.0 MiB here, unfinished") ||
		!strings.Contains(listed.String(), "runner pull Org/Slow-GGUF:slow.gguf") {
		t.Errorf("list: %v: %s", err, &listed)
	}
	leave, _ := command("rm", "org/slow:Q8_0")
	if err := leave.Run(); err == nil {
		t.Error("what is not here was removed")
	}
	h.Fail(nil)
	again, more := command("pull", "org/slow")
	if err := again.Run(); err != nil {
		t.Fatalf("%v: %s", err, more)
	}
	if !strings.Contains(more.String(), "of that are already here") {
		t.Errorf("the second pull: %s", more)
	}
	if h.Sent() > int64(len(content))*3/2 {
		t.Errorf("%d bytes were sent for a file of %d", h.Sent(), len(content))
	}
}

// What a download left is removed with its model, unless it goes on.
func TestRemoveUnfinished(t *testing.T) {
	repo := filepath.Join(inEmptyHome(t), "models--Org--Half-GGUF")
	put := func(name, text string) {
		t.Helper()
		path := filepath.Join(repo, "blobs", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for letter, quant := range map[string]string{"a": "Q8_0", "b": "Q4_K_M"} {
		etag := strings.Repeat(letter, 64)
		put(etag+".free-0-x.partial/name", "half-"+quant+".gguf")
		put(etag+".free-0-x.partial/journal", "runner-partial 1 "+etag+" 9000 4000\n0 4000 "+etag+"\n")
	}
	put(strings.Repeat("c", 64)+".0f.incomplete", "hf")
	left := func() (names []string) {
		for _, l := range scripted().list(t.Context()) {
			names = append(names, l.Name)
		}
		return names
	}
	a := scripted()
	if err := a.remove("org/half:q8_0", false); err != nil || len(left()) != 2 {
		t.Errorf("%v; %q are left", err, left())
	}
	if err := a.remove("org/half:q8_0", false); err == nil {
		t.Error("it was removed twice")
	}
	if err := a.remove("org/half", false); err != nil || len(left()) != 0 {
		t.Errorf("%v; %q are left", err, left())
	}
	if err := a.remove("org/half", false); err == nil {
		t.Error("nothing was removed, and nothing said so")
	}
}

// On a terminal a model that is not here is offered for download, with its size and licence. No means no.
func TestPullIsOffered(t *testing.T) {
	h := hubtest.Start(t)
	h.Add(hubtest.Repo{ID: "Org/Tiny-GGUF", License: "mit", Files: []hubtest.File{
		{Path: "tiny-Q4_K_M.gguf", Content: bytes.Repeat([]byte("GGUF weights "), 100_000)}}})
	env := []string{"HF_ENDPOINT=" + h.URL, "HF_TOKEN="}
	no := start(t, env, "run", "org/tiny-gguf", "count")
	no.expect("Download Org/Tiny-GGUF, Q4_K_M, 1.2 MiB, licence mit? [y/N]")
	no.send("n\r")
	no.expect("org/tiny-gguf is not on this machine; download it first, with: runner pull org/tiny-gguf")
	no.exit(exitFailed)
	if h.Sent() != 0 {
		t.Errorf("%d bytes were sent without a yes", h.Sent())
	}
	pair := start(t, env, "run", "yes/no")
	pair.expect("the hub has no such repository")
	pair.expect("To send it as a prompt: runner run demo yes/no")
	pair.exit(exitFailed)
	yes := start(t, env, "run", "org/tiny-gguf")
	yes.expect("[y/N]")
	yes.send("y\r")
	yes.expect("ready: runner run Org/Tiny-GGUF:Q4_K_M")
	yes.expect(">>>")
	yes.enter("/exit")
	yes.exit(exitOK)
	// Of two that are here, the one that suits the machine is used.
	for _, quant := range []string{"Q4_K_M", "Q8_0"} {
		path := filepath.Join(no.dir, "models--org--Two-GGUF", "snapshots", "c1", "two-"+quant+".gguf")
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("GGUF"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	two := start(t, append(env, "HF_HUB_CACHE="+no.dir), "run", "org/two")
	two.expect("org/two is here as Q4_K_M, Q8_0; Q4_K_M is used")
	two.enter("/exit")
	two.exit(exitOK)
	rm := func(args ...string) (string, error) {
		cmd := exec.Command("runner", append([]string{"rm"}, args...)...)
		cmd.Env = append(os.Environ(), "HF_HUB_CACHE="+no.dir, "HOME="+no.dir)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := rm("org/two")
	if err == nil || !strings.Contains(out, "2 models of org/Two-GGUF are here: Q4_K_M, Q8_0; name one") {
		t.Errorf("rm: %v: %s", err, out)
	}
	out, err = rm("--all", "org/two")
	if err != nil || !strings.Contains(out, "removed org/two: 2 files") {
		t.Errorf("rm --all: %v: %s", err, out)
	}
}

// Ctrl-C in a download that run began says that nothing is lost, as in pull. At the question it means no.
func TestInterruptedOffer(t *testing.T) {
	h := hubtest.Start(t)
	h.Add(hubtest.Repo{ID: "Org/Slow-GGUF", Files: []hubtest.File{
		{Path: "slow-Q8_0.gguf", Content: bytes.Repeat([]byte("0123456789abcdef"), 1<<20)}}})
	h.Fail(func(r hubtest.Request) hubtest.Fault {
		if r.Bytes {
			return hubtest.Fault{Slow: 2 * time.Millisecond}
		}
		return hubtest.Fault{}
	})
	env := []string{"HF_ENDPOINT=" + h.URL, "HF_TOKEN="}
	no := start(t, env, "run", "org/slow")
	no.expect("[y/N]")
	no.send("\x03")
	no.exit(exitInterrupted)
	if h.Sent() != 0 {
		t.Errorf("%d bytes were sent without a yes", h.Sent())
	}
	yes := startIn(t, 80, env, "run", "org/slow")
	yes.expect("[y/N]")
	yes.send("y\r")
	for deadline := time.Now().Add(hang); h.Sent() < 1<<20; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nothing is sent")
		}
	}
	yes.send("\x03")
	// Each row begins at the left, whatever ^C did to the cursor, so it does not wrap.
	if shown := yes.expect("interrupted; what is here is kept"); !strings.Contains(shown, "slow-Q8_0.gguf") ||
		regexp.MustCompile(`A\x1b\[J[^\r]`).MatchString(shown) {
		t.Errorf("%q", shown)
	}
	yes.exit(exitInterrupted)
}

// What a reader would wonder about is explained: a file that another program downloads, and one that comes once more.
func TestUnusualStatesAreExplained(t *testing.T) {
	h := hubtest.Start(t)
	h.Add(hubtest.Repo{ID: "Org/Slow-GGUF", Files: []hubtest.File{
		{Path: "slow-Q8_0.gguf", Content: bytes.Repeat([]byte("0123456789abcdef"), 1<<19), LFS: true}}})
	slow := func(r hubtest.Request) hubtest.Fault {
		if r.Bytes {
			return hubtest.Fault{Slow: 2 * time.Millisecond}
		}
		return hubtest.Fault{}
	}
	h.Fail(slow)
	env := []string{"HF_ENDPOINT=" + h.URL, "HF_TOKEN=", "HF_HUB_CACHE=" + t.TempDir()}
	first := start(t, env, "pull", "org/slow")
	for deadline := time.Now().Add(hang); h.Sent() == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nothing is sent")
		}
	}
	second := start(t, env, "pull", "org/slow")
	second.expect("slow-Q8_0.gguf: another program is downloading it")
	h.Fail(nil)
	for _, tt := range []*terminal{first, second} {
		tt.expect("ready: runner run Org/Slow-GGUF:Q8_0")
		tt.exit(exitOK)
	}
	var flipped atomic.Bool
	h.Fail(func(r hubtest.Request) hubtest.Fault {
		if r.Bytes && flipped.CompareAndSwap(false, true) {
			return hubtest.Fault{Flip: 5}
		}
		return hubtest.Fault{}
	})
	wrong := start(t, []string{"HF_ENDPOINT=" + h.URL, "HF_TOKEN="}, "pull", "org/slow")
	wrong.expect("slow-Q8_0.gguf: its content does not have the hub's hash, so it is downloaded once more")
	wrong.expect("ready: ")
	wrong.exit(exitOK)
}

// The question whether to download says what speaks against it, before the yes.
func TestOfferWarns(t *testing.T) {
	plan := &pull.Plan{Repository: hub.Repository{ID: "Org/Big-GGUF", License: "other", Gated: true},
		Model: catalog.Entry{Quant: "Q2_K"}, TooBig: true}
	const want = "org/big is not on this machine. This machine may not have the memory for this model, and it is the " +
		"smallest there is. Download Org/Big-GGUF, Q2_K, 0 B, licence other, gated: its owner wants its terms " +
		"accepted first? [y/N]"
	if got := offer("org/big", plan); got != want {
		t.Errorf("%s", got)
	}
}

// A hub that cannot be reached is one plain line, however often it is asked.
func TestWaitsAreToldOnce(t *testing.T) {
	a := scripted()
	told := &testenv.Buffer{}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	a.err = w
	waiting := a.waiting()
	c, err := hub.New(hub.Config{Endpoint: "http://127.0.0.1:1", Waiting: waiting,
		Retry: hub.Retry{Tries: 4, First: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Repository(t.Context(), "org/tiny", "main"); err == nil {
		t.Error("a port that nobody listens on answers")
	}
	_ = w.Close()
	if _, err := io.Copy(told, r); err != nil {
		t.Fatal(err)
	}
	if got := told.String(); got != "127.0.0.1:1 cannot be reached (the connection is refused); trying again\n" {
		t.Errorf("%q", got)
	}
}

// Programs that read pull --json learn why it waits, while the hub is asked and while bytes come.
func TestRetriesInJSON(t *testing.T) {
	h := hubtest.Start(t)
	h.Add(hubtest.Repo{ID: "Org/Tiny-GGUF", Files: []hubtest.File{
		{Path: "tiny-Q8_0.gguf", Content: bytes.Repeat([]byte("GGUF weights "), 1000), LFS: true}}})
	var asked, sent atomic.Bool
	h.Fail(func(r hubtest.Request) hubtest.Fault {
		switch {
		case r.Bytes:
			return hubtest.Fault{Abort: sent.CompareAndSwap(false, true)}
		case asked.CompareAndSwap(false, true):
			return hubtest.Fault{Status: http.StatusServiceUnavailable}
		}
		return hubtest.Fault{}
	})
	cmd := exec.Command("runner", "pull", "--json", "org/tiny")
	cmd.Env = append(os.Environ(), "HF_ENDPOINT="+h.URL, "HF_HUB_CACHE="+t.TempDir(), "HOME="+t.TempDir(), "HF_TOKEN=",
		noRaceDelay)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`{"state":"retrying","error":"[^"]*answers 503","wait_seconds":`,
		`{"file":"tiny-Q8_0.gguf","state":"retrying",.*"error":"[^"]*cannot be reached.*","wait_seconds":`,
		`{"name":"Org/Tiny-GGUF:Q8_0","path":".*","state":"success"}`} {
		if !regexp.MustCompile(want).Match(out) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
}
