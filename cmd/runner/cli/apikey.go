package cli

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"runner/cmd/runner/flags"
	"runner/server/keys"
	"runner/server/wire"
)

func (a *App) apiKeyCommand() *cobra.Command {
	cmd := Group("apikey", "Make, list and remove API keys", "",
		a.newKeyCommand(), a.listKeysCommand(), a.removeKeyCommand())
	cmd.Aliases = []string{"apikeys"} // people type both
	return cmd
}

func (a *App) newKeyCommand() *cobra.Command {
	var e keys.Entry
	return Command(&cobra.Command{
		Use:   "new FILE ID",
		Short: "Make a key, add it to FILE and print it",
		Long: `Make an API key called ID and add it to FILE. A FILE that does not exist is created. The key is printed only
now, because FILE holds only its hash. Give FILE to runner serve --api-keys.`,
		Example: `  runner serve apikey new keys.json laptop --reasoning full
  runner serve apikey new keys.json ci --permission generate --models demo`,
		Args: FileAndID,
		RunE: func(_ *cobra.Command, args []string) error {
			e.ID = args[1]
			key, err := keys.Add(args[0], e)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintln(a.out, key); err != nil {
				return Input("%s was added to %s, but its key could not be printed: %v", e.ID, args[0], err).From(err).
					Hint("remove it from the file and make another")
			}
			a.Note(fmt.Sprintf("added %s to %s; the key is shown only once", e.ID, args[0]))
			return nil
		},
	},
		flags.Some("permission", &e.Scopes, wire.Scopes(nil),
			"`PERMISSIONS` that it has: "+strings.Join(textsOf(wire.Scopes(nil)), ", ")+" (default: "+unnamed()+")"),
		flags.Name("reasoning", &e.Reasoning, visibilityNames, "maximum reasoning that it may see"),
		flags.Words("models", &e.Models, "`MODELS` that it may use (default: all)"),
		flags.Int("requests-per-minute", &e.RequestsPerMinute, 0, 0, math.MaxInt32, "`N` requests a minute (0: no limit)"),
		flags.Int("tokens-per-minute", &e.TokensPerMinute, 0, 0, math.MaxInt32,
			"`N` tokens a minute, of prompts and answers (0: no limit)"))
}

// unnamed says which permissions a key has whose entry names none.
func unnamed() string {
	named := textsOf(wire.Scopes(func(p *wire.Permission) bool { return p.Named }))
	if len(named) == 0 {
		return "all"
	}
	return "all but " + enumerated(named)
}

// enumerated joins names, as in "a, b and c".
func enumerated(names []string) string {
	return strings.Replace(flags.Alternatives(names), " or ", " and ", 1)
}

func textsOf(scopes []wire.Scope) (list []string) {
	for _, s := range scopes {
		list = append(list, string(s))
	}
	return list
}

func (a *App) listKeysCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list FILE",
		Short:   "List the keys of FILE and what each may do",
		Example: "  runner serve apikey list keys.json",
		Args:    Exactly(1, "a file is needed", ""),
		RunE: func(_ *cobra.Command, args []string) error {
			entries, err := keys.List(args[0])
			if err != nil {
				return err
			}
			limit := func(n int) string {
				if n == 0 {
					return "no limit"
				}
				return strconv.Itoa(n)
			}
			w := Table(a.Stdout())
			fmt.Fprintln(w, "ID\tPERMISSIONS\tREASONING\tMODELS\tREQUESTS/MINUTE\tTOKENS/MINUTE")
			for _, e := range entries {
				scopes, names := unnamed(), "all"
				if e.Scopes != nil {
					scopes = cmp.Or(strings.Trim(fmt.Sprint(e.Scopes), "[]"), "none")
				}
				if e.Models != nil {
					names = cmp.Or(strings.Join(e.Models, " "), "none")
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", e.ID, scopes, cmp.Or(e.Reasoning, visibilityNames[0]), names,
					limit(e.RequestsPerMinute), limit(e.TokensPerMinute))
			}
			return w.Flush()
		},
	}
}

func (a *App) removeKeyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "remove FILE ID",
		Short: "Remove a key from FILE",
		Long: "Remove the key called ID from FILE. A server that uses FILE refuses the key within two seconds. Its " +
			"requests that run already are finished.",
		Example: "  runner serve apikey remove keys.json laptop",
		Args:    FileAndID,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := keys.Remove(args[0], args[1]); err != nil {
				return err
			}
			a.Note(fmt.Sprintf("removed %s from %s", args[1], args[0]))
			return nil
		},
	}
}
