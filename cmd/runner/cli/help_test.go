package cli

import (
	"errors"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rivo/uniseg"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"runner/cmd/runner/flags"
	"runner/cmd/runner/help"
	"runner/hint"
)

// everyCommand calls do for every command that the help shows.
func everyCommand(do func(cmd *cobra.Command)) {
	var look func(*cobra.Command)
	look = func(cmd *cobra.Command) {
		do(cmd)
		for _, sub := range cmd.Commands() {
			if !sub.Hidden {
				look(sub)
			}
		}
	}
	root := scripted().rootCommand()
	root.InitDefaultHelpCmd()
	look(root)
}

// The help of every command, short and long, fits its width, and wrapping loses no word.
func TestHelpFitsTheTerminal(t *testing.T) {
	words := func(text string) []string {
		w := strings.Fields(text)
		slices.Sort(w)
		return w
	}
	everyCommand(func(cmd *cobra.Command) {
		cmd.InitDefaultHelpFlag()
		for _, all := range []bool{false, true} {
			if all && cmd.Flags().Lookup(flags.AllFlag) == nil {
				continue
			}
			if all {
				if err := cmd.Flags().Set(flags.AllFlag, "true"); err != nil {
					t.Fatal(err)
				}
			}
			var wide strings.Builder
			help.Write(&wide, cmd, 10_000)
			for _, width := range []int{80, 200} {
				var b strings.Builder
				help.Write(&b, cmd, width)
				if got, want := words(b.String()), words(wide.String()); !slices.Equal(got, want) {
					t.Errorf("%s: at %d columns the help has other words than without a limit", cmd.CommandPath(), width)
				}
				for line := range strings.Lines(b.String()) {
					line = strings.TrimRight(line, "\n")
					if n := uniseg.StringWidth(line); n > width {
						t.Errorf("%s: %d columns of %d: %s", cmd.CommandPath(), n, width, line)
					}
					if strings.Contains(line, "`") {
						t.Errorf("%s: a backtick: %s", cmd.CommandPath(), line)
					}
				}
			}
		}
	})
}

// A command with many flags shows few of them, and all of them by topic.
func TestHelpShowsCommonFlags(t *testing.T) {
	const most = 15
	everyCommand(func(cmd *cobra.Command) {
		shown, hidden := 0, 0
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			switch {
			case f.Name == "help", f.Name == flags.AllFlag, f.Hidden:
			case flags.IsCommon(f):
				shown++
			default:
				hidden++
			}
		})
		switch has := cmd.Flags().Lookup(flags.AllFlag) != nil; {
		case !has && hidden > most:
			t.Errorf("%s has %d flags and no --%s", cmd.CommandPath(), hidden, flags.AllFlag)
		case has && (shown > most || hidden == 0):
			t.Errorf("%s shows %d flags and hides %d", cmd.CommandPath(), shown, hidden)
		}
	})
}

// The help begins a group with what most people look for, so it has the engines among the things that few need.
func TestGroupsOfTheHelp(t *testing.T) {
	var text strings.Builder
	help.Write(&text, scripted().rootCommand(), 80)
	at := -1
	for _, name := range []string{"\nModels:\n  list ", "\n  pull ", "\nMore:\n", "\n  doctor ", "\n  engines "} {
		next := strings.Index(text.String(), name)
		if next <= at {
			t.Errorf("%q is at %d, after %d of what comes before it:\n%s", name, next, at, text.String())
		}
		at = next
	}
}

// A flag with a typing mistake is answered with the right one.
func TestNearestFlag(t *testing.T) {
	run := scripted().runCommand()
	for typed, want := range map[string]string{
		"reasonning": "reasoning", "temprature": "temperature", "max-token": "max-tokens", "ctx": "ctx-size",
		"sytsem": "system", "schemas": "schema", "gpu-layer": "gpu-layers", "threds": "threads", "xyzzy": "", "q": "",
		"colour": "",
	} {
		if got := nearFlag(run, typed); got != want {
			t.Errorf("--%s: %q, want %q", typed, got, want)
		}
	}
}

// A command that is called otherwise elsewhere, a typing mistake and the name of a model are answered with the right
// command.
func TestNearestCommand(t *testing.T) {
	root := scripted().rootCommand()
	t.Chdir(t.TempDir())
	for typed, want := range map[string]string{
		"remove": "rm", "delete": "rm", "ls": "list", "chat": "run", "download": "pull", "rum": "run",
		"lits": "list", "serv": "serve", "vresion": "version", "trace ls": "list", "trace chat": "",
		"gpt-oss-20b": "run gpt-oss-20b", "ORG/REPO1": "run ORG/REPO1", "demo": "run demo", "frobnicate": "",
		"trace gpt-oss-20b": "", "movie": "",
	} {
		cmd, path := root, "runner"
		if word, ok := strings.CutPrefix(typed, "trace "); ok {
			cmd, _, _ = root.Find([]string{"trace"})
			typed, path = word, path+" trace"
		}
		advice := "see " + path + " --help"
		if want != "" {
			advice = "did you mean " + path + " " + want + "?"
		}
		var e *hint.Error
		if err := NoArguments(cmd, []string{typed}); !errors.As(err, &e) || e.Hint() != advice {
			t.Errorf("%s %s: %v, want the hint %q", path, typed, e, advice)
		}
	}
}

// What people type who know other programs is answered with what does the work here. The commands and flags that the
// hints name exist.
func TestHintsForOtherPrograms(t *testing.T) {
	root := scripted().rootCommand()
	serve, _, _ := root.Find([]string{"serve"})
	exists := func(hint string, in *cobra.Command) {
		t.Helper()
		for _, m := range regexp.MustCompile(`runner ([a-z]+)|--([a-z-]+)`).FindAllStringSubmatch(hint, -1) {
			if m[1] != "" {
				cmd, _, err := root.Find([]string{m[1]})
				if err != nil {
					t.Errorf("%q: there is no command %s", hint, m[1])
				}
				in = cmd
			} else if in.Flags().Lookup(m[2]) == nil && serve.Flags().Lookup(m[2]) == nil && m[2] != "help" {
				t.Errorf("%q: there is no flag --%s", hint, m[2])
			}
		}
	}
	for typed, advice := range notHere {
		if found, _, err := root.Find([]string{typed}); err == nil && found != root {
			t.Errorf("%s is a command", typed)
		}
		var e *hint.Error
		if err := NoArguments(root, []string{typed}); !errors.As(err, &e) || e.Hint() != string(advice) {
			t.Errorf("%s: %v", typed, e)
		}
		exists(string(advice), root)
	}
	for name, others := range flagsElsewhere {
		for flag, advice := range others {
			cmd, _, _ := root.Find([]string{name})
			var e *hint.Error
			if err := cmd.ParseFlags([]string{"--" + flag, "x"}); err == nil {
				t.Errorf("%s has --%s", name, flag)
			} else if !errors.As(flagError(cmd, err), &e) || e.Hint() != string(advice) {
				t.Errorf("%s --%s: %v", name, flag, e)
			}
			exists(string(advice), cmd)
		}
	}
	for typed, want := range map[string]string{
		"ps": "/api/ps", "run --format json hi": "--schema FILE", "run --think hi": "--reasoning full",
	} {
		out, err := exec.Command("runner", strings.Fields(typed)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("runner %s: %v, %s", typed, err, out)
		}
	}
}

// Sizes and times in the help are ones that people read and type.
func TestDefaultsAreReadable(t *testing.T) {
	everyCommand(func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			text := f.DefValue
			switch kind := f.Value.Type(); {
			case kind == "BYTES" && len(text) > len("512KiB"), kind == "duration" && strings.HasSuffix(text, "m0s"):
				t.Errorf("%s --%s: the default is %s", cmd.CommandPath(), f.Name, text)
			}
		})
	})
}

// A message is broken between words, and a command in it can be copied.
func TestBrokenLines(t *testing.T) {
	for line, want := range map[string]string{
		"runner: short": "runner: short",
		"runner: a message that is much longer than that":     "runner: a message that\nis much longer than that",
		"not here; get it with: runner pull org/model:Q4_K_M": "not here; get it with:\n  runner pull org/model:Q4_K_M",
		"  curl http://127.0.0.1:8080/v1/chat/completions":    "  curl http://127.0.0.1:8080/v1/chat/completions",
	} {
		if got := broken(line, 24); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The short forms that people know from other programs mean the same here.
func TestShortForms(t *testing.T) {
	for _, name := range []string{"run", "serve", "mew"} {
		cmd, _, err := scripted().rootCommand().Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		for short, long := range map[string]string{"m": "model", "n": "max-tokens", "t": "threads", "s": "seed", "f": "file",
			"r": "reasoning", "v": "verbose"} {
			has := cmd.Flags().ShorthandLookup(short)
			if wanted := cmd.Flags().Lookup(long); wanted != nil && has != wanted || wanted == nil && has != nil {
				t.Errorf("%s: -%s is not --%s", cmd.Name(), short, long)
			}
		}
	}
}
