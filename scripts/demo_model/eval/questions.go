package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// question is a line of the questions file.
type question struct {
	// Skill is what the question tests, and Kind which variant.
	Skill     string `json:"skill"`
	Kind      string `json:"kind"`
	Effort    string `json:"effort"`
	Developer string `json:"developer"`
	// Messages end with the one to be answered.
	Messages []message `json:"messages"`
	// Tools are offered, and ToolResult is the result of calling one.
	Tools      []json.RawMessage `json:"tools"`
	ToolResult string            `json:"tool_result"`
	// Schema is the schema of the answer, with its name.
	Schema     json.RawMessage `json:"schema"`
	SchemaName string          `json:"schema_name"`
	Strategy   string          `json:"strategy"`
	// Rationale asks for the reason of each call. Delegate is a specialist's prompt. Allow lets the model delegate.
	Rationale bool   `json:"rationale"`
	Delegate  string `json:"delegate"`
	Allow     bool   `json:"allow"`
	Expect    expect `json:"expect"`
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// expect is what is right: the whole answer, the result in it, the call before it, and the answer's JSON value.
type expect struct {
	Answer string          `json:"answer"`
	Result string          `json:"result"`
	Call   *expectedCall   `json:"call"`
	JSON   json.RawMessage `json:"json"`
}

type expectedCall struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// String returns what is right, on one line.
func (x expect) String() string {
	parts := []string{fmt.Sprintf("%q", x.Answer)}
	if x.Call != nil {
		parts = append(parts, fmt.Sprintf("%s(%s)", x.Call.Name, x.Call.Arguments))
	}
	if len(x.JSON) > 0 {
		parts = append(parts, string(x.JSON))
	}
	return strings.Join(parts, ", ")
}

// asked returns the text to be answered.
func (q *question) asked() string { return q.Messages[len(q.Messages)-1].Content }

// load reads the questions file, or has a new one generated.
func (o *options) load(ctx context.Context) ([]question, error) {
	if o.questions != "" {
		f, err := os.Open(o.questions)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return read(f)
	}
	script := filepath.Join("scripts", "demo_model", "make_eval.py")
	cmd := exec.CommandContext(ctx, o.python, script, "--seed", strconv.Itoa(o.seed), "--count", strconv.Itoa(o.count))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	list, err := read(out)
	if err != nil {
		_ = out.Close() // otherwise a script that continues to write would never end
	}
	if ended := cmd.Wait(); ended != nil {
		err = errors.Join(err, fmt.Errorf("%s: %w", script, ended))
	}
	return list, err
}

// read reads questions, one per line.
func read(from io.Reader) ([]question, error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	var list []question
	for lines.Scan() {
		var q question
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			return nil, fmt.Errorf("question %d: %w", len(list)+1, err)
		}
		if len(q.Messages) == 0 {
			return nil, fmt.Errorf("question %d has no messages", len(list)+1)
		}
		list = append(list, q)
	}
	return list, lines.Err()
}
