package room

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"runner/bench"
	"runner/bench/results"
	"runner/cmd/runner/cli"
	"runner/hint"
)

// compare compares two files of results.
func (a *bencher) compare(cmd *cobra.Command, args []string) error {
	var other string
	own := cmd.LocalNonPersistentFlags()
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if own.Lookup(f.Name) != nil && f.Name != "compare" {
			other = f.Name
		}
	})
	if other != "" {
		return cli.Usage("--compare and --%s exclude each other", other).Hint("--compare takes two files")
	}
	if len(args) != 2 {
		return cli.Usage("--compare needs two files, not %d", len(args)).
			Hint("give the results before and after, as -o json wrote them")
	}
	var runs [2][]bench.Row
	for i, path := range args {
		f, err := os.Open(path)
		if err != nil {
			return cli.Input("%s cannot be read: %v", path, hint.Reason(err)).From(err).
				Hint("give the results before and after, as -o json wrote them")
		}
		runs[i], err = results.Read(f)
		f.Close()
		if err != nil {
			return cli.Input("%s cannot be read: %v", path, err).From(err).
				Hint("give files that runner bench -o json, or llama-bench -o json, wrote")
		}
	}
	differences, alone := results.Between(runs[0], runs[1])
	if len(differences) == 0 {
		return cli.Input("the two files have no test of the same model in common").
			Hint("give results of the same model and tests, before and after a change")
	}
	if err := results.WriteDifferences(a.Stdout(), differences, a.Width()); err != nil {
		return err
	}
	for i := range alone {
		a.note(fmt.Sprintf("%s of %s (%s) is in one file only", alone[i].Test(), alone[i].Model, alone[i].Label()))
	}
	for _, line := range results.Unlike(runs[0], runs[1]) {
		a.note("warning: " + line)
	}
	return nil
}
