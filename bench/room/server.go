package room

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
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"runner/backend"
	"runner/bench"
	"runner/generation"
)

// server is a server of this program in a process of its own, whose answers are measured.
type server struct {
	url    string
	cmd    *exec.Cmd
	client *http.Client
	// ended is closed when the server wrote its last line.
	ended chan struct{}

	mu   sync.Mutex
	said []string // its last lines
}

// startTime is how long a server may take to say where it is.
const startTime = 10 * time.Minute

// startServer starts a server for a model, on a free port of this machine.
func startServer(ctx context.Context, s subject, parallel int) (*server, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := append([]string{"serve"}, s.flags...)
	cmd := exec.Command(program, append(args, "--host", "127.0.0.1", "--port", "0", "--parallel", strconv.Itoa(parallel),
		"--log-format", "text")...)
	cmd.Env = append(withoutVariables(os.Environ()), s.env...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	server := &server{cmd: cmd, client: &http.Client{}, ended: make(chan struct{})}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	timer := time.AfterFunc(startTime, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	defer stop()
	var said []string
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		if _, at, ok := strings.Cut(lines.Text(), "serving bench at "); ok {
			server.url = at
			go server.listen(lines, stderr)
			return server, server.ready(ctx)
		}
		said = append(said, lines.Text())
	}
	_ = cmd.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, fmt.Errorf("the server did not start: %s", strings.Join(said, "; "))
}

// lastLines is how many lines of a server are kept, for the case that it fails.
const lastLines = 5

// listen reads what the server writes until it ends.
func (s *server) listen(lines *bufio.Scanner, rest io.Reader) {
	defer close(s.ended)
	for lines.Scan() {
		s.mu.Lock()
		s.said = append(s.said, lines.Text())
		s.said = s.said[max(0, len(s.said)-lastLines):]
		s.mu.Unlock()
	}
	_, _ = io.Copy(io.Discard, rest) // after a line that is too long
}

// endTime is how long a server may take to end after a request failed.
const endTime = 2 * time.Second

// because adds to the error of a request what the server wrote last. Nobody else sees its log.
func (s *server) because(ctx context.Context, err error) error {
	select {
	case <-s.ended:
	case <-ctx.Done():
		return err
	case <-time.After(endTime):
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.said) == 0 {
		return err
	}
	return fmt.Errorf("%w; the server wrote: %s", err, strings.Join(s.said, "; "))
}

// withoutVariables returns an environment without this program's settings, which would change the server.
func withoutVariables(env []string) []string {
	var list []string
	for _, v := range env {
		if !strings.HasPrefix(v, "RUNNER_") {
			list = append(list, v)
		}
	}
	return list
}

// ready waits until the model is loaded.
func (s *server) ready(ctx context.Context) error {
	_, err := s.post(ctx, map[string]any{"model": "bench", "max_tokens": 1, "stream": true,
		"stream_options": map[string]any{"include_usage": true},
		"messages":       []any{map[string]any{"role": "user", "content": "Hello"}}})
	if err != nil {
		s.stop()
	}
	return err
}

// stop ends the server.
func (s *server) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.AfterFunc(10*time.Second, func() { _ = s.cmd.Process.Kill() })
	defer timer.Stop()
	_ = s.cmd.Wait()
	<-s.ended
}

// ask asks for a streamed answer and measures it as a client sees it.
func (s *server) ask(ctx context.Context, req generation.Request) (bench.Sample, error) {
	body := map[string]any{"model": "bench", "max_tokens": req.MaxTokens, "seed": *req.Seed, "stream": true,
		"reasoning": "none", "stream_options": map[string]any{"include_usage": true},
		"messages": []any{map[string]any{"role": "user", "content": req.Messages[0].Content}}}
	plain := req.Sampling.Plain()
	for _, x := range plain.Settings() {
		if x.Effect != backend.Detail {
			body[x.Name] = x.Value()
		}
	}
	return s.post(ctx, body)
}

// maxLine limits a line of a stream, in bytes.
const maxLine = 1 << 20

// post sends a request for a stream and reads it.
func (s *server) post(ctx context.Context, body map[string]any) (bench.Sample, error) {
	sample := bench.Sample{Start: time.Now()}
	text, err := json.Marshal(body)
	if err != nil {
		return sample, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/chat/completions", bytes.NewReader(text))
	if err != nil {
		return sample, err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := s.client.Do(r)
	if err != nil {
		return sample, s.because(ctx, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
		return sample, s.because(ctx, fmt.Errorf("the server answered %s: %s", answer.Status, bytes.TrimSpace(text)))
	}
	counted := false
	var last time.Time
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok || bytes.Equal(data, []byte("[DONE]")) {
			continue
		}
		var chunk struct {
			Choices []struct {
				Delta struct {
					Content string `json:"content"`
				} `json:"delta"`
			} `json:"choices"`
			Error *struct {
				Message string `json:"message"`
			} `json:"error"`
			Usage *struct {
				Completion int `json:"completion_tokens"`
			} `json:"usage"`
			Timings *struct {
				First float64 `json:"first_token_ms"`
			} `json:"timings"`
		}
		if err := json.Unmarshal(data, &chunk); err != nil {
			return sample, err
		}
		if chunk.Error != nil {
			return sample, fmt.Errorf("the server broke off an answer: %s", chunk.Error.Message)
		}
		if len(chunk.Choices) > 0 && chunk.Choices[0].Delta.Content != "" {
			if last = addGap(&sample, last); sample.Answer == 0 {
				sample.Answer = last.Sub(sample.Start)
			}
		}
		if chunk.Usage != nil {
			sample.Tokens, counted = chunk.Usage.Completion, true
		}
		if chunk.Timings != nil {
			sample.First = time.Duration(chunk.Timings.First * float64(time.Millisecond))
		}
	}
	sample.Took = time.Since(sample.Start)
	if err := lines.Err(); err != nil {
		return sample, s.because(ctx, err)
	}
	if !counted {
		return sample, errors.New("the server ended an answer without counting its tokens")
	}
	return sample, nil
}
