// Package llamaservertest starts a real llama-server for tests: the one in the Python package xllamacpp, which
// scripts/llama_server_environment.sh installs. It depends on nothing else of this project.
package llamaservertest

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

//go:embed serve.py
var script string

// Options say how to serve.
type Options struct {
	// Model is the path of a GGUF file.
	Model string
	// Context is the size of each sequence, and Parallel how many there are. 0 means 2,048 and 4.
	Context, Parallel int
	// Threads computes with so many threads; 0 means 1.
	Threads int
	// Port is the port on the loopback interface; 0 means any.
	Port int
	// Precise keeps the cache and attention in 32 bits, and the whole context of sliding windows.
	Precise bool
	// Key is the API key; empty means none.
	Key string
}

// Server is a running llama-server.
type Server struct {
	// URL is its address.
	URL string
	// PID is its process.
	PID   int
	cmd   *exec.Cmd
	input io.Closer
}

// Python returns the interpreter that has xllamacpp. It skips the test if there is none.
func Python(tb testing.TB) string {
	tb.Helper()
	python, err := find()
	switch {
	case errors.Is(err, errMissing):
		tb.Skip("there is no llama-server; scripts/llama_server_environment.sh installs one where it can")
	case err != nil:
		tb.Fatal(err)
	}
	return python
}

// Installed reports whether there is a llama-server.
func Installed() bool {
	_, err := find()
	return err == nil
}

// errMissing says that no llama-server was installed.
var errMissing = errors.New("there is no llama-server")

// find returns the interpreter that has xllamacpp.
func find() (python string, err error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("the test does not run in the module")
		}
		dir = filepath.Dir(dir)
	}
	if _, err := os.Stat(filepath.Join(dir, ".cache", "llama-server", "wanted")); err != nil {
		return "", errMissing
	}
	return filepath.Join(dir, ".cache", "llama-server", "bin", "python"), nil
}

// Start starts a server, which ends with the test. It skips the test if none is installed.
func Start(tb testing.TB, o Options) *Server {
	tb.Helper()
	s, err := Launch(Python(tb), o)
	if err != nil {
		tb.Fatal("starting llama-server: ", err)
	}
	tb.Cleanup(s.Kill)
	return s
}

// Launch starts a server with a Python interpreter that has xllamacpp. Call Kill.
func Launch(python string, o Options) (*Server, error) {
	def := func(n *int, to int) {
		if *n == 0 {
			*n = to
		}
	}
	def(&o.Context, 2048)
	def(&o.Parallel, 4)
	def(&o.Threads, 1)
	options, err := json.Marshal(map[string]any{"model": o.Model, "context": o.Context, "parallel": o.Parallel,
		"threads": o.Threads, "port": o.Port, "precise": o.Precise, "key": o.Key})
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(python, "-c", script, string(options))
	input, err := cmd.StdinPipe() // its end, also when the test dies, ends the server
	if err != nil {
		return nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &Server{cmd: cmd, input: input, PID: cmd.Process.Pid}
	stuck := time.AfterFunc(time.Minute, s.kill)
	defer stuck.Stop()
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		s.Kill()
		return nil, err
	}
	s.URL = strings.TrimSpace(line)
	return s, nil
}

func (s *Server) kill() { _ = s.cmd.Process.Kill() } // it may have ended

// Kill ends the server at once, as a crash would. It may be called twice.
func (s *Server) Kill() {
	s.kill()
	_ = s.cmd.Wait() // the error says that it was killed
}
