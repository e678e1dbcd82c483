package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// shownCommand matches a command of the program in a fenced block or in code. Its group is what follows "runner".
var shownCommand = regexp.MustCompile("(?m)(?:^|`|[$&|;(] |=\\$\\()(?:bin/)?runner ([a-z][^`\\n|;&)<>]*)")

// Every command that a document shows exists, with its flags. Console blocks are run as well, by TestDocuments. Other
// commands need a model or another program.
func TestShownCommandsExist(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("..", "..", "..", "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	flag := regexp.MustCompile(`\s(?:--([a-z][a-z-]*)|-([a-z])\b)`)
	quoted := regexp.MustCompile(`"[^"]*"|'[^']*'`)
	shown := 0
	for _, path := range append(paths, filepath.Join("..", "..", "..", "README.md")) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range shownCommand.FindAllStringSubmatch(string(b), -1) {
			if strings.HasPrefix(m[1], "demo,") { // the first line of a chat
				continue
			}
			line := quoted.ReplaceAllString(m[1], "X")
			line, _, _ = strings.Cut(line, " #")
			cmd, _, err := scripted().rootCommand().Find(strings.Fields(line))
			if err != nil || !cmd.HasParent() {
				t.Errorf("%s: there is no command %q (%v)", filepath.Base(path), m[0], err)
				continue
			}
			shown++
			for _, f := range flag.FindAllStringSubmatch(line, -1) {
				known := cmd.Flags().Lookup(f[1]) != nil
				if f[2] != "" {
					known = cmd.Flags().ShorthandLookup(f[2]) != nil
				}
				if !known && f[1] != "help" {
					t.Errorf("%s: %s has no flag%s", filepath.Base(path), cmd.CommandPath(), f[0])
				}
			}
		}
	}
	if shown < 200 {
		t.Errorf("only %d commands are shown", shown)
	}
}
