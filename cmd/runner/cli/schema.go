package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"runner/grammar"
)

func (a *app) schemaCommand() *cobra.Command {
	return group("schema", "Work with JSON Schemas for answers", "", a.schemaCheckCommand())
}

func (a *app) schemaCheckCommand() *cobra.Command {
	samples, seed := 3, uint64(0)
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Say whether a schema can be honoured, and show what it admits",
		Long: `Say whether answers can be held to a JSON Schema (run --schema), and show a few random texts that it
admits.

FILE is a file, - for standard input, or the schema itself. A schema that cannot be honoured is
refused with the keyword and the place that stand in the way, and the exit code is 1.`,
		Example: `  runner schema check person.json
  runner schema check '{"type": "array", "items": {"type": "integer"}}'`,
		Args: exactly(1, "name one schema", ""),
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
			texts, err := grammar.Samples(cmd.Context(), form, samples, seed)
			if err != nil {
				return err
			}
			out := a.stdout()
			fmt.Fprintln(out, "supported")
			for _, text := range texts {
				fmt.Fprintln(out, text)
			}
			return nil
		},
	}
	cmd.Flags().IntVar(&samples, "samples", samples, "how many texts to show, `N` from 0 to 100")
	cmd.Flags().Uint64Var(&seed, "seed", 0, "seed `N` of the texts")
	return cmd
}
