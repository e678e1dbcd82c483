package main

import (
	"context"
	"os"
	"slices"

	"runner/backend"
	engineside "runner/backend/child/serve"
	"runner/backend/llamacpp"
	"runner/cmd/runner/cli"
)

// poisonVariable has a text. An engine's process that computes a sequence with its tokens crashes. With hungerVariable
// it takes memory until it gets no more. It does so while it loads a model, too, if there is a file with the name of
// the model's and hungerSuffix.
const (
	poisonVariable = "RUNNER_TEST_POISON"
	hungerVariable = "RUNNER_TEST_HUNGER"
	hungerSuffix   = ".hunger"
)

// poisoned is process with an engine that cannot bear the text of poisonVariable.
func poisoned(p cli.Process) error {
	open := func(ctx context.Context, path string, cfg backend.Config) (backend.Model, error) {
		if _, err := os.Stat(path + hungerSuffix); err == nil {
			takeAllMemory()
		}
		m, err := llamacpp.Open(ctx, path, cfg)
		if err != nil {
			return nil, err
		}
		text, err := m.Tokenize(nil, os.Getenv(poisonVariable))
		return poisonedModel{m, text}, err
	}
	return serveEngine(p.Memory, func() engineside.Engine {
		return engineside.Engine{Name: "poisoned", Version: version, Open: open, Progress: llamacpp.Computed}
	})
}

type poisonedModel struct {
	backend.Model
	text []backend.Token
}

func (m poisonedModel) Step(ctx context.Context, inputs []backend.Input, outputs []backend.Output) error {
	for i := range inputs {
		tokens := slices.Concat(inputs[i].Sequence.Tokens(), inputs[i].Tokens)
		for ; len(tokens) >= len(m.text); tokens = tokens[1:] {
			if slices.Equal(tokens[:len(m.text)], m.text) {
				if os.Getenv(hungerVariable) != "" {
					takeAllMemory()
				}
				panic("the engine cannot bear this")
			}
		}
	}
	return m.Model.Step(ctx, inputs, outputs)
}

// takeAllMemory takes memory until the process gets no more.
func takeAllMemory() {
	for all := [][]byte(nil); len(all) < 1<<16; {
		all = append(all, make([]byte, 1<<20))
	}
}
