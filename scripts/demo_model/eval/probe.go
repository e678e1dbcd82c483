package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"

	"runner/backend"
)

// reference is one case of the reference file.
type reference struct {
	Tokens  []backend.Token // a conversation
	Last    []float32       // the logits after the last token
	Best    []backend.Token // the best token after each
	Text    string          // plain text
	Encoded []backend.Token // and its tokens
}

// probe feeds the reference conversations token by token and all at once, and reports how far the engine's results
// are off.
func probe(ctx context.Context, m backend.Model, path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var cases []reference
	if err := json.Unmarshal(data, &cases); err != nil {
		return err
	}
	bad := false
	for i, c := range cases {
		got, err := m.Tokenize(nil, c.Text)
		if err != nil {
			return err
		}
		if !slices.Equal(got, c.Encoded) {
			bad = true
			fmt.Printf("case %d: text is tokenized differently\n", i)
		}
		same, worst, err := follow(ctx, m, c)
		if err != nil {
			return err
		}
		fmt.Printf("case %d: %d tokens, best token equal at %d, largest difference of the last logits %.4f\n", i,
			len(c.Tokens), same, worst)
		bad = bad || float64(same) < 0.985*float64(len(c.Tokens)) || worst > 1
	}
	if bad {
		return errors.New("the engine's results differ from those of training")
	}
	return nil
}

func follow(ctx context.Context, m backend.Model, c reference) (same int, worst float64, err error) {
	s, err := m.NewSequence()
	if err != nil {
		return 0, 0, err
	}
	defer s.Close()
	logits, out := make([]float32, m.Vocab().Len()), make([]backend.Output, 1)
	for i := range c.Tokens {
		in := backend.Input{Sequence: s, Tokens: c.Tokens[i : i+1], Sampling: &backend.Sampling{TopLogprobs: -1},
			Logits: logits}
		if err := m.Step(ctx, []backend.Input{in}, out); err != nil {
			return 0, 0, err
		}
		if out[0].Token == c.Best[i] {
			same++
		}
	}
	for i, x := range c.Last {
		worst = max(worst, math.Abs(float64(x-logits[i])))
	}
	return same, worst, nil
}
