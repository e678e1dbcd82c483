package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of runner, its engine and Go",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			v := a.versions()
			tab := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
			fmt.Fprintf(tab, "runner\t%s\n", v.runner)
			fmt.Fprintf(tab, "commit\t%s\n", v.commit)
			fmt.Fprintf(tab, "engine\t%s\n", v.engine)
			fmt.Fprintf(tab, "go\t%s %s/%s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return tab.Flush()
		},
	}
}

type versions struct{ runner, commit, engine string }

// versions reads what the binary knows about its build.
func (a *app) versions() versions {
	v := versions{runner: a.version, commit: "unknown", engine: a.engine.Name + " unknown"}
	if v.runner == "" {
		v.runner = "unknown"
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	modified := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			v.commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = " with changes"
		}
	}
	v.commit += modified
	for _, d := range info.Deps {
		if d.Path == a.engine.Module {
			v.engine = fmt.Sprintf("%s (%s %s)", a.engine.Name, d.Path, d.Version)
		}
	}
	return v
}
