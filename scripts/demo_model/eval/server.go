package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"runner/server/openai"
)

// parallel is how many questions are asked at once.
const parallel = 8

// contextSize is the server's context in tokens, for which a model must work.
const contextSize = 8192

// server is the program, running as a server on this machine.
type server struct {
	cmd  *exec.Cmd
	url  string
	data string
	read chan struct{} // closed when its log has ended
}

var address = regexp.MustCompile(`^serving .* at (http\S+)`)

// start starts the program and returns when it serves the model: the bundled one if none is named. It ends with
// stop, or with the context.
func start(ctx context.Context, program, model string, threads int) (*server, error) {
	args := []string{"serve", "--port", "0", "--parallel", strconv.Itoa(parallel), "--ctx-size", strconv.Itoa(contextSize)}
	if threads > 0 {
		args = append(args, "--threads", strconv.Itoa(threads))
	}
	if model != "" {
		args = append(args, model)
	}
	data, err := os.MkdirTemp("", "runner-eval-*")
	if err != nil {
		return nil, err
	}
	s := &server{cmd: exec.CommandContext(ctx, program, args...), data: data, read: make(chan struct{})}
	s.cmd.Cancel = func() error { return s.cmd.Process.Signal(syscall.SIGTERM) }
	s.cmd.WaitDelay = grace
	s.cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+data)
	log, err := s.cmd.StderrPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(data))
	}
	found := make(chan string, 1)
	var last string
	go func() {
		defer close(s.read)
		for lines := bufio.NewScanner(log); lines.Scan(); {
			last = lines.Text()
			if m := address.FindStringSubmatch(last); m != nil {
				found <- m[1]
			}
		}
	}()
	select {
	case s.url = <-found:
		return s, nil
	case <-s.read:
		return nil, errors.Join(fmt.Errorf("%s does not serve: %s", program, last), s.cmd.Wait(), os.RemoveAll(data))
	}
}

// grace is how long the server may take to stop before it is killed.
const grace = 10 * time.Second

// stop ends the server.
func (s *server) stop() error {
	err := s.cmd.Process.Signal(syscall.SIGTERM)
	late := time.AfterFunc(grace, func() { _ = s.cmd.Process.Kill() })
	defer late.Stop()
	<-s.read
	return errors.Join(err, s.cmd.Wait(), os.RemoveAll(s.data))
}

// post sends a request and reads its answer.
func post[T any](ctx context.Context, s *server, path string, request any) (*T, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s: %s", path, res.Status, text)
	}
	answer := new(T)
	return answer, json.Unmarshal(text, answer)
}

// maxTokens ends a run that repeats itself.
const maxTokens = 1500

// fields are the fields of a request.
type fields map[string]any

// chat asks for the answer to messages.
func (s *server) chat(ctx context.Context, f fields) (*openai.ChatCompletion, error) {
	return post[openai.ChatCompletion](ctx, s, "/v1/chat/completions", f)
}

// prompt returns the model's prompt for a request.
func (s *server) prompt(ctx context.Context, f fields) (*openai.AppliedTemplate, error) {
	return post[openai.AppliedTemplate](ctx, s, "/apply-template", f)
}

// opening begins the reasoning in a raw prompt.
const opening = "<|channel|>analysis<|message|>"

// answerMark matches the start of the answer in a raw continuation, which has no control tokens, and anything that
// may precede it.
var answerMark = regexp.MustCompile(`assistantfinal(?: ?json)?`)

// proceed lets the model continue from a raw prompt and returns the reasoning and the answer.
func (s *server) proceed(ctx context.Context, prompt string) (thoughts, answer string, err error) {
	c, err := post[openai.Completion](ctx, s, "/v1/completions", fields{"prompt": prompt, "parse_special": true,
		"temperature": 0, "max_tokens": maxTokens})
	if err != nil {
		return "", "", err
	}
	text := c.Choices[0].Text
	marks := answerMark.FindAllStringIndex(text, -1)
	if len(marks) == 0 {
		return text, "", nil
	}
	last := marks[len(marks)-1]
	return text[:last[0]], text[last[1]:], nil
}
