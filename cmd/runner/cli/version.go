package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (a *App) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of runner, its engine and Go",
		Args:  NoArguments,
		RunE:  func(*cobra.Command, []string) error { return a.writeVersions() },
	}
}

func (a *App) writeVersions() error {
	v := a.versions()
	tab := Table(a.out)
	fmt.Fprintf(tab, "runner\t%s\n", v.runner)
	if v.commit != "" {
		fmt.Fprintf(tab, "commit\t%s\n", v.commit)
	}
	fmt.Fprintf(tab, "engine\t%s\n", v.engine)
	fmt.Fprintf(tab, "go\t%s %s/%s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return tab.Flush()
}

// Commit returns the commit that the program was built from, or "" if it is unknown.
func (a *App) Commit() string { return a.versions().commit }

// versions are the versions in a build. commit is empty if it is unknown.
type versions struct{ runner, commit, engine string }

// versions reads the versions from the binary.
func (a *App) versions() versions {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return newVersions(a.build, a.engine, info)
}

func newVersions(build Build, engine Engine, info *debug.BuildInfo) versions {
	v := versions{runner: build.Version, commit: build.Commit, engine: engine.Name + " unknown"}
	if v.runner == "" {
		v.runner = "unknown"
	}
	if v.commit == "" {
		v.commit = stamp(info.Settings)
	}
	for _, d := range info.Deps {
		if d.Path == engine.Module {
			v.engine = fmt.Sprintf("%s (%s %s)", engine.Name, d.Path, d.Version)
		}
	}
	return v
}

// stamp returns the commit that Go recorded in the build, or "".
func stamp(settings []debug.BuildSetting) string {
	var commit, modified string
	for _, s := range settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = " with changes"
		}
	}
	if commit == "" {
		return ""
	}
	return commit + modified
}
