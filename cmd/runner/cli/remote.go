package cli

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"runner/backend"
	"runner/backend/remote"
	"runner/cmd/runner/flags"
	"runner/models"
)

// Remote says how to reach an engine on another machine.
type Remote struct {
	// URL is its address. Kind is its kind, or empty to find it by asking.
	URL, Kind string
	// Tokenizer names the model whose tokenizer it uses; empty to find it by what the engine says.
	Tokenizer string
	// Key is its key. CA is a file of certificates to trust; Cert and CertKey are the files of our own.
	Key, CA, Cert, CertKey string
	// NoSharedCache asks it not to reuse prefixes.
	NoSharedCache bool
	// Wait is how long a request waits for it while it fails; 0 means the default.
	Wait time.Duration
}

// RemoteFact describes an engine on another machine.
type RemoteFact struct {
	// Engine is its kind and version.
	Engine string
	remote.Description
}

// RemoteFlags are the flags for engines on other machines.
type RemoteFlags struct {
	Remote
	// tokenizers are the values of --tokenizer: MODEL or NAME=MODEL.
	tokenizers []string
}

// AddressFlags are the names of the flags for engines at addresses.
var AddressFlags = []string{"tokenizer", "engine-key", "engine-ca", "engine-cert", "engine-cert-key", "no-shared-cache",
	"engine-wait"}

// EngineKeyVariable is the environment variable of --engine-key.
const EngineKeyVariable = "RUNNER_ENGINE_KEY"

func (r *RemoteFlags) flags() flags.Table {
	return flags.List(
		flags.Texts("tokenizer", &r.tokenizers, "use the tokenizer of `MODEL` for an engine at an address: a GGUF file, a "+
			"tokenizer.json or a model that is here; NAME=MODEL for one of several models (default: found by the name that the "+
			"engine says)"),
		r.ReachFlags(),
		flags.Switch("no-shared-cache", &r.NoSharedCache,
			"ask an engine at an address not to reuse the prompts of other requests"),
		flags.Time("engine-wait", &r.Wait, 30*time.Second, time.Second, time.Hour,
			"maximum `TIME` that a request waits for an engine at an address that fails, is busy or starts"))
}

// ReachFlags are the flags that are needed to reach an engine.
func (r *RemoteFlags) ReachFlags() flags.Table {
	return flags.List(
		flags.Text("engine-key", &r.Key, "`KEY` for an engine at an address", flags.Secret),
		flags.Text("engine-ca", &r.CA, "trust an engine at an address if a certificate in `FILE` vouches for it, PEM"),
		flags.Together(
			flags.Text("engine-cert", &r.Cert, "`FILE` of the certificate that is shown to an engine at an address, PEM"),
			flags.Text("engine-cert-key", &r.CertKey, "`FILE` of that certificate's key, PEM")))
}

// UseRemote uses the flags from now on.
func (a *App) UseRemote(r RemoteFlags) { a.remotes, a.tokenizers = r.Remote, r.tokenizers }

// address checks that the flags for engines at addresses have a model to act on, and gives each model its tokenizer.
// Values from a settings file or a variable are not refused, because they are for other commands, too.
func (a *App) address(list ...served) error {
	away := func(s served) bool { return s.Source == models.Address }
	if !slices.ContainsFunc(list, away) {
		for _, name := range AddressFlags {
			if a.Given(name) {
				return Usage("--%s is for an engine at an address, and no model is at one", name).
					Hint("leave it out, or name an address, as in http://127.0.0.1:8080")
			}
		}
		return nil
	}
	a.tokenizerAt = map[string]string{}
	for _, value := range a.tokenizers {
		name, model, ok := strings.Cut(value, "=")
		i := slices.IndexFunc(list, func(s served) bool { return s.name != "" && s.name == name })
		switch {
		case ok && i >= 0 && !away(list[i]):
			return Usage("--tokenizer %s is for a model that is not at an address", value).
				Hint("leave it out: the model has its own tokenizer")
		case ok && i >= 0:
			a.tokenizerAt[list[i].Path] = model
		case a.remotes.Tokenizer != "":
			return Usage("--tokenizer %s is the second one for all models", value).
				Hint("use --tokenizer NAME=MODEL, with the name of a served model")
		default:
			a.remotes.Tokenizer = value
		}
	}
	return nil
}

// remoteAt says how to reach the engine at an address.
func (a *App) remoteAt(name string) Remote {
	r := a.remotes
	r.Kind, r.URL, _ = models.SplitAddress(name)
	if t := a.tokenizerAt[name]; t != "" {
		r.Tokenizer = t
	}
	return r
}

// remoteName asks the engine at an address what it is. It returns the name of its model, or given if that is a name. An
// engine that is not there needs one.
func (a *App) remoteName(ctx context.Context, given, address string) (string, error) {
	f, err := a.engine.DescribeRemote(ctx, a.remoteAt(address))
	switch {
	case err == nil:
		a.warnShared(f)
	case given == "":
		return "", err
	}
	name := cmp.Or(given, f.Model)
	if name == "" {
		return "", errors.New("the engine has no name for its model; give one with NAME=ADDRESS")
	}
	return name, nil
}

// checkRemote reports what the engine at an address is and can do.
func (a *App) checkRemote(ctx context.Context, r *report, address string) bool {
	f, err := a.engine.DescribeRemote(ctx, a.remoteAt(address))
	if err != nil {
		r.fail("engine", "%s", errorLine(err))
		return false
	}
	r.ok("engine", "%s at %s", f.Engine, address)
	r.ok("runs", "%s, with a context of %d tokens", f.Model, f.ContextSize)
	if f.Parallel > 0 {
		r.ok("parallel", "%s at a time", Count(f.Parallel, "sequence", "sequences"))
	}
	if len(f.Forms) > 0 {
		forms := make([]string, len(f.Forms))
		for i, form := range f.Forms {
			forms[i] = string(form)
		}
		r.ok("forms", "it can follow: %s; every token is checked here, too", strings.Join(forms, ", "))
	}
	switch {
	case f.Salted:
		r.ok("prefixes", "it keeps those of different API keys apart")
	case f.Unsharing:
		r.ok("prefixes", "all its clients share them, so the time of a reply may tell what others asked; "+
			"--no-shared-cache asks it not to reuse any")
	default:
		r.ok("prefixes", "all its clients share them, so the time of a reply may tell what others asked; "+
			"--no-shared-cache has no effect on this engine")
	}
	for _, note := range f.Notes {
		r.ok("note", "%s", note)
	}
	return true
}

// warnShared warns of an engine that lets different callers share prefixes.
func (a *App) warnShared(f RemoteFact) {
	shares := f.Engine + " does not keep the prompts of different clients and API keys apart, so the time of a reply " +
		"may tell what others asked; "
	switch {
	case f.Salted || f.Unsharing && a.remotes.NoSharedCache:
	case f.Unsharing:
		a.warnEngine(shares + "accept this, or use --no-shared-cache")
	case a.remotes.NoSharedCache:
		a.warnEngine(shares + "it ignores --no-shared-cache; accept this, or turn its prefix cache off")
	default:
		a.warnEngine(shares + "accept this, or turn its prefix cache off")
	}
}

// openRemote opens the model of the engine at an address.
func (a *App) openRemote(ctx context.Context, address string, cfg backend.Config, log *slog.Logger) (backend.Model,
	error) {
	for _, flag := range withoutEffect(&cfg) {
		a.warnEngine("--" + flag + " has no effect on an engine at an address; leave it out")
	}
	m, f, err := a.engine.Remote(ctx, a.remoteAt(address), cfg, log)
	if err == nil {
		a.warnShared(f)
	}
	return m, err
}
