package cli

import (
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"
)

// docs/cli.md is what the commands say now.
func TestTheCommandReferenceIsCurrent(t *testing.T) {
	var now strings.Builder
	if err := writeMarkdown(&now, scripted().rootCommand()); err != nil {
		t.Fatal(err)
	}
	if have := document(t, "cli.md"); have != now.String() {
		t.Errorf("docs/cli.md is not what the commands say; make cli-docs renews it\n%s",
			diff.Diff("docs/cli.md", []byte(have), "now", []byte(now.String())))
	}
	everyCommand(func(cmd *cobra.Command) {
		if cmd.HasParent() && cmd.Annotations[onlyGroups] == "" && cmd.Name() != "help" &&
			!strings.Contains(now.String(), "\n## "+cmd.CommandPath()+"\n") {
			t.Errorf("%s is not described", cmd.CommandPath())
		}
	})
}
