// Command steps loads a model and times its steps: prompts, and single tokens after each. It prints a name and a figure
// a line: load (seconds), pp1, tg1, pp2, tg2 and so on (tokens per second) and peak (MB in use at the most, the mapped
// file included; 0 where the system does not say).
//
// It uses only what the backend contract has had for long, so that older commits compile it. Package main of the folder
// above runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"runner/backend"
	"runner/backend/llamacpp"
)

type options struct {
	sequences, prompt, generate, prompts, threads, batch int
}

func main() {
	var o options
	flag.IntVar(&o.sequences, "sequences", 1, "`sequences` that generate at the same time")
	flag.IntVar(&o.prompt, "prompt", 512, "`tokens` of a prompt")
	flag.IntVar(&o.generate, "generate", 64, "`tokens` to generate in each sequence after each prompt")
	flag.IntVar(&o.prompts, "prompts", 1, "how many `prompts` follow one another, each in new sequences")
	flag.IntVar(&o.threads, "threads", 2, "`threads` that compute")
	flag.IntVar(&o.batch, "batch", 0, "`tokens` of a prompt in a step; 0 for what the program chooses for the model")
	flag.Parse()
	if err := run(flag.Arg(0), o); err != nil {
		fmt.Fprintln(os.Stderr, "steps:", err)
		os.Exit(1)
	}
}

func run(path string, o options) error {
	if min(o.sequences, o.prompt, o.prompts, o.threads) < 1 || min(o.generate, o.batch) < 0 {
		return errors.New("all numbers must be at least 1, and -generate and -batch at least 0")
	}
	began := time.Now()
	m, err := llamacpp.Open(context.Background(), path, backend.Config{Sequences: o.sequences, Threads: o.threads,
		ContextSize: o.prompt + o.generate + 64, BatchSize: o.batch})
	if err != nil {
		return err
	}
	defer m.Close()
	o.batch = m.Info().BatchSize // what the program chose; a small cache limits it, too
	fmt.Printf("load %.4f\n", time.Since(began).Seconds())
	random := rand.New(rand.NewPCG(1, 1))
	token := func() backend.Token { return backend.Token(random.IntN(m.Vocab().Len() - 1000)) }
	for i := range o.prompts {
		if err := round(m, i+1, o, token); err != nil {
			return err
		}
	}
	fmt.Printf("peak %.1f\n", peak())
	return nil
}

// round times one prompt in each sequence and the tokens after it.
func round(m backend.Model, n int, o options, token func() backend.Token) error {
	inputs, outputs := make([]backend.Input, o.sequences), make([]backend.Output, o.sequences)
	text := make([]backend.Token, o.prompt)
	began := time.Now()
	for i := range inputs {
		s, err := m.NewSequence()
		if err != nil {
			return err
		}
		defer s.Close()
		for k := range text {
			text[k] = token()
		}
		inputs[i] = backend.Input{Sequence: s, Sampling: &backend.Sampling{}}
		for at := 0; at < len(text); at += o.batch {
			inputs[i].Tokens = text[at:min(at+o.batch, len(text))]
			if err := m.Step(context.Background(), inputs[i:i+1], outputs[:1]); err != nil {
				return err
			}
		}
		inputs[i].Tokens = []backend.Token{token()}
	}
	speed := func(tokens int) float64 { return float64(o.sequences*tokens) / time.Since(began).Seconds() }
	fmt.Printf("pp%d %.2f\n", n, speed(o.prompt))
	if o.generate == 0 {
		return nil
	}
	began = time.Now()
	for range o.generate {
		if err := m.Step(context.Background(), inputs, outputs); err != nil {
			return err
		}
		for i := range inputs {
			inputs[i].Tokens[0] = token()
		}
	}
	fmt.Printf("tg%d %.2f\n", n, speed(o.generate))
	return nil
}

// peak returns the most memory that the process had in use, in MB.
func peak() (mb float64) {
	status, _ := os.ReadFile("/proc/self/status") // Linux alone has it
	for line := range strings.Lines(string(status)) {
		if n, err := fmt.Sscanf(line, "VmHWM: %f kB", &mb); n == 1 && err == nil {
			return mb / 1000
		}
	}
	return 0
}
