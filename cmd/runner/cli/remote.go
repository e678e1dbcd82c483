package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"runner/backend"
	"runner/cmd/runner/settings"
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
}

// RemoteFact describes an engine on another machine.
type RemoteFact struct {
	// Engine is its kind and version, Model its name for its model.
	Engine, Model string
	// ContextSize is the length of a sequence, and Parallel how many it computes at a time, or 0.
	ContextSize, Parallel int
	// Salted says that it keeps the prefixes of different keys apart.
	Salted bool
	// Forms are the kinds of form that it can enforce.
	Forms []string
	// Notes are more facts, one line each.
	Notes []string
}

// remoteFlags are the flags for engines on other machines.
type remoteFlags struct{ Remote }

// engineKeyVariable is the environment variable of --engine-key.
const engineKeyVariable = "RUNNER_ENGINE_KEY"

func (r *remoteFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&r.Tokenizer, "tokenizer", "", "use the tokenizer of `MODEL` for an engine at an address: a GGUF file, a "+
		"tokenizer.json or a model that is here (default: found by the name that the engine says)")
	f.StringVar(&r.Key, "engine-key", "", "`KEY` for an engine at an address (also: "+engineKeyVariable+")")
	f.StringVar(&r.CA, "engine-ca", "", "trust an engine at an address if a certificate in `FILE` vouches for it, PEM")
	f.StringVar(&r.Cert, "engine-cert", "", "`FILE` of the certificate that is shown to an engine at an address, PEM")
	f.StringVar(&r.CertKey, "engine-cert-key", "", "`FILE` of that certificate's key, PEM")
	f.BoolVar(&r.NoSharedCache, "no-shared-cache", false,
		"ask an engine at an address not to reuse the prompts of other requests")
	settings.Secret(cmd, "engine-key")
}

// remote uses the flags from now on.
func (a *app) remote(r remoteFlags) error {
	if (r.Cert == "") != (r.CertKey == "") {
		return &usageError{what: "--engine-cert and --engine-cert-key go together", hint: "give both"}
	}
	a.remotes = r.Remote
	return nil
}

// isRemote reports whether a name of a model is the address of an engine: http://HOST:PORT or KIND+http://HOST:PORT. An
// address with a path, without a kind, is that of a page.
func isRemote(name string) bool {
	kind, address := splitKind(name)
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.ContainsAny(name, " \n\t") {
		return false
	}
	return kind != "" || strings.Trim(u.Path, "/") == "" && u.RawQuery == "" && u.Fragment == ""
}

// splitKind splits an address into the kind of engine and the URL.
func splitKind(name string) (kind, address string) {
	scheme, rest, ok := strings.Cut(name, "://")
	if kind, http, found := strings.Cut(scheme, "+"); ok && found {
		return kind, http + "://" + rest
	}
	return "", name
}

// remoteAt says how to reach the engine at an address.
func (a *app) remoteAt(name string) Remote {
	r := a.remotes
	r.Kind, r.URL = splitKind(name)
	return r
}

// remoteModel is the model of the engine at an address. It has no files.
func remoteModel(address string) models.Model { return models.Model{Name: address, Path: address} }

// remoteName asks the engine at an address for the name of its model.
func (a *app) remoteName(ctx context.Context, address string) (string, error) {
	f, err := a.engine.DescribeRemote(ctx, a.remoteAt(address))
	if err != nil {
		return "", err
	}
	if f.Model == "" {
		return "", errors.New("the engine has no name for its model; give one with NAME=ADDRESS")
	}
	return f.Model, nil
}

// checkRemote reports what the engine at an address is and can do.
func (a *app) checkRemote(ctx context.Context, r *report, address string) bool {
	f, err := a.engine.DescribeRemote(ctx, a.remoteAt(address))
	if err != nil {
		r.fail("engine", "%s", errorLine(err))
		return false
	}
	r.ok("engine", "%s at %s", f.Engine, address)
	r.ok("runs", "%s, with a context of %d tokens", f.Model, f.ContextSize)
	if f.Parallel > 0 {
		r.ok("parallel", "%s at a time", count(f.Parallel, "sequence", "sequences"))
	}
	if len(f.Forms) > 0 {
		r.ok("forms", "it can follow: %s; every token is checked here, too", strings.Join(f.Forms, ", "))
	}
	if f.Salted {
		r.ok("prefixes", "it keeps those of different API keys apart")
	} else {
		r.ok("prefixes", "all its clients share them, so the time of a reply may tell what others asked; "+
			"--no-shared-cache asks it not to reuse any")
	}
	for _, note := range f.Notes {
		r.ok("note", "%s", note)
	}
	return true
}

// warnShared warns that an engine lets different callers share prefixes.
func (a *app) warnShared(ctx context.Context, address string) {
	if a.remotes.NoSharedCache {
		return
	}
	if f, err := a.engine.DescribeRemote(ctx, a.remoteAt(address)); err == nil && !f.Salted {
		a.complain(fmt.Sprintf("warning: %s does not keep the prompts of different API keys apart, so the time of a reply "+
			"may tell what others asked; accept this, or use --no-shared-cache", f.Engine))
	}
}

// openRemote opens the model of the engine at an address.
func (a *app) openRemote(ctx context.Context, address string, cfg backend.Config) (backend.Model, error) {
	for _, flag := range withoutEffect(&cfg) {
		a.warnEngine("--" + flag + " has no effect on an engine at an address; leave it out")
	}
	return a.engine.Remote(ctx, a.remoteAt(address), cfg)
}
