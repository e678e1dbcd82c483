//go:build linux

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"runner/backend/llamacpp/enginefolder"
	"runner/cmd/runner/cli"
	"runner/models/random"
	"runner/models/random/randomtest"
)

// installation is the program in a folder of its own, as an installation has it: bin/runner, and lib/runner/engines for
// engines. Its data folder is data.
type installation struct {
	t             *testing.T
	dir, lib, bin string
	data          string
}

func install(t *testing.T) *installation {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	in := &installation{t: t, dir: dir, lib: filepath.Join(dir, "lib", "runner"), bin: filepath.Join(dir, "bin", "runner"),
		data: filepath.Join(dir, "data", "runner")}
	for _, d := range []string{filepath.Dir(in.bin), filepath.Join(in.lib, "engines"), filepath.Join(in.data, "engines")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if os.Link(exe, in.bin) == nil {
		return in
	}
	b, err := os.ReadFile(exe) // on another disk
	if err == nil {
		err = os.WriteFile(in.bin, b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// model writes a model with random weights.
func (in *installation) model(architecture string) string {
	in.t.Helper()
	path := filepath.Join(in.dir, architecture+".gguf")
	if err := randomtest.WriteFile(path, random.Config{Architecture: architecture, Seed: 1}); err != nil {
		in.t.Fatal(err)
	}
	return path
}

// link makes a symbolic link.
func (in *installation) link(target string, name ...string) {
	in.t.Helper()
	if err := os.Symlink(target, filepath.Join(name...)); err != nil {
		in.t.Fatal(err)
	}
}

func (in *installation) command(args ...string) *exec.Cmd {
	cmd := exec.Command(in.bin, args...)
	cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+filepath.Join(in.dir, "data"), "RUNNER_ENGINE=", "RUNNER_PYTHON=")
	return cmd
}

// run runs the program and returns what it wrote to standard output and to standard error, and its exit code.
func (in *installation) run(args ...string) (out, aside string, code int) {
	in.t.Helper()
	cmd := in.command(args...)
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		in.t.Fatal(err)
	}
	return o.String(), e.String(), cmd.ProcessState.ExitCode()
}

// TestEngineIsChosen: without any flag, the program's own engine runs the models that it knows, and a folder's the
// others.
func TestEngineIsChosen(t *testing.T) {
	engine := testEngine(t)
	in := install(t)
	qwen, gemma := in.model("qwen35"), in.model("gemma4")

	_, aside, code := in.run("run", qwen, "hello")
	if code != 1 {
		t.Errorf("without an engine for it, the exit code is %d", code)
	}
	says(t, aside, `unknown architecture "qwen35"; the llama.cpp in this program does not run it; put the folder of a `,
		enginefolder.SupportedVersions, "into "+filepath.Join(in.data, "engines")+", or name it with --engine")

	for place, dir := range map[string]string{"beside the program": in.lib, "in the data folder": in.data} {
		t.Run(place, func(t *testing.T) {
			at := filepath.Join(dir, "engines", "newer")
			in.link(engine, at)
			defer os.Remove(at)
			for _, path := range []string{qwen, gemma} {
				out, aside, code := in.run("doctor", path)
				says(t, out, "computed by   llama.cpp 0.", " in a process of its own; kernels: libggml-cpu-")
				if code != 0 {
					t.Errorf("exit code %d: %s", code, aside)
				}
			}
			out, _, _ := in.run("run", qwen, "--max-tokens", "4", "--output", "json", "hello")
			says(t, out, `"completion_tokens": 4`)
			out, _, _ = in.run("doctor")
			says(t, out, "computed by   llama.cpp in this process; kernels: ")
			_, aside, code := in.run("run", "--isolate", "off", qwen, "hello")
			says(t, aside, "--isolate cannot be off for this model, which the engine in "+at+" runs; ")
			if code != 2 {
				t.Errorf("with --isolate off, the exit code is %d", code)
			}
		})
	}
}

// TestNoEngineKnowsTheModel: the error names what was tried, with what was skipped and why.
func TestNoEngineKnowsTheModel(t *testing.T) {
	engine := testEngine(t)
	in := install(t)
	path := in.model("qwen35")
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, bytes.ReplaceAll(text, []byte("qwen35"), []byte("qwen99")), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	known, open := filepath.Join(in.lib, "engines", "known"), filepath.Join(in.data, "engines", "open")
	in.link(engine, known)
	if err := os.Mkdir(open, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(open, "libllama.so"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"run", path, "hello"}, {"serve", "--port", "0", path}, {"doctor", path}} {
		out, aside, code := in.run(args...)
		says(t, out+aside, "warning: the engine in "+open+" is skipped: "+open+": can be written by other users",
			`unknown architecture "qwen99"; neither the llama.cpp in this program nor llama.cpp 0.`,
			" in "+known+" runs it; put")
		if code != 1 || strings.Count(aside, "is skipped") != 1 {
			t.Errorf("%q: exit code %d\n%s", args, code, aside)
		}
	}
	for _, args := range [][]string{{"run", path, "hello"}, {"serve", "--port", "0", path}, {"doctor", path}} {
		out, aside, code := in.run(append(args, "--engine", engine)...)
		says(t, out+aside, `unknown architecture "qwen99"; this engine is llama.cpp 0.`)
		if strings.Contains(out+aside, "serving") || code != 1 {
			t.Errorf("%q with --engine: exit code %d, %s", args, code, aside)
		}
	}
}

// TestEnginesAreListed lists engines with what they say of themselves.
func TestEnginesAreListed(t *testing.T) {
	engine := testEngine(t)
	in := install(t)
	none := filepath.Join(in.dir, "none")
	for _, args := range [][]string{{"engines", "--engine", none}, {"engines", "--engine", none, "--json"}} {
		out, aside, code := in.run(args...)
		says(t, aside, "the engine in "+none+" cannot be used: no such file or directory")
		if code != 1 || strings.Contains(out+aside, none+": "+none) || !strings.Contains(out, "in this program") {
			t.Errorf("%q: exit code %d\n%s\n%s", args, code, out, aside)
		}
	}
	at := filepath.Join(in.lib, "engines", "newer")
	in.link(engine, at)
	odd := filepath.Join(in.data, "engines", "odd")
	if err := os.Mkdir(odd, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(odd, "libllama.so"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, aside, code := in.run("engines")
	says(t, out, "in this program", at)
	says(t, aside, "not usable: llama.cpp "+odd+": ", "is not a shared library", "not usable: MLX: ")
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	out, _, _ = in.run("engines", "--json")
	facts := map[string]cli.EngineFact{}
	for dec := json.NewDecoder(strings.NewReader(out)); dec.More(); {
		var f cli.EngineFact
		if err := dec.Decode(&f); err != nil {
			t.Fatal(err)
		}
		facts[f.Where] = f
	}
	own, folder := facts["in this program"], facts[at]
	for _, f := range []cli.EngineFact{own, folder} {
		if len(f.Devices) == 0 || f.Devices[0] != "CPU" || f.Kernels == "" || f.Version == "" ||
			f.Models != fmt.Sprintf("GGUF files of %d architectures", len(f.Architectures)) {
			t.Errorf("%+v", f)
		}
	}
	has := func(f cli.EngineFact, name string) bool { return strings.Contains(fmt.Sprint(f.Architectures), name) }
	if !has(own, "gpt-oss") || has(own, "qwen35") || !has(folder, "gpt-oss") || !has(folder, "qwen35") ||
		!strings.HasPrefix(folder.Version, "0.") {
		t.Errorf("%+v and %+v", own, folder)
	}
	cmd := in.command("engines")
	cmd.Env = append(cmd.Env, "RUNNER_ENGINE="+engine)
	text, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	says(t, string(text), " "+engine+"\n", " "+at+"\n")
}

// TestServerWithTwoEngines serves a model of the program's own engine and one of a folder's.
func TestServerWithTwoEngines(t *testing.T) {
	engine := testEngine(t)
	in := install(t)
	in.link(engine, in.lib, "engines", "newer")
	s := serveAs(t, func(c *exec.Cmd) { c.Path, c.Args[0] = in.bin, in.bin }, "demo", "new="+in.model("qwen35"))
	s.healthy()
	if n := len(s.engines()); n != 0 {
		t.Errorf("%d processes of engines before the model is asked for", n)
	}
	for _, model := range []string{"new", "demo", "new"} {
		if status, body := s.say(model); status != http.StatusOK {
			t.Errorf("%s: %d %s", model, status, body)
		}
	}
	if n := len(s.engines()); n != 1 {
		t.Errorf("%d processes of engines", n)
	}
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", s.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(maps), "libllama") {
		t.Error("the server's own process has opened the folder's libraries")
	}
}

// TestDoctorAsksTheEngine: doctor describes the engine that it was told to use.
func TestDoctorAsksTheEngine(t *testing.T) {
	engine := testEngine(t)
	in := install(t)
	out, _, code := in.run("doctor", "--engine", engine)
	says(t, out, "engine       llama.cpp 0.", " in "+engine, "kernels      libggml-cpu-", "the runner's own are for the",
		"computed by  llama.cpp 0.", "in a process of its own; kernels: libggml-cpu-")
	if code != 0 || strings.Contains(out, "github.com/ollama") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	out, _, _ = in.run("doctor", "--isolate", "on")
	says(t, out, "github.com/ollama", "computed by   llama.cpp in a process of its own; kernels: ")
	_, aside, code := in.run("doctor", "--engine", in.dir)
	says(t, aside, "has no libllama")
	if code != 1 {
		t.Errorf("with a folder without an engine, the exit code is %d", code)
	}
}

// TestShowDemo: show reads from a model's file what the model was trained for and can do.
func TestShowDemo(t *testing.T) {
	out, _, _ := install(t).run("show", "demo")
	says(t, out, "context       8192 tokens", "template      1133 bytes of Jinja", "completion, tools, thinking",
		"harmony")
}

// TestMEWInAProcess: the participant's model can have a process of its own.
func TestMEWInAProcess(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens.json")
	token := mewToken(t, tokens, "model", "*")
	s := serve(t, "--mew", tokens)
	s.healthy()
	in := install(t)
	for flag, value := range map[string]string{"--isolate": "on", "--engine": ""} {
		if flag == "--engine" {
			value = testEngine(t)
		}
		cmd := in.command("mew", "--url", strings.Replace(s.url, "http", "ws", 1), flag, value)
		cmd.Env = append(cmd.Env, "RUNNER_MEW_TOKEN="+token)
		var aside bytes.Buffer
		cmd.Stderr = &aside
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		s.until("the participant has no engine in a process of its own", func() bool {
			return len(children(t, cmd.Process.Pid)) == 1
		})
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // it was interrupted
		if strings.Contains(aside.String(), "cannot") {
			t.Errorf("%s", &aside)
		}
	}
	_, aside, code := in.run("mew", "--url", "ws://127.0.0.1:1", "--token", "t", "--engine", in.dir)
	says(t, aside, "has no libllama")
	if code != 1 {
		t.Errorf("with a folder without an engine, the exit code is %d", code)
	}
}

// TestEngineProcessByHand: a person who starts the hidden command learns in one line that it is not for people.
func TestEngineProcessByHand(t *testing.T) {
	in := install(t)
	out, aside, code := in.run("engine-process")
	if code != 2 || out != "" || strings.Count(aside, "\n") != 1 {
		t.Errorf("exit code %d, %q, %q", code, out, aside)
	}
	says(t, aside, "runner: engine-process is internal: runner starts it; ")
	cmd := in.command("engine-process")
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	cmd.ExtraFiles = []*os.File{null, null}
	if _ = cmd.Run(); cmd.ProcessState.ExitCode() != 2 {
		t.Errorf("with files that are no pipes, the exit code is %d", cmd.ProcessState.ExitCode())
	}
}

// TestLibrariesInTheEnginesProcess: the process of the compiled-in engine finds the GPU libraries beside the program,
// and the process that started it does not open them.
func TestLibrariesInTheEnginesProcess(t *testing.T) {
	named, err := exec.Command("go", "env", "CC").Output()
	if err != nil {
		t.Skip("go env, which names the C compiler, failed: ", err)
	}
	cc := strings.Fields(string(named))
	in := install(t)
	opened := filepath.Join(in.dir, "opened")
	for name, source := range map[string]string{"libggml-base.so.0": "int x;", "libggml-fake.so": `#include <stdio.h>
#include <unistd.h>
__attribute__((constructor)) static void f(void) {
	FILE * file = fopen("` + opened + `", "a");
	fprintf(file, "%d\n", (int) getpid());
	fclose(file);
}`} {
		cmd := exec.Command(cc[0], append(cc[1:], "-shared", "-fPIC", "-x", "c", "-", "-o", filepath.Join(in.lib, name))...)
		cmd.Stdin = strings.NewReader(source)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	for isolate, own := range map[string]bool{"off": false, "on": true} {
		_ = os.Remove(opened) // there is none at first
		cmd := in.command("run", "--isolate", isolate, "--max-tokens", "4", "What is 17 + 25?")
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(opened)
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatalf("--isolate %s: opened by %q", isolate, text)
		}
		if (pid != cmd.Process.Pid) != own {
			t.Errorf("--isolate %s: process %d opened the library, and %d was started", isolate, pid, cmd.Process.Pid)
		}
	}
}

func TestNewestFirst(t *testing.T) {
	engine := func(folder, version string, devices ...string) described {
		e := described{folder: folder}
		e.Version, e.Devices = version, devices
		return e
	}
	list := []described{engine("broken", ""), engine("old", "0.5.0", "GPU"), engine("a", "0.6.0"), engine("b", "0.6.0"),
		engine("card", "0.6.0", "GPU"), engine("dev", "0.6.0-dev", "GPU")}
	newestFirst(list)
	var names []string
	for _, e := range list {
		names = append(names, e.folder)
	}
	if got := strings.Join(names, " "); got != "card a b dev old broken" {
		t.Errorf("the order is %s", got)
	}
}

func TestCompareVersions(t *testing.T) {
	order := []string{"", "0.5.0-dev", "0.5.0", "0.5.2", "0.5.10", "0.6.0-dev", "0.6.0", "1.0.0"}
	for i, a := range order {
		for j, b := range order {
			if got := compareVersions(a, b); got != cmp.Compare(i, j) {
				t.Errorf("%q and %q: %d", a, b, got)
			}
		}
	}
}

// TestEngineSaysInTheLog: a verbose server's log has what an engine in a process of its own says.
func TestEngineSaysInTheLog(t *testing.T) {
	serve(t, "--isolate", "on", "--verbose").logs(`line="INFO llama_model_loader: loaded meta data`)
}
