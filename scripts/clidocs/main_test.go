package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"runner/cmd/runner/cli"
	"runner/cmd/runner/flags"
	"runner/cmd/runner/help"
)

// everyCommand calls do for every command that the help shows.
func everyCommand(cmd *cobra.Command, do func(cmd *cobra.Command)) {
	do(cmd)
	for _, sub := range cmd.Commands() {
		if !sub.Hidden && sub.Name() != "help" {
			everyCommand(sub, do)
		}
	}
}

// docs/cli.md is what the commands say now, with all of them and with all of their flags.
func TestTheCommandReferenceIsCurrent(t *testing.T) {
	var out strings.Builder
	if err := write(&out, "", []string{"markdown"}); err != nil {
		t.Fatal(err)
	}
	now := out.String()
	have, err := os.ReadFile(filepath.Join("..", "..", "docs", "cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != now {
		t.Errorf("docs/cli.md is not what the commands say; make cli-docs renews it\n%s",
			diff.Diff("docs/cli.md", have, "now", []byte(now)))
	}
	everyCommand(cli.Commands(), func(cmd *cobra.Command) {
		if !cmd.HasParent() || cmd.Annotations[help.OnlyGroups] != "" {
			return
		}
		_, section, found := strings.Cut(now, "\n## "+cmd.CommandPath()+"\n")
		if !found {
			t.Errorf("%s is not described", cmd.CommandPath())
			return
		}
		section, _, _ = strings.Cut(section, "\n## ")
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			named := regexp.MustCompile("--" + f.Name + "[ `]")
			if !f.Hidden && f.Name != "help" && f.Name != flags.AllFlag && !named.MatchString(section) {
				t.Errorf("%s: --%s is not there", cmd.CommandPath(), f.Name)
			}
		})
	})
}

// There is a manual page for every command, with its flags, its examples and the version, and groff finds no fault in
// it.
func TestManualPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	var out strings.Builder
	if err := write(&out, "v1.2", []string{"man", dir}); err != nil {
		t.Fatal(err)
	}
	pages := 0
	everyCommand(cli.Commands(), func(cmd *cobra.Command) {
		pages++
		text, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1"))
		if err != nil {
			t.Error(err)
			return
		}
		page := string(text)
		if !strings.HasPrefix(page, ".TH RUNNER") || !strings.Contains(page, `"runner v1.2"`) ||
			cmd.HasExample() != strings.Contains(page, "\n.SH EXAMPLES\n") || strings.Contains(page, "`") {
			t.Errorf("%s: %.200s", cmd.CommandPath(), page)
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && !strings.Contains(page, roff("--"+f.Name)+`\fR`) {
				t.Errorf("%s: --%s is not there", cmd.CommandPath(), f.Name)
			}
		})
	})
	if pages < 30 || !strings.Contains(out.String(), "wrote ") {
		t.Errorf("%d pages: %s", pages, out.String())
	}
	if page, err := os.ReadFile(filepath.Join(dir, "runner-run.1")); err != nil ||
		!strings.Contains(string(page), ".TP\n\\fB\\-m\\fR, \\fB\\-\\-model\\fR \\fIMODEL\\fR\n") {
		t.Errorf("%v:\n%s", err, page)
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("groff is not on the PATH")
	}
	list, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil || len(list) != pages {
		t.Errorf("%d files for %d pages: %v", len(list), pages, err)
	}
	for _, page := range list {
		cmd := exec.Command(groff, "-man", "-ww", "-b", "-z", "-Tutf8", page)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v\n%s", filepath.Base(page), err, out)
		}
	}
}

// Whoever gives anything else is told what to give.
func TestArguments(t *testing.T) {
	for _, args := range [][]string{nil, {"man"}, {"markdown", "x"}, {"pdf"}} {
		if err := write(&strings.Builder{}, "", args); err == nil {
			t.Errorf("%q is no error", args)
		}
	}
}
