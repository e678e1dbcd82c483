package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"runner/backend"
	"runner/backend/child"
	"runner/backend/child/protocol"
	"runner/backend/llamacpp"
	"runner/backend/llamacpp/enginefolder"
	"runner/backend/llamacpp/plan"
	"runner/cmd/runner/cli"
	"runner/hint"
)

// open loads a model with the engine in this program.
func open(ctx context.Context, path string, cfg backend.Config) (backend.Model, error) {
	return llamacpp.Open(ctx, path, cfg)
}

// choose returns the folder of the engine that runs the model at path, or "" for the engine in this program. given is
// the folder that the user chose; it is checked. Folders that cannot be used are skipped, and warn gets
// a line about each.
//
// The llama.cpp in this program is preferred, because it is the fastest on a CPU and needs no other process. Then the
// newest folder that knows the model's architecture is taken.
func choose(ctx context.Context, path, given string, warn func(string)) (string, error) {
	if given != "" {
		e := describe(ctx, given)
		if e.problem != nil {
			return "", fmt.Errorf("the engine in %s cannot be used: %w", given, e.problem)
		}
		return given, e.check(path)
	}
	refused := llamacpp.Check(path)
	if !errors.Is(refused, plan.ErrNewer) {
		return "", refused
	}
	list := installed(ctx)
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	for _, e := range list {
		if e.problem != nil {
			warn("the engine in " + e.folder + " is skipped: " + hint.Line(e.problem))
		}
	}
	var tried []string
	for _, e := range list {
		if e.problem != nil {
			continue
		}
		if err := e.check(path); !errors.Is(err, plan.ErrNewer) {
			return e.folder, err
		}
		tried = append(tried, llama+" "+e.Version+" in "+e.folder)
	}
	if errors.Is(refused, plan.ErrPretokenizer) {
		return "", nil // the configuration may allow it
	}
	return "", noEngine(refused, tried)
}

// noEngine says how to get an engine for a model that was refused. tried names the others that refuse it, too.
func noEngine(refused error, tried []string) error {
	load := (*backend.LoadError)(nil)
	if !errors.As(refused, &load) {
		return refused
	}
	data, err := cli.DataFolder()
	if err != nil {
		return refused
	}
	who := "the llama.cpp in this program does not run it"
	if len(tried) > 0 {
		who = "neither the llama.cpp in this program nor " + strings.Join(tried, " nor ") + " runs it"
	}
	return &backend.LoadError{Path: load.Path, Reason: load.Reason, Err: load, Detail: load.Detail,
		Advice: fmt.Sprintf("%s; put the folder of a newer llama.cpp release (%s, with shared libraries) into %s, or "+
			"name it with --engine", who, enginefolder.SupportedVersions, filepath.Join(data, "engines"))}
}

// described is an engine in a folder.
type described struct {
	folder string
	child.Description
	problem error
}

// check checks whether the engine runs the model at path.
func (e *described) check(path string) error {
	return llamacpp.CheckFor(path, e.folder, e.Version, e.Architectures)
}

// describeTime is how long an engine may take to say what it is.
const describeTime = 30 * time.Second

// describe asks the engine in a folder what it is. Its libraries are opened in another process only.
func describe(ctx context.Context, folder string) described {
	e := described{folder: folder}
	if e.problem = enginefolder.Check(folder); e.problem != nil {
		return e
	}
	program, err := engineProgram(cli.Process{Folder: folder})
	if err == nil {
		within, cancel := context.WithTimeoutCause(ctx, describeTime,
			fmt.Errorf("it did not say within %v what it is", describeTime))
		defer cancel()
		e.Description, err = child.Describe(within, program, version)
	}
	e.problem = err
	return e
}

// folders lists the folders of engines: those in "engines" in lib/runner beside the program, and in the data folder.
func folders() []string {
	places := enginefolder.Places()
	if data, err := cli.DataFolder(); err == nil {
		places = append(places, data)
	}
	var list []string
	for _, place := range places {
		place = filepath.Join(place, "engines")
		entries, _ := os.ReadDir(place) // most are not there
		for _, e := range entries {
			path := filepath.Join(place, e.Name())
			if info, err := os.Stat(path); err == nil && info.IsDir() && !strings.HasPrefix(e.Name(), ".") {
				list = append(list, path)
			}
		}
	}
	return list
}

// installed describes the engines in all folders, and in those given, the newest first.
func installed(ctx context.Context, given ...string) []described {
	paths := given
	for _, path := range folders() {
		if !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	list := make([]described, len(paths))
	var wg sync.WaitGroup
	for i, path := range paths {
		wg.Go(func() { list[i] = describe(ctx, path) })
	}
	wg.Wait()
	newestFirst(list)
	return list
}

// newestFirst sorts engines. Of the same version, those with devices other than the CPU come first.
func newestFirst(list []described) {
	slices.SortStableFunc(list, func(a, b described) int {
		return cmp.Or(compareVersions(b.Version, a.Version), cmp.Compare(min(len(b.Devices), 1), min(len(a.Devices), 1)))
	})
}

// compareVersions compares versions such as 0.5.0 and 0.6.0-dev. One in development is older than the one that it
// becomes.
func compareVersions(a, b string) int {
	number := func(v string) (n []int, whole int) {
		v, _, dev := strings.Cut(v, "-")
		for _, part := range strings.Split(v, ".") {
			i, _ := strconv.Atoi(part) // other texts come first
			n = append(n, i)
		}
		if dev {
			return n, 0
		}
		return n, 1
	}
	x, xWhole := number(a)
	y, yWhole := number(b)
	return cmp.Or(slices.Compare(x, y), cmp.Compare(xWhole, yWhole))
}

// engines lists the engine in this program and those in folders. folder is the one that the user chose, or "".
func engines(ctx context.Context, folder string) []cli.EngineFact {
	var given []string
	if folder != "" {
		given = append(given, folder)
	}
	var list []cli.EngineFact
	for _, e := range append([]described{builtIn()}, installed(ctx, given...)...) {
		list = append(list, e.fact())
	}
	return list
}

// fact describes the engine to the user.
func (e *described) fact() cli.EngineFact {
	f := cli.EngineFact{Name: llama, Where: e.folder}
	if e.problem != nil {
		f.Problem = strings.TrimPrefix(hint.Line(e.problem), e.folder+": ") // Where has it
		return f
	}
	f.Version, f.Kernels, f.Missing = e.Version, e.Kernels, e.Missing
	f.Devices = append([]string{"CPU"}, e.Devices...)
	f.Architectures = e.Architectures
	f.Models = fmt.Sprintf("GGUF files of %d architectures", len(e.Architectures))
	return f
}

// llama is the name of the engine in this program and of those in folders.
const llama = "llama.cpp"

// builtIn describes the engine in this program.
func builtIn() described {
	d := described{folder: "in this program"}
	e, err := llamacpp.BuiltIn()
	if d.problem = err; err == nil {
		d.Version, d.About = e.Version(), aboutOf(e)
	}
	return d
}

// aboutOf says what an engine of this process is.
func aboutOf(e *llamacpp.Engine) protocol.About {
	s := e.System()
	a := protocol.About{Architectures: e.Architectures(), Kernels: e.Kernels()}
	for _, d := range s.Devices {
		a.Devices = append(a.Devices, d.Description)
	}
	for _, l := range s.Libraries {
		if l.Err != nil {
			a.Missing = append(a.Missing, fmt.Sprintf("%s does not load: %v", filepath.Base(l.Path), l.Err))
		}
	}
	return a
}
