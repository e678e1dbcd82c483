package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"runner/backend"
	"runner/backend/gguf"
	"runner/backend/remote"
	"runner/backend/remote/web"
	"runner/backend/tokenizer"
	"runner/backend/tokenizer/folder"
	"runner/chattemplate"
	"runner/chattemplate/families"
	"runner/cmd/runner/cli"
	"runner/models"
	"runner/models/cache"
	"runner/models/demo"
	"runner/models/names"
)

// found is an engine on another machine that was asked what it is.
type found struct {
	client *web.Client
	kind   *cli.Kind
	about  remote.Description
}

// askTime is how long an engine may take to say what it is.
const askTime = 15 * time.Second

// find asks an engine what it is. Its kind is that of the address, or is found by asking. The caller closes the client.
func find(ctx context.Context, a cli.Remote) (f found, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, askTime, &web.Error{Kind: web.Slow})
	defer cancel()
	conf, err := tlsOf(a)
	if err != nil {
		return found{}, err
	}
	c, err := web.New(web.Config{Base: a.URL, Key: a.Key, TLS: conf})
	if err != nil {
		return found{}, err
	}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	known := false
	var kinds []string
	for _, k := range cli.Kinds() {
		kinds = append(kinds, k.Name)
		if a.Kind != "" && a.Kind != k.Name {
			continue
		}
		known = true
		about, err := remote.Describe(ctx, k.New(c, nil))
		if err == nil {
			return found{c, k, about}, nil
		}
		var e *web.Error
		// Another kind may know what this one does not have, and would be refused and unreachable in the same way.
		if a.Kind != "" || !errors.As(err, &e) || e.Kind != web.Missing && e.Kind != web.Malformed {
			return found{}, remoteError(err)
		}
	}
	if len(kinds) == 0 {
		return found{}, errors.New("this program knows no engines at addresses")
	}
	if !known {
		return found{}, &backend.LoadError{Path: "the engine", Reason: backend.LoadFailed,
			Detail: fmt.Sprintf("%q is not a kind of engine", a.Kind),
			Advice: "use one of " + strings.Join(kinds, ", ") + ", as in " + kinds[0] + "+http://HOST:PORT"}
	}
	return found{}, &backend.LoadError{Path: "the engine", Reason: backend.LoadFailed,
		Detail: "it answers like none of " + strings.Join(kinds, ", "),
		Advice: "check the address, which is that of the server without a path"}
}

// remoteError adds advice to an error of an engine on another machine.
func remoteError(err error) error {
	if errors.Is(err, backend.ErrOtherModel) {
		return &backend.LoadError{Path: "the engine's model", Reason: backend.LoadFailed,
			Detail: backend.ErrOtherModel.Error(), Err: err,
			Advice: "bring the old one back, or start runner again to use the new one"}
	}
	var e *web.Error
	if !errors.As(err, &e) {
		return err
	}
	if e.Temporary() {
		err = &backend.UnavailableError{After: e.RetryAfter, Err: err}
	}
	load := &backend.LoadError{Path: "the engine's model", Reason: backend.LoadFailed, Detail: e.Error(), Err: err}
	switch e.Kind {
	case web.Unreachable, web.Slow:
		load.Advice = "check the address, and that the engine runs"
	case web.Denied:
		load.Advice = "give the engine's key with --engine-key"
	case web.Untrusted:
		load.Advice = "check the address, or name the certificate to trust with --engine-ca"
	case web.NoCertificate:
		load.Advice = "give a certificate that it takes with --engine-cert and --engine-cert-key"
	case web.Busy:
		load.Advice = "try again when it has loaded its model"
	}
	return load
}

// tlsOf reads the certificates for an engine; nil means the defaults.
func tlsOf(a cli.Remote) (*tls.Config, error) {
	if a.CA == "" && a.Cert == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if a.CA != "" {
		pem, err := os.ReadFile(a.CA)
		if err != nil {
			return nil, err
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s has no certificate", a.CA)
		}
	}
	if a.Cert != "" {
		pair, err := tls.LoadX509KeyPair(a.Cert, a.CertKey)
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// addresses remembers which models the engines at addresses ran. A model that was unloaded is then not loaded again as
// another one.
type addresses struct {
	mu    sync.Mutex
	known map[string]*remote.Known
}

// open opens the model that the engine at an address runs, unless it ran another one before. It also says what the
// engine is.
func (l *addresses) open(ctx context.Context, a cli.Remote, cfg backend.Config, log *slog.Logger) (m backend.Model,
	is cli.RemoteFact, err error) {
	l.mu.Lock()
	known := l.known[a.URL]
	if known == nil {
		known = new(remote.Known)
		if l.known == nil {
			l.known = map[string]*remote.Known{}
		}
		l.known[a.URL] = known
	}
	l.mu.Unlock()
	f, err := find(ctx, a)
	if err != nil {
		return nil, is, err
	}
	if err := known.Check(&f.about); err != nil {
		f.client.Close()
		return nil, is, remoteError(err)
	}
	w, err := writingOf(ctx, a, &f.about)
	if err != nil {
		f.client.Close()
		return nil, is, err
	}
	w.vocab = remote.Fit(w.vocab, f.about.Vocabulary)
	opened, err := remote.Open(ctx, remote.Config{Engine: f.kind.New(f.client, w.vocab), Vocab: w.vocab,
		Tokenize: w.tokenize, Architecture: w.architecture, ChatTemplate: w.template, Load: cfg,
		NoSharedCache: a.NoSharedCache, Patience: remote.Patience{Faults: a.Wait}, Known: known, Warn: warnings(log)})
	if err != nil {
		return nil, is, remoteError(err)
	}
	return opened, f.fact(), nil
}

// warnings returns what writes the warnings of a model at an address to a log, or nil.
func warnings(log *slog.Logger) func(line string) {
	if log == nil {
		return nil
	}
	return func(line string) { log.Warn(line) }
}

// describeRemote says what an engine on another machine is and can do.
func describeRemote(ctx context.Context, a cli.Remote) (cli.RemoteFact, error) {
	f, err := find(ctx, a)
	if err != nil {
		return cli.RemoteFact{}, err
	}
	defer f.client.Close()
	return f.fact(), nil
}

func (f *found) fact() cli.RemoteFact {
	fact := cli.RemoteFact{Engine: f.kind.Name, Description: f.about}
	fact.Model = modelName(fact.Model)
	if fact.Version != "" {
		fact.Engine += " " + fact.Version
	}
	return fact
}

// modelName shortens the path of a model's file to its name.
func modelName(id string) string {
	if base := filepath.Base(id); strings.EqualFold(filepath.Ext(base), ".gguf") {
		return base[:len(base)-len(".gguf")]
	}
	return id
}

// writing is how a model writes.
type writing struct {
	vocab                  *backend.Vocab
	tokenize               func(dst []backend.Token, text string) ([]backend.Token, error)
	architecture, template string
}

// writingOf finds the vocabulary of an engine's model: the one that the user names, or that of the engine's own file if
// it is on this machine, or that of the engine's name for its model.
func writingOf(ctx context.Context, a cli.Remote, d *remote.Description) (writing, error) {
	switch a.Tokenizer {
	case "":
	case demo.Name:
		path, err := demo.Path(ctx)
		if err != nil {
			return writing{}, err
		}
		return ggufWriting(path)
	default:
		return readWriting(a.Tokenizer)
	}
	for _, name := range []string{d.Path, d.Model} {
		if _, err := os.Stat(name); name != "" && (err != nil || isLoopback(a.URL)) {
			if t, err := readWriting(name); err == nil {
				return t, nil
			}
		}
	}
	return writing{}, &backend.LoadError{Path: "the engine's model", Reason: backend.LoadMissing,
		Detail: fmt.Sprintf(`there is no tokenizer for "%.100s" on this machine`, modelName(d.Model)),
		Advice: "name a GGUF file, a tokenizer.json or a model that is here with --tokenizer"}
}

// isLoopback reports whether an address is on this machine. Only then a path that the engine names means the same here.
func isLoopback(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// readWriting reads a vocabulary from a GGUF file, a tokenizer.json, a folder with one, or a model that is on this
// machine.
func readWriting(name string) (writing, error) {
	info, err := os.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return folderWriting(name)
	case err == nil && filepath.Base(name) == "tokenizer.json":
		return folderWriting(filepath.Dir(name))
	case err == nil && info.Mode().IsRegular():
		return ggufWriting(name)
	}
	if dir := cachedTokenizer(name); dir != "" {
		return folderWriting(dir)
	}
	m, err := models.Find(name, 0)
	if err != nil {
		return writing{}, err
	}
	return readModel(&m)
}

// readModel reads how a model on this machine writes.
func readModel(m *models.Model) (writing, error) {
	if m.Source == models.Folder {
		return folderWriting(m.Path)
	}
	return ggufWriting(m.Path)
}

// describeWriting describes how a model on this machine writes its turns.
func describeWriting(m *models.Model) (cli.Written, error) {
	w, err := readModel(m)
	if err != nil {
		return cli.Written{}, err
	}
	f, err := families.Open(chattemplate.Config{Vocab: w.vocab, Tokenize: w.tokenize, Source: w.template})
	if err != nil {
		return cli.Written{Template: w.template}, err
	}
	about := f.About()
	can := []string{"completion"}
	if about.Tools {
		can = append(can, "tools")
	}
	if about.MarksReasoning {
		can = append(can, "thinking")
	}
	return cli.Written{Template: w.template, Capabilities: can, Reasoning: about.Reasoning}, nil
}

// cachedTokenizer returns the folder of a repository in the Hugging Face cache that has a tokenizer.json, or "".
func cachedTokenizer(name string) string {
	n, err := names.Parse(name)
	if err != nil || n.Repo == "" || n.Selector != "" {
		return ""
	}
	r, ok := cache.Default().Find(n.Repo)
	if !ok {
		return ""
	}
	commit, err := r.Main()
	if err != nil {
		return ""
	}
	file, err := r.Entry(commit, "tokenizer.json")
	if err != nil {
		return ""
	}
	if _, err := os.Stat(file); err != nil {
		return ""
	}
	return filepath.Dir(file)
}

func folderWriting(path string) (writing, error) {
	f, err := folder.Read(path)
	if err != nil {
		return writing{}, err
	}
	return writing{f.Vocab, f.Tokenize, f.Architecture, f.ChatTemplate}, nil
}

func ggufWriting(path string) (writing, error) {
	f, err := gguf.Open(path)
	if errors.Is(err, gguf.ErrNotGGUF) {
		return writing{}, &backend.LoadError{Path: "the tokenizer", Reason: backend.LoadFailed, Err: err,
			Detail: filepath.Base(path) + " is neither a GGUF file nor called tokenizer.json",
			Advice: "name a GGUF file, a tokenizer.json or a folder with one"}
	}
	if err != nil {
		return writing{}, err
	}
	t, err := tokenizer.FromGGUF(f, nil)
	if err != nil {
		return writing{}, fmt.Errorf("the tokenizer of %s: %w", path, err)
	}
	all := writing{vocab: t.Vocab(), tokenize: t.Encode}
	all.architecture, _ = f.String("general.architecture")
	all.template, _ = f.String("tokenizer.chat_template")
	return all, nil
}
