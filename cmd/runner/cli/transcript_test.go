package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"runner/cmd/runner/flags"
	"runner/reasoning/decision"
)

// notShown has the flags that the transcript says it leaves out, because not every machine has certificates or the
// libraries of another engine, and another name of a flag.
var notShown = []string{"tls-cert", "tls-key", "engine", "no-reasoning"}

func document(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// consoles returns the commands in a document and their output.
func consoles(doc string) string {
	var b strings.Builder
	for _, m := range regexp.MustCompile("(?ms)^```console$(.*?)^```$").FindAllStringSubmatch(doc, -1) {
		b.WriteString(m[1])
	}
	return b.String()
}

// The transcript claims to show every flag, every route for programs and every kind of decision. The fields with which
// clients ask for reasoning and get it are listed in the tables of reasoning-api.md.
func TestTheTranscriptShowsEverything(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "testdata", "everything.md"))
	if err != nil {
		t.Fatal(err)
	}
	transcript := string(b)
	shown := consoles(transcript)
	var look func(*cobra.Command)
	look = func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Name == "help" || f.Name == flags.AllFlag || slices.Contains(notShown, f.Name) {
				return
			}
			if !regexp.MustCompile(`--` + f.Name + `\b[^-]`).MatchString(shown) {
				t.Errorf("--%s of %s is not shown", f.Name, cmd.CommandPath())
			}
		})
		for _, sub := range cmd.Commands() {
			if sub.Hidden {
				continue
			}
			if path := sub.CommandPath(); !sub.HasSubCommands() && sub.Name() != "help" && !strings.Contains(shown, path) {
				t.Errorf("%s is not shown", path)
			}
			look(sub)
		}
	}
	look(scripted().rootCommand())

	var described struct{ Paths map[string]any }
	for _, pattern := range []string{"*/openapi/api.json", "*/*/openapi/api.json", "openapi/spec/common.json"} {
		files, err := filepath.Glob("../../../server/" + pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err == nil {
				err = json.Unmarshal(text, &described)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(described.Paths) < 30 {
		t.Fatalf("%d routes are described", len(described.Paths))
	}
	variable := regexp.MustCompile(`\\\{\w+\\\}`)
	for path := range described.Paths {
		if strings.HasPrefix(path, "/web/") {
			continue // the page asks these
		}
		pattern := variable.ReplaceAllString(regexp.QuoteMeta(path), `[^/\s"']+`)
		if !regexp.MustCompile(`(?m)(?:\$URL|\s)` + pattern + `(?:[\s"'?;]|$)`).MatchString(shown) {
			t.Errorf("%s is not asked", path)
		}
	}

	for _, kind := range []decision.Kind{decision.RunStarted, decision.ToolCallStart, decision.DecisionEvaluated,
		decision.AlternativesConsidered, decision.AssumptionRecorded,
		decision.CuratorDecision, decision.StrategySwitched, decision.KernelStateSnapshot, decision.RunCompleted} {
		if !strings.Contains(transcript, `"kind":"`+string(kind)+`"`) {
			t.Errorf("no decision of the kind %s is shown", kind)
		}
	}

	api, _, _ := strings.Cut(document(t, "reasoning-api.md"), "\n## The other formats\n")
	rows := regexp.MustCompile("(?m)^\\| (`[^|]+) \\|").FindAllStringSubmatch(api, -1)
	if len(rows) < 30 {
		t.Fatalf("%d fields are described", len(rows))
	}
	name := regexp.MustCompile("`(?:[a-z_.]*\\.)?([a-z_]+)[`:]")
	for _, row := range rows {
		if strings.HasPrefix(row[1], "`sealed_") { // error codes
			continue
		}
		for _, m := range name.FindAllStringSubmatch(row[1], -1) {
			if !regexp.MustCompile(`\b` + m[1] + `\b`).MatchString(shown) {
				t.Errorf("the field %s is not shown", m[1])
			}
		}
	}
}
