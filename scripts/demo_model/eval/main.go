// Command eval evaluates a model through the built program, as a user would use it. It starts the server of
// bin/runner, asks questions generated for this run, at temperature 0, and prints the tables of
// models/demo/README.md.
//
//	go run ./scripts/demo_model/eval [-runner FILE] [-model FILE] [-seed N] [-n N] [-skills a,b] [-verbose]
//	go run ./scripts/demo_model/eval -model FILE -probe probe.json
//
// The first form generates the questions with scripts/demo_model/make_eval.py, which needs only Python 3. The
// second compares the engine, in this process, with the reference written by scripts/demo_model/probe.py: the
// tokens of plain text, and the logits of the best token at every position.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"runner/backend"
	"runner/backend/llamacpp"
)

// options are the command-line flags.
type options struct {
	runner, model, questions, python, probe string
	seed, count, threads                    int
	skills, efforts                         []string
	verbose                                 bool
}

func main() {
	var o options
	flag.StringVar(&o.runner, "runner", filepath.Join("bin", "runner"), "the built `program`")
	flag.StringVar(&o.model, "model", "", "GGUF `file`; empty is the bundled model")
	flag.StringVar(&o.questions, "questions", "", "ask the questions of this `file` instead of new ones")
	flag.StringVar(&o.python, "python", "python3", "the `program` that runs make_eval.py")
	flag.StringVar(&o.probe, "probe", "", "compare with this reference `file` instead")
	flag.IntVar(&o.seed, "seed", 1, "seed of the questions")
	flag.IntVar(&o.count, "n", 500, "`questions` of each skill")
	flag.IntVar(&o.threads, "threads", 0, "compute `threads`; 0 is the program's own choice")
	skills := flag.String("skills", strings.Join(names(), ","), "comma-separated `skills` to measure")
	levels := flag.String("efforts", "low,medium,high", "comma-separated `efforts` to compare")
	flag.BoolVar(&o.verbose, "verbose", false, "print every wrong answer")
	flag.Parse()
	o.skills, o.efforts = strings.Split(*skills, ","), strings.Split(*levels, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, &o); err != nil {
		fmt.Fprintln(os.Stderr, "eval:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o *options) error {
	if o.probe != "" {
		return compare(ctx, o)
	}
	for _, name := range o.skills {
		if !slices.Contains(names(), name) {
			return fmt.Errorf("unknown skill %q; the skills are %s", name, strings.Join(names(), ", "))
		}
	}
	list, err := o.load(ctx)
	if err != nil {
		return err
	}
	s, err := start(ctx, o.runner, o.model, o.threads)
	if err != nil {
		return err
	}
	e := &evaluation{server: s, questions: list, count: o.count, efforts: o.efforts, verbose: o.verbose}
	return errors.Join(e.print(ctx, os.Stdout, o.skills), s.stop())
}

// compare compares the engine with the reference.
func compare(ctx context.Context, o *options) error {
	if o.model == "" {
		o.model = filepath.Join("models", "demo", "demo.gguf")
	}
	m, err := llamacpp.Open(ctx, o.model, backend.Config{ContextSize: 8192, Sequences: 1, Threads: o.threads})
	if err != nil {
		return err
	}
	defer m.Close()
	return probe(ctx, m, o.probe)
}
