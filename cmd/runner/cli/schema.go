package cli

import (
	"context"
	"fmt"

	"runner/grammar"
)

// checkedSamples is how many texts run --check shows.
const checkedSamples = 3

// checkForm says that a form is supported and shows random texts that it admits.
func (a *App) checkForm(ctx context.Context, form grammar.Source, seed uint64) error {
	texts, err := grammar.Samples(ctx, form, checkedSamples, seed)
	if err != nil {
		return err
	}
	out := a.Stdout()
	fmt.Fprintln(out, "supported")
	for _, text := range texts {
		fmt.Fprintln(out, text)
	}
	return nil
}
