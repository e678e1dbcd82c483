package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"runner/generation/slots"
	"runner/models"
	"runner/models/installed"
	"runner/models/names"
	"runner/runner"
	"runner/server"
	"runner/server/keys"
	"runner/server/pool"
	"runner/server/wire"
)

func (a *App) serveCommand() *cobra.Command {
	o := &serveOptions{Host: Host{App: a}}
	o.addRooms()
	o.isolation.from = servedFrom
	cmd := Command(&cobra.Command{
		Use:   "serve [MODEL...]",
		Short: "Serve models over HTTP, to clients of " + clients(),
		Long: `Serve models over HTTP until interrupted. When it has started, the server says how they are used, and
/openapi.json describes all routes.

MODEL is as for run; NAME=MODEL serves it under a name of your own. Without one the bundled model is served. The first
is loaded at once, the others when a request asks for them.

Without API keys only this machine is served. A second interrupt ends the server at once. On SIGHUP the server reads
keys, tokens and certificates again; if it was started from a terminal, it stops.`,
		Example: `  runner serve
  runner serve ggml-org/gpt-oss-20b-GGUF --parallel 8
  runner serve big=model.gguf small=other.gguf --memory 24GB
  runner serve --api-keys keys.json --host 0.0.0.0`,
		ValidArgsFunction: CompleteModels,
		RunE:              func(cmd *cobra.Command, args []string) error { return a.serve(cmd, o, args) },
	}, o.flags())
	cmd.AddCommand(a.apiKeyCommand(), a.sealKeysCommand())
	return cmd
}

// served is a model that the server serves.
type served struct {
	name string
	placed
	// crossings belong to the engine at an address, and stay when the model is unloaded.
	crossings *runner.Crossings
}

func (a *App) serve(cmd *cobra.Command, o *serveOptions, args []string) (err error) {
	if err := o.validate(cmd); err != nil {
		return err
	}
	for _, r := range o.rooms {
		if r.Check == nil {
			continue
		}
		if err := r.Check(cmd); err != nil {
			return err
		}
	}
	if err := a.Isolate(o.isolation); err != nil {
		return err
	}
	a.UseRemote(o.remote)
	list, err := a.resolveServed(cmd.Context(), append(args, o.models...))
	if err != nil {
		return err
	}
	if err := cmp.Or(o.checkParallel(list), o.checkMemory(list)); err != nil {
		return err
	}
	if err := a.address(list...); err != nil {
		return err
	}
	cfg, err := a.serverConfig(o)
	if err != nil {
		return err
	}
	if cfg.Aliases, err = readAliases(o.aliases, list); err != nil {
		return err
	}
	rc, err := a.runnerConfig(o)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", net.JoinHostPort(o.host, strconv.Itoa(o.port)))
	if err != nil {
		return listenError(o, err)
	}
	if err := cfg.CheckAddress(l.Addr()); err != nil {
		return errors.Join(Usage("%v", err).From(err).
			Hint("use --api-key or --api-keys, or --insecure-public to let everybody who can reach it use it"),
			l.Close())
	}
	if err := cfg.LimitConnections(); err != nil {
		return errors.Join(err, l.Close())
	}
	ctx, stop := UntilStopped(cmd.Context())
	defer stop()
	ctx, hangUps := a.hangUps(ctx, cfg.Logger)
	defer hangUps.stop()
	rc.Logger = cfg.Logger
	cfg.Slots = slots.New(0)
	rc.Slots = cfg.Slots
	if o.Record || o.Recorder.On() {
		if err := o.Recorder.Open(cfg.Logger, o.Record); err != nil {
			return errors.Join(err, l.Close())
		}
		defer func() { err = errors.Join(err, o.Recorder.Close()) }()
	}
	serving, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	if cfg.Pool, cfg.Cards, err = a.newPool(ctx, o, list, rc, fail); err != nil {
		return errors.Join(err, l.Close())
	}
	defer o.files.hashing.Wait()
	s := server.New(cfg)
	for _, m := range list {
		o.Files = append(o.Files, m.Files.Parts()...)
	}
	o.Server, o.Calls, o.Slots, o.Logger = s, rc.CallMemory, cfg.Slots, cfg.Logger
	if err := mountFormats(o); err != nil {
		return errors.Join(err, l.Close(), cfg.Pool.Close())
	}
	hangUps.follow(s.Reload)
	a.announce(o, list, l.Addr(), cfg)
	err = s.Serve(serving, l)
	if ctx.Err() == nil && serving.Err() != nil {
		err = errors.Join(context.Cause(serving), err)
	}
	return err
}

// announce says where the server is, and how to use it.
func (a *App) announce(o *serveOptions, list []served, at net.Addr, cfg server.Config) {
	names := make([]string, len(list))
	for i, m := range list {
		names[i] = m.name
	}
	scheme := "http"
	if cfg.TLS != nil {
		scheme = "https"
	}
	if o.logFormat == logJSON {
		cfg.Logger.Info("serving", "models", names, "at", scheme+"://"+at.String())
		return
	}
	a.Note(fmt.Sprintf("serving %s at %s://%s", strings.Join(names, ", "), scheme, at))
	here := at.String()
	if tcp, ok := at.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() { // clients need an address that they can call
		here = net.JoinHostPort("localhost", strconv.Itoa(tcp.Port))
	}
	url, key := scheme+"://"+here, ""
	if o.key != "" || o.KeyFile != "" {
		key = `-H "Authorization: Bearer $KEY" `
	}
	fill := strings.NewReplacer("$URL", url, "$MODEL", names[0], "$KEY ", key)
	for _, r := range o.rooms {
		for _, line := range r.Uses {
			a.Note("  " + fill.Replace(line))
		}
	}
}

// resolveServed finds the models on the command line and checks that an engine can run them. It refuses two models
// with the same name.
func (a *App) resolveServed(ctx context.Context, args []string) ([]served, error) {
	if len(args) == 0 {
		args = []string{models.DemoName}
	}
	var list []served
	for _, arg := range args {
		name, model, ok := strings.Cut(arg, "=")
		switch {
		case models.IsAddress(model) && name != "": // an address may have a name, like a file
		case !ok || strings.Contains(name, "://"): // an address may have a query
			name, model = "", arg
		case name == "" || model == "":
			return nil, Usage("%q names no model", arg).Hint("use NAME=MODEL")
		}
		m, err := a.resolve(ctx, model)
		a.chosen(m)
		if err != nil {
			return nil, err
		}
		folder, err := a.choose(ctx, m, a.isolation.Folder, a.warnEngine)
		if err != nil {
			return nil, err
		}
		s := served{name: name}
		if s.placed, err = a.placeIn(m, folder); err != nil {
			return nil, err
		}
		switch {
		case m.Source == models.Address:
			if s.name, err = a.remoteName(ctx, s.name, model); err != nil {
				return nil, err
			}
		case s.name == "":
			s.name = servedName(model)
		}
		if slices.ContainsFunc(list, func(other served) bool { return wire.BareName(other.name) == wire.BareName(s.name) }) {
			return nil, Usage("two models are called %q", wire.BareName(s.name)).Hint("rename one with NAME=MODEL")
		}
		list = append(list, s)
	}
	return list, nil
}

// readAliases reads the aliases on the command line. Each must name a served model.
func readAliases(texts []string, list []served) (aliases []server.Alias, err error) {
	var cards []wire.Card
	for _, s := range list {
		cards = append(cards, wire.Card{Name: s.name})
	}
	for _, text := range texts {
		pattern, name, ok := strings.Cut(text, "=")
		switch {
		case !ok || pattern == "" || name == "":
			return nil, Usage("--alias cannot be %q", text).Hint("use PATTERN=NAME, as in 'claude-*=demo'")
		case wire.Named(cards, pattern) >= 0:
			return nil, Usage("--alias %s is the name of a model", pattern).Hint("use another name")
		case wire.Named(cards, name) < 0:
			return nil, Usage("--alias %s stands for %q, which is not served", pattern, name).Hint("name a served model")
		}
		aliases = append(aliases, server.Alias{Pattern: pattern, Model: name})
	}
	return aliases, nil
}

// servedName is the default name of a model in requests: a file's name without .gguf, or the name that it was given. An
// address becomes the name that it stands for.
func servedName(model string) string {
	if n, err := names.Parse(model); err == nil && strings.Contains(model, "://") {
		if model = n.String(); strings.EqualFold(filepath.Ext(n.Selector), ".gguf") {
			model = n.Selector
		}
	}
	if base := filepath.Base(model); strings.EqualFold(filepath.Ext(base), ".gguf") {
		return base[:len(base)-len(".gguf")]
	}
	return model
}

// newPool makes the pool of models and returns their descriptions. The first model is loaded at once; if that fails,
// fail is called.
func (a *App) newPool(ctx context.Context, o *serveOptions, list []served, rc runner.Config,
	fail func(error)) (*pool.Pool, []wire.Card, error) {
	cfg := o.pool
	cfg.Logger = rc.Logger
	byName := map[string]served{}
	var cards []wire.Card
	crossings := map[string]*runner.Crossings{}
	for i, s := range list {
		if path := s.Path; s.Source == models.Address {
			if crossings[path] == nil {
				crossings[path] = runner.NewCrossings()
			}
			s.crossings = crossings[path]
		}
		card := wire.Card{Name: s.name, Added: time.Now(), Size: s.Files.Bytes(),
			Modified: installed.Modified(&s.Files)}
		if s.Source == models.Address { // its files are elsewhere
			card.Modified = card.Added
		} else {
			files := s.Files
			installed.Describe(&files)
			card.Family, card.Parameters, card.Quantization = files.Architecture, files.Parameters, files.Quant
		}
		byName[s.name] = s
		cards = append(cards, card)
		cfg.Models = append(cfg.Models, pool.Entry{Name: s.name, Size: card.Size, Pinned: i == 0 && len(list) == 1})
	}
	o.files = &modelFiles{mapped: !o.model.NoMemoryMap, log: cfg.Logger, first: map[string]*models.Snapshot{},
		loaded: map[string]*models.Snapshot{}}
	if o.files.log == nil {
		o.files.log = slog.New(slog.DiscardHandler)
	}
	cfg.Check = o.files.check
	// loaded is set if the first model was ever loaded. It needs no lock, because the pool opens one model at a time.
	loaded := false
	var p *pool.Pool
	cfg.Open = func(ctx context.Context, name string) (wire.Loaded, error) {
		others := othersOf(name, cfg, func(name string) bool { return p.Loaded(name) != nil })
		s, atStart := byName[name], name == list[0].name && !loaded
		if !atStart { // the file may have changed since the engine was chosen
			var err error
			if s.placed, err = a.placeAgain(ctx, s.Model); err != nil {
				return nil, err
			}
		}
		r, err := a.openServed(ctx, o, s, others, rc)
		if atStart {
			if loaded = err == nil; !loaded {
				fail(err)
			}
		}
		return r, err
	}
	p = pool.New(cfg)
	return p, cards, nil
}

// othersOf lists the sizes of the models that are not loaded yet and may later be loaded at the same time as the model
// called name.
func othersOf(name string, cfg pool.Config, loaded func(name string) bool) (sizes []int64) {
	total := int64(0)
	for _, m := range cfg.Models {
		if m.Name == name || loaded(m.Name) {
			total += m.Size
		}
	}
	for _, m := range cfg.Models {
		if m.Name == name || loaded(m.Name) || cfg.Memory > 0 && total+m.Size > cfg.Memory {
			continue
		}
		total += m.Size
		sizes = append(sizes, m.Size)
	}
	return sizes
}

// openServed loads a model for the server. others are the sizes of the models that may be loaded later.
func (a *App) openServed(ctx context.Context, o *serveOptions, s served, others []int64,
	rc runner.Config) (wire.Loaded, error) {
	cfg := o.model
	cfg.Others, rc.Crossings = others, s.crossings
	// Every run takes one sequence and every summary another one. Unused sequences cache earlier conversations.
	cfg.Sequences = 2 * o.runner.Parallel
	var from *models.Snapshot
	var err error
	switch {
	case s.Source != models.Address:
		if from, err = o.files.take(ctx, s.name, s.Model); err != nil {
			return nil, err
		}
		cfg.Files, rc.Weights = from, from
	case !o.parallelGiven: // as many as the engine computes at a time
		cfg.Sequences, rc.Parallel = 0, 0
	}
	cfg.Progress = func(float32) bool { return ctx.Err() == nil }
	rc.Logger = rc.Logger.With("model", s.name) // two names may be of one file
	r, err := a.newRunner(ctx, s.placed, cfg, rc)
	if err != nil {
		return nil, err
	}
	if from != nil {
		o.files.opened(ctx, s.name, from)
	}
	// Otherwise every request that does not set it would be refused.
	if err := r.CheckSampling(&o.Defaults.Sampling); err != nil {
		return nil, errors.Join(fmt.Errorf("model %q: %w", s.name, err), r.Close())
	}
	info := r.Info()
	a.warnLoaded(&o.model, s.Model, info)
	if warning := splitWarning(&info); warning != "" {
		rc.Logger.Warn(warning)
	}
	rc.Logger.Info("context", "tokens", info.ContextSize, "trained", info.TrainedContext,
		"cache_tokens", info.CacheTokens, "why", info.ContextReason)
	return r, nil
}

// serverConfig returns the configuration of the server that the flags set.
func (a *App) serverConfig(o *serveOptions) (server.Config, error) {
	cfg := o.server
	cfg.Granted = o.Granted
	cfg.MaxReasoning, cfg.Memory, cfg.Version = &o.MaxReasoning, a.engine.Memory, a.versions().runner
	cfg.DrainTimeout = max(cfg.DrainTimeout, time.Millisecond) // a 0 in server.Config would mean the default
	cfg.Logger = a.Logger(o.logFormat, o.verbose)
	var err error
	switch {
	case o.KeyFile != "":
		cfg.Keys, err = keys.Load(o.KeyFile)
	case o.key != "":
		cfg.Keys, err = keys.One(o.key, o.Granted...)
	}
	if err != nil {
		return cfg, err
	}
	if o.cert != "" {
		c, err := a.loadCertificate(o.cert, o.certKey)
		if err != nil {
			return cfg, err
		}
		cfg.TLS = &tls.Config{GetCertificate: c.get, MinVersion: tls.VersionTLS12}
		cfg.Sources = append(cfg.Sources, c.source())
	}
	return cfg, nil
}

// The reasoning before a tool call is remembered, so that the model continues it in the next turn. servedCalls is the
// default number of calls for a server, ownCalls the number for commands with one model, and callAge how long each is
// remembered.
const (
	servedCalls = 256
	ownCalls    = 32
	callAge     = time.Hour
)

// runnerConfig returns the configuration of each model's runner that the flags set.
func (a *App) runnerConfig(o *serveOptions) (rc runner.Config, err error) {
	rc = o.runner
	rc.MeasureCosts, rc.CallMemory = true, runner.NewCallMemory(o.callMemory, o.callMemoryAge)
	if o.chatTemplate != "" {
		rc.ChatTemplate, err = a.ReadFile("--chat-template", o.chatTemplate)
	}
	return rc, err
}

// listenError returns the error of an address that the server cannot listen on.
func listenError(o *serveOptions, err error) error {
	hint := "check --host and --port"
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		hint = "another program uses the port; choose one with --port, 0 for any that is free"
	case errors.Is(err, syscall.EACCES):
		hint = "ports under 1024 are reserved for the system; choose another with --port"
	}
	return Input("cannot listen on %s: %v", net.JoinHostPort(o.host, strconv.Itoa(o.port)), errors.Unwrap(err)).From(err).
		Hint("%s", hint)
}
