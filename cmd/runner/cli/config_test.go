package cli

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"runner/cmd/runner/flags"
	"runner/cmd/runner/settings"
	"runner/hint"
)

// No flag has a variable that the runners of GitHub Actions set, or one that means something else here.
func TestVariablesOfFlags(t *testing.T) {
	taken := map[string]string{passphraseVariable: "the passphrase", configVariable: "the config file"}
	for _, name := range []string{"NAME", "OS", "ARCH", "TEMP", "DEBUG", "WORKSPACE", "ENVIRONMENT", "TOOL_CACHE",
		"TRACKING_ID", "PERFLOG", "USER", "ALLOW_RUNASROOT"} {
		taken["RUNNER_"+name] = "GitHub Actions"
	}
	names := map[string]string{}
	everyCommand(func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !flags.IsSetting(f) {
				return
			}
			name := flags.VariableOf(f)
			if by := taken[name]; by != "" {
				t.Errorf("%s of %s is also used by %s", name, cmd.CommandPath(), by)
			}
			if other := names[name]; other != "" && other != f.Name {
				t.Errorf("%s means --%s and --%s", name, f.Name, other)
			}
			names[name] = f.Name
		})
	})
}

// No variable of the runners of GitHub Actions, and none that is no flag here, counts as a misspelled setting.
func TestForeignVariablesAreNotMisspelled(t *testing.T) {
	var environ []string
	for _, name := range []string{"NAME", "OS", "ARCH", "TEMP", "DEBUG", "WORKSPACE", "ENVIRONMENT", "TOOL_CACHE",
		"TRACKING_ID", "PERFLOG", "USER", "ALLOW_RUNASROOT", "PASSPHRASE", "CONFIG", "LONG"} {
		environ = append(environ, "RUNNER_"+name+"=1")
	}
	s, err := settings.Read("", environ)
	if err != nil {
		t.Fatal(err)
	}
	if found := s.Misspelled(scripted().rootCommand(), hint.Distance); len(found) > 0 {
		t.Errorf("%v", found)
	}
}

// The setting json is the form of a model's answer. It does not change what the other commands with --json print.
func TestJSONIsTheFormOfAnswers(t *testing.T) {
	forms := 0
	everyCommand(func(cmd *cobra.Command) {
		f := cmd.Flags().Lookup("json")
		if f == nil || !flags.IsSetting(f) {
			return
		}
		if forms++; cmd.Flags().Lookup("schema") == nil {
			t.Errorf("RUNNER_JSON changes what %s prints", cmd.CommandPath())
		}
	})
	if forms == 0 {
		t.Error("no command takes RUNNER_JSON")
	}
}

// --no-reasoning hides what a setting shows, and excludes the flag that shows it.
func TestNoReasoning(t *testing.T) {
	s, err := settings.Read("", []string{"RUNNER_REASONING=full"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args      []string
		shown     string
		excluding bool
	}{
		{nil, "full", false},
		{[]string{"--no-reasoning"}, "none", false},
		{[]string{"--no-reasoning", "--reasoning", "full"}, "full", true},
	} {
		run, _, err := scripted().rootCommand().Find([]string{"run"})
		if err == nil {
			err = run.ParseFlags(c.args)
		}
		if err == nil {
			_, err = s.Apply(run)
		}
		if err != nil {
			t.Fatal(err)
		}
		if shown := run.Flags().Lookup("reasoning").Value.String(); shown != c.shown {
			t.Errorf("%q: shows %s, want %s", c.args, shown, c.shown)
		}
		if err := flags.Check(run); (err != nil) != c.excluding {
			t.Errorf("%q: %v", c.args, err)
		}
	}
}
