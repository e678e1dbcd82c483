// Command eval measures the bundled model through package runner, with the engine in this process, at temperature 0.
//
//	go run ./scripts/demo_model/eval [-model FILE] [-limit N] [-tables a,b] [-verbose]
//	go run ./scripts/demo_model/eval -model FILE -probe probe.json
//
// The first form prints the tables of models/demo/README.md. The second compares the engine with the reference that
// scripts/demo_model/probe.py wrote: tokens of plain text, and logits of every position's best token.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"runner/backend"
	"runner/backend/llamacpp"
	"runner/chattemplate"
	"runner/runner"
)

// question is a line of the questions file; A, B and Answer are empty for what the model cannot do.
type question struct {
	Skill, Question, Answer string
	A, B                    int
}

func main() {
	model := flag.String("model", "", "GGUF `file`; empty is models/demo/demo.gguf beside the questions")
	questions := flag.String("questions", filepath.Join("models", "demo", "testdata", "questions.jsonl"), "questions `file`")
	limit := flag.Int("limit", 0, "use only the first `n` questions of each skill")
	threads := flag.Int("threads", 0, "compute threads; 0 is one per physical core")
	only := flag.String("tables", strings.Join(tableNames(), ","), "comma-separated `tables` to measure")
	levels := flag.String("efforts", "low,medium,high", "comma-separated `efforts` to measure at")
	reference := flag.String("probe", "", "compare with this reference `file` instead")
	verbose := flag.Bool("verbose", false, "print every wrong answer")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if *model == "" {
		*model = filepath.Join(filepath.Dir(filepath.Dir(*questions)), "demo.gguf")
	}
	if err := run(ctx, *model, *questions, *reference, *only, *levels, *limit, *threads, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "eval:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, model, questions, reference, only, levels string, limit, threads int, verbose bool) error {
	m, err := llamacpp.Open(ctx, model, backend.Config{ContextSize: 4096, Sequences: 16, CacheTokens: 16384, Threads: threads})
	if err != nil {
		return err
	}
	if reference != "" {
		defer m.Close()
		return probe(ctx, m, reference)
	}
	list, err := read(questions, limit)
	if err != nil {
		return err
	}
	r, err := runner.New(m, runner.Config{})
	if err != nil {
		return err
	}
	defer r.Close()
	// The runner owns the sequences of its model: what works below it has a model of its own.
	bare, err := llamacpp.Open(ctx, model, backend.Config{ContextSize: 4096, Sequences: 1, Threads: threads})
	if err != nil {
		return err
	}
	defer bare.Close()
	e := &evaluation{runner: r, model: bare, questions: list, verbose: verbose}
	for name := range strings.SplitSeq(levels, ",") {
		e.efforts = append(e.efforts, chattemplate.Effort(name))
	}
	wanted := strings.Split(only, ",")
	for _, t := range tables {
		if slices.Contains(wanted, t.name) {
			if err := t.measure(ctx, e); err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
		}
	}
	return nil
}

func read(path string, limit int) ([]question, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var list []question
	counts := map[string]int{}
	for s := bufio.NewScanner(f); s.Scan(); {
		var q question
		if err := json.Unmarshal(s.Bytes(), &q); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if counts[q.Skill]++; limit == 0 || counts[q.Skill] <= limit {
			list = append(list, q)
		}
	}
	return list, nil
}
