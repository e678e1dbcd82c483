package cli

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// The help of the flags fits into a terminal of 100 columns.
func TestHelpOfFlagsIsNarrow(t *testing.T) {
	var look func(*cobra.Command)
	look = func(cmd *cobra.Command) {
		_, flags, _ := strings.Cut(cmd.UsageString(), "\nFlags:\n")
		for line := range strings.Lines(flags) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > helpWidth {
				t.Errorf("%s: %d columns: %s", cmd.CommandPath(), n, line)
			}
		}
		for _, sub := range cmd.Commands() {
			look(sub)
		}
	}
	look(scripted().rootCommand())
}
