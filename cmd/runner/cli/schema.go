package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"runner/grammar"
)

// checkedSamples is how many texts run --check shows.
const checkedSamples = 3

// checkForm says that a form is supported and shows random texts that it admits.
func (a *app) checkForm(ctx context.Context, form grammar.Source, samples int, seed uint64) error {
	texts, err := grammar.Samples(ctx, form, samples, seed)
	if err != nil {
		return err
	}
	out := a.stdout()
	fmt.Fprintln(out, "supported")
	for _, text := range texts {
		fmt.Fprintln(out, text)
	}
	return nil
}

// schemaCommand is the old form of run --check, which the help does not show.
func (a *app) schemaCommand() *cobra.Command {
	return group("schema", "Work with JSON Schemas for answers", "", a.schemaCheckCommand())
}

func (a *app) schemaCheckCommand() *cobra.Command {
	samples, seed := checkedSamples, uint64(0)
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Say whether a schema is supported, and show what it admits",
		Long: `Say whether a JSON Schema is supported (run --schema), and show a few random texts that it admits. FILE is a
file, - for standard input, or the schema itself.`,
		Example: `  runner run --schema person.json --check`,
		Args:    exactly(1, "name one schema", ""),
		RunE: func(cmd *cobra.Command, args []string) error {
			if samples < 0 || samples > 100 {
				return &usageError{what: fmt.Sprintf("--samples %d is out of range", samples), hint: "use 0 to 100"}
			}
			form, where, err := a.readSchema("", args[0])
			if err != nil {
				return err
			}
			if err := grammar.Check(cmd.Context(), form); err != nil {
				return formError(where, err)
			}
			return a.checkForm(cmd.Context(), form, samples, seed)
		},
	}
	cmd.Flags().IntVar(&samples, "samples", samples, "how many texts to show, `N` from 0 to 100")
	cmd.Flags().Uint64Var(&seed, "seed", 0, "seed `N` of the texts")
	return cmd
}
