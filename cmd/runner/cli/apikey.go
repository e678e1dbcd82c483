package cli

import (
	"fmt"
	"math"
	"slices"

	"github.com/spf13/cobra"

	"runner/server/keys"
	"runner/server/wire"
)

func (a *app) apikeyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "apikey",
		Short: "Make API keys for runner serve",
		Args:  noArguments,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.newKeyCommand())
	return cmd
}

func (a *app) newKeyCommand() *cobra.Command {
	var e keys.Entry
	var scopes []string
	e.Reasoning = visibilityNames[0]
	cmd := &cobra.Command{
		Use:   "new FILE ID",
		Short: "Make a key, add it to FILE and print it",
		Long: `Make an API key called ID and add it to FILE, which is made if it is not there. The key is printed this once: FILE holds its hash
only. Give FILE to runner serve --api-keys.`,
		Example: `  runner apikey new keys.json laptop --reasoning full
  runner apikey new keys.json ci --scope generate --models demo --requests-per-minute 60`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return &usageError{what: "a file and an id are needed", hint: see(cmd)}
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			for _, n := range []number{{"requests-per-minute", e.RequestsPerMinute, 0, math.MaxInt32}, {"tokens-per-minute", e.TokensPerMinute, 0, math.MaxInt32}} {
				if err := n.check(); err != nil {
					return err
				}
			}
			for _, s := range scopes {
				if !slices.Contains(wire.Scopes, wire.Scope(s)) {
					return &usageError{what: fmt.Sprintf("--scope cannot be %q", s), hint: "use generate, embed, models or metrics"}
				}
				e.Scopes = append(e.Scopes, wire.Scope(s))
			}
			e.ID = args[1]
			key, err := keys.Add(args[0], e)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintln(a.out, key); err != nil {
				return &inputError{what: fmt.Sprintf("%s was added to %s and its key could not be printed: %v", e.ID, args[0], err),
					hint: "remove it from the file and make another", err: err}
			}
			a.note(fmt.Sprintf("added %s to %s; the key is shown this once", e.ID, args[0]))
			return nil
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringSliceVar(&scopes, "scope", nil, "`SCOPES` that it may use: generate, embed, models, metrics, trace:read, trace:erase, trace:all (default: all but trace:all)")
	addNameChoice(cmd, &e.Reasoning, "reasoning", "the most reasoning that it may see", visibilityNames...)
	f.StringSliceVar(&e.Models, "models", nil, "`MODELS` that it may use (default: all)")
	f.IntVar(&e.RequestsPerMinute, "requests-per-minute", 0, "`N` requests a minute (0: no limit)")
	f.IntVar(&e.TokensPerMinute, "tokens-per-minute", 0, "`N` tokens a minute, of prompts and answers (0: no limit)")
	_ = cmd.RegisterFlagCompletionFunc("scope", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		var names []string
		for _, s := range wire.Scopes {
			names = append(names, string(s))
		}
		return slices.Clip(names), cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}
