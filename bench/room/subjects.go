package room

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"runner/backend"
	"runner/bench"
	"runner/bench/machine"
	"runner/cmd/runner/cli"
	"runner/models"
	"runner/models/installed"
	"runner/models/roofline"
)

// model is a model to measure.
type model struct {
	models.Model
	name     string
	perToken int64
	// made says how the weights were made, as in "random, 4 layers". It is empty for a model that someone has trained.
	made string
	// memory keeps a model that is in memory only. It is nil for others.
	memory *os.File
}

// findModels finds the models to measure, or makes the one of a shape.
func (a *bencher) findModels(ctx context.Context, args []string, o *options, say func(string)) ([]model, error) {
	made, memory, layers := "", (*os.File)(nil), 0
	if o.shape != "" {
		var path string
		var err error
		if o.inMemory {
			memory, path, layers, err = a.shapeInMemory(ctx, o, say)
		} else {
			path, layers, err = a.shapeFile(ctx, o, say)
		}
		if err != nil {
			return nil, err
		}
		args, made = []string{path}, fmt.Sprintf("random, %d layers", layers)
	}
	if len(args) == 0 {
		args = []string{models.DemoName}
	}
	var list []model
	for _, name := range cli.Unique(args) {
		found, err := a.Installed(ctx, name)
		if err != nil {
			memory.Close()
			return nil, err
		}
		installed.Describe(&found.Files)
		m := model{found, found.Files.Name, found.Files.PerToken, made, memory}
		if memory != nil {
			m.name = shapeName(o.shape, layers)
		}
		list = append(list, m)
	}
	return list, nil
}

// subject is a loaded model.
type subject struct {
	bench.Subject
	model *model
	// process is the number of the engine's own process, or 0; peak is the most memory that it had in use.
	process int
	peak    int64
	// remote says that an engine at an address computes it.
	remote bool
	// flags are those of runner serve for the same model, engine and threads, and env its further environment.
	flags, env []string
}

// oneMemory says that the GPU computes in the processor's memory, as on Apple silicon.
const oneMemory = runtime.GOOS == "darwin" && runtime.GOARCH == "arm64"

// readsMemory reports whether the bandwidth of the processor's memory says something about the speed.
func (s subject) readsMemory() bool {
	return !s.remote && s.model.perToken >= roofline.LeastPerToken && (s.Model.Info().GPULayers == 0 || oneMemory)
}

// load loads each model with each engine and number of threads. It returns those that are loaded also with an
// error.
func (a *bencher) load(ctx context.Context, paths []model, o *options, say func(string)) (
	list []subject, err error) {
	plan, err := a.plan(paths, o.engines)
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.DiscardHandler)
	for at := range paths {
		m, engines := &paths[at], plan[at]
		if len(engines)*max(1, len(o.threads)) > 1 {
			say("reading " + m.name)
			warm(ctx, m.Path)
		}
		for i, engine := range engines {
			name, where, err := a.use(engine)
			if err != nil {
				return list, err
			}
			if slices.Contains(engines[:i], engine) {
				name = fmt.Sprintf("%s (%d)", name, i+1)
			}
			for _, n := range a.threads(name, engine, m, o.threads) {
				say("loading " + m.name)
				cfg, opened := o.model, m.Model
				cfg.Threads = n
				if models.IsAddress(engine) {
					opened = models.Model{Name: engine, Source: models.Address, Path: engine}
					cfg = backend.Config{ContextSize: cfg.ContextSize, Sequences: cfg.Sequences,
						BatchSize: cmp.Or(cfg.BatchSize, 512), GPULayers: -1, FlashAttention: "auto", CacheType: "f16",
						FullWindow: "auto"}
					at := o.remote
					at.Tokenizer = m.Path
					a.UseRemote(at)
				}
				began := time.Now()
				loaded, err := a.OpenModel(ctx, opened, cfg, log)
				if err != nil {
					if ctx.Err() != nil {
						err = cli.ErrInterrupted
					}
					return list, err
				}
				s := subject{Subject: o.subject(name, loaded, m, models.IsAddress(engine)), model: m,
					process: processOf(loaded), flags: serveFlags(m.Path, where, &cfg)}
				if v := a.Folders().Variable; m.Source == models.Folder {
					s.env = []string{v + "=" + os.Getenv(v)}
				}
				s.Row.Commit, s.Row.LoadNS = a.Commit(), int64(time.Since(began))
				if models.IsAddress(engine) {
					s.remote, s.process = true, farProcess
					s.flags = []string{"bench=" + engine, "--tokenizer", m.Path, "--ctx-size", strconv.Itoa(cfg.ContextSize),
						"--engine-ca", o.remote.CA, "--engine-cert", o.remote.Cert, "--engine-cert-key", o.remote.CertKey}
					s.env = []string{cli.EngineKeyVariable + "=" + o.remote.Key}
				}
				list = append(list, s)
			}
		}
	}
	return list, nil
}

// computes reports whether an engine of --engine computes a model. "" stands for the one that the model gets without
// the flag.
func (a *bencher) computes(engine string, m *model) bool {
	return engine == "" || models.IsAddress(engine) || (m.Source == models.Folder) == (engine == a.ofFolders())
}

// plan returns the engines for each model. One computes the folders, and the others the files.
func (a *bencher) plan(list []model, engines []string) ([][]string, error) {
	if len(engines) == 0 {
		engines = []string{""}
	}
	given := a.Given("engine") // RUNNER_ENGINE is for files only
	plan := make([][]string, len(list))
	used := map[string]bool{}
	for at := range list {
		m := &list[at]
		for _, engine := range engines {
			if a.computes(engine, m) {
				plan[at], used[engine] = append(plan[at], engine), true
			}
		}
		switch {
		case len(plan[at]) > 0:
		case !given:
			plan[at] = []string{""}
		case m.Source == models.Folder && a.ofFolders() == "":
			return nil, cli.Usage("no engine here computes %s, which is a folder", m.name).
				Hint("use a GGUF file of this model")
		case m.Source == models.Folder:
			return nil, cli.Usage("no --engine computes %s, which is a folder", m.name).
				Hint("add --engine %s, or leave --engine out", a.ofFolders())
		default:
			return nil, cli.Usage("no --engine computes %s, which is a file", m.name).
				Hint("give %s the folder of a model in safetensors, or add --engine builtin", a.Folders().Name)
		}
	}
	for _, engine := range engines {
		if given && !used[engine] {
			return nil, cli.Usage("--engine %s computes none of the models", engine).
				Hint("%s computes folders with safetensors, and the others files", a.Folders().Name)
		}
	}
	return plan, nil
}

// threads returns the numbers of threads to measure a model with; 0 leaves it to the engine. It warns where the
// engine, which has a name, takes none.
func (a *bencher) threads(name, engine string, m *model, asked []int) []int {
	switch {
	case len(asked) == 0:
	case models.IsAddress(engine):
		a.note(fmt.Sprintf("warning: %s has its own number of threads, so --threads is not for it", name))
	case m.Source == models.Folder:
		a.note(fmt.Sprintf("warning: the engine of %s has its own number of threads, so --threads is not for it", m.name))
	default:
		return cli.Unique(asked)
	}
	return []int{0}
}

// warm reads a model's file, so that the first engine that loads it does not wait longer for the disk than the others.
// What cannot be read is left to them.
func warm(ctx context.Context, path string) {
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer f.Close()
	defer context.AfterFunc(ctx, func() { f.Close() })()
	_, _ = io.Copy(io.Discard, f)
}

// serveFlags returns the arguments of runner serve for a model that is loaded like the next one.
func serveFlags(path string, at cli.Isolation, cfg *backend.Config) []string {
	return []string{"bench=" + path, "--isolate", at.When, "--engine", at.Folder,
		"--threads", strconv.Itoa(cfg.Threads), "--ctx-size", strconv.Itoa(cfg.ContextSize),
		"--gpu-layers", strconv.Itoa(cfg.GPULayers), "--flash-attn", cfg.FlashAttention, "--cache-type", cfg.CacheType,
		"--any-pretokenizer=" + strconv.FormatBool(cfg.AnyPretokenizer)}
}

// use has later models loaded with an engine of --engine. It returns its name in tables, and where it runs.
func (a *bencher) use(engine string) (name string, at cli.Isolation, err error) {
	at = cli.Isolation{When: cli.IsolateAuto}
	switch {
	case engine == "", engine == a.ofFolders():
	case engine == engineHere:
		at.When = cli.IsolateOff
	case engine == engineChild:
		at.When = cli.IsolateOn
	case models.IsAddress(engine):
		_, host, _ := strings.Cut(engine, "://")
		engine = strings.TrimSuffix(host, "/")
	default:
		at.Folder = engine
		engine = filepath.Base(filepath.Clean(engine))
	}
	return engine, at, a.Isolate(at)
}

// farProcess stands for the number of a process that cannot be looked at.
const farProcess = -1

// notePeaks notes how much memory the processes of models had in use. It must be called before they end.
func notePeaks(subjects []subject) {
	for i := range subjects {
		if subjects[i].remote {
			continue
		}
		subjects[i].peak = max(subjects[i].peak, machine.Peak(subjects[i].process))
	}
}

// noteMemory gives the subjects that have a process of their own the memory that it had in use.
func noteMemory(subjects []subject, list []bench.Subject) {
	inside := map[int]int{} // how many models a process has
	for _, s := range subjects {
		inside[s.process]++
	}
	for i, s := range subjects {
		if inside[s.process] == 1 && !s.remote {
			list[i].Row.Memory = s.peak
		}
	}
}

// subject returns a loaded model as a subject. Without a name it is called like its engine.
func (o *options) subject(name string, loaded backend.Model, m *model, remote bool) bench.Subject {
	info, cache, flash := loaded.Info(), o.model.CacheType, o.model.FlashAttention
	if remote || m.Source == models.Folder { // these settings are for llama.cpp
		cache, flash = "", "auto"
	}
	if remote {
		info.Path, info.Bytes, info.Parameters = m.Path, 0, 0
	}
	if m.memory != nil {
		info.Path = m.name // the path changes from run to run
	}
	s := bench.NewSubject(cmp.Or(name, info.Backend), loaded, info, cache, flash)
	if m.made != "" {
		s.Row.Model += ", " + m.made
	}
	if remote {
		s.Elsewhere()
	} else {
		s.Row.PerToken = m.perToken
	}
	return s
}

// processOf returns the number of the process that a model is in, or 0 for this one.
func processOf(m backend.Model) int {
	if own, ok := m.(interface{ Process() int }); ok {
		return own.Process()
	}
	return 0
}
