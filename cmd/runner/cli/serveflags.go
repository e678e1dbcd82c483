package cli

import (
	"cmp"
	"errors"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"runner/backend"
	"runner/cmd/runner/flags"
	"runner/cmd/runner/render"
	"runner/models"
	"runner/reasoning"
	"runner/runner"
	"runner/server"
	"runner/server/pool"
	"runner/server/wire"
)

// serveOptions are the flags of serve.
type serveOptions struct {
	Host
	// rooms are what the rooms add, and roomFlags their flags.
	rooms     []Serving
	roomFlags []flags.Table

	host string
	port int

	// models are those of --model.
	models []string

	isolation Isolation
	remote    RemoteFlags

	// server, pool and runner have what the flags set of these configurations.
	server        server.Config
	pool          pool.Config
	runner        runner.Config
	parallelGiven bool

	files *modelFiles

	callMemory    int
	callMemoryAge time.Duration

	key           string
	aliases       []string
	cert, certKey string
	sealKeys      string
	sealed        string
	traceFlags    flags.Table

	verbose   bool
	logFormat string

	model        backend.Config
	chatTemplate string
}

// Values of --sealed.
const (
	sealedLenient = "lenient"
	sealedStrict  = "strict"
)

// Values of --log-format.
const (
	logText = "text"
	logJSON = "json"
)

func (o *serveOptions) flags() flags.Table {
	return flags.List(
		flags.Topic("Address", o.addressFlags()),
		flags.Topic("Models", o.modelFlags()),
		flags.Topic("Access", o.accessFlags()),
		flags.Topic("Reasoning", o.reasoningFlags()),
		flags.Topic("Concurrency and time", o.concurrencyFlags()),
		flags.Topic("Stored responses and calls", o.storedFlags()),
		flags.Topic("Limits on requests", o.limitFlags()),
		flags.Topic("Sampling that requests do not set", samplingFlags(&o.Defaults.Sampling)),
		flags.Topic("Loading models", modelFlags(&o.model), draftsFlag(&o.runner.Drafts), o.isolation.flags()),
		flags.Topic("Engine at an address", o.remote.flags()),
		flags.Topic("Traces", o.traceFlags),
		flags.List(o.roomFlags...),
		flags.Topic("Log",
			flags.Name("log-format", &o.logFormat, []string{logText, logJSON}, "form of the log on standard error",
				flags.Common),
			flags.Switch("verbose", &o.verbose, "log more", flags.Short("v"), flags.Common),
			flags.Switch("log-content", &o.server.LogContent,
				"log prompts and answers too, and reasoning that a request shows; for debugging only")),
	).Showing("gpu-layers")
}

func (o *serveOptions) addressFlags() flags.Table {
	return flags.List(
		flags.Text("host", &o.host, "`ADDRESS` to listen on; 0.0.0.0 lets other machines reach the server",
			flags.Usual("127.0.0.1"), flags.Common),
		flags.Int("port", &o.port, 8080, 0, math.MaxUint16, "`PORT` to listen on (0: any that is free)", flags.Common),
		flags.Together(
			flags.Text("tls-cert", &o.cert, "`FILE` of the certificate chain, PEM"),
			flags.Text("tls-key", &o.certKey, "`FILE` of the certificate's key, PEM")),
		flags.Texts("allow-host", &o.server.Hosts,
			"`NAME` by which the server may be called without a key, as in box.local (repeatable)"),
		flags.Texts("cors-origin", &o.server.Origins,
			"`ORIGIN` whose pages may use the server, as in https://example.org; * means every page (repeatable)"),
		flags.Each("proxy", &o.server.Proxies, network, netip.Prefix.String,
			"`ADDRESS` or network of a proxy, which may use all connections (repeatable)"))
}

func (o *serveOptions) modelFlags() flags.Table {
	return flags.List(
		flags.Texts("model", &o.models, "`MODEL` to serve, like an argument (repeatable)", flags.Short("m"), flags.Common),
		flags.Texts("alias", &o.aliases,
			"`PATTERN=NAME`: more names for the model NAME, as in 'claude-*=demo' (repeatable)", flags.Common),
		flags.Time("keep-alive", &o.pool.KeepAlive, 5*time.Minute, -flags.Forever, flags.Forever,
			"`TIME` after which an idle model is unloaded, if there are several (negative: never)", flags.Common),
		flags.Size("memory", &o.pool.Memory, 0, 0, "maximum `BYTES` of weights loaded at once, as in 24GB (0: no limit)",
			flags.Common),
		templateFlag(&o.chatTemplate))
}

func (o *serveOptions) accessFlags() flags.Table {
	return flags.List(
		flags.OneOf(
			flags.Text("api-key", &o.key, "`KEY` that requests must send", flags.Secret),
			flags.Text("api-keys", &o.KeyFile, "`FILE` of keys with their permissions; see runner serve apikey"),
		).With(flags.Common),
		flags.Switch("insecure-public", &o.server.Public, "serve other machines without asking for a key"))
}

func (o *serveOptions) reasoningFlags() flags.Table {
	return flags.List(
		VisibilityFlag("reasoning", &o.Defaults.Visibility, reasoning.VisibilityNone,
			"how much reasoning a request gets if it does not say", flags.Short("r"), flags.Common),
		VisibilityFlag("max-reasoning", &o.MaxReasoning, reasoning.VisibilityFull,
			"maximum reasoning that a request may ask for; keys can allow less", flags.Common),
		sealKeysFlag(&o.sealKeys),
		flags.Name("sealed", &o.sealed, []string{sealedLenient, sealedStrict},
			"what happens to sealed reasoning that a client sends where it does not belong: it is left out with a warning, or "+
				"the request is refused"))
}

func (o *serveOptions) concurrencyFlags() flags.Table {
	return flags.List(
		flags.Int("parallel", &o.runner.Parallel, 4, 1, mostParallel, "answer up to `N` requests at once; they share one "+
			"cache (without the flag an engine at an address gets as many as it computes at a time)", flags.Common),
		flags.Int("queue", &o.runner.Queue, 64, 1, 100_000, "up to `N` requests wait; more are refused with status 429"),
		flags.Time("request-timeout", &o.server.RequestTimeout, 30*time.Minute, 0, flags.Forever,
			"maximum `TIME` for an answer (0: no limit)"),
		flags.Time("drain-timeout", &o.server.DrainTimeout, 30*time.Second, 0, flags.Forever,
			"`TIME` in which running requests may finish when the server stops"))
}

func (o *serveOptions) storedFlags() flags.Table {
	return flags.List(
		flags.Int("call-memory", &o.callMemory, servedCalls, 0, 1<<20,
			"remember the reasoning before `N` tool calls, in memory, for the next turn (0: none)"),
		flags.Time("call-memory-age", &o.callMemoryAge, callAge, time.Second, flags.Forever,
			"`TIME` for which it is remembered"))
}

func (o *serveOptions) limitFlags() flags.Table {
	return flags.List(
		flags.Size("max-body", &o.server.MaxBody, 32<<20, 1, "maximum size of a request's body in `BYTES`"),
		flags.Size("max-tokenize", &o.server.MaxTokenize, 4<<20, 1, "maximum size of the body of /tokenize in `BYTES`"),
		flags.Int("max-values", &o.server.MaxValues, wire.DefaultValues, 1, 100_000_000,
			"maximum number `N` of values in a body"),
		flags.Int("max-nesting", &o.server.MaxDepth, wire.DefaultDepth, 1, 10_000,
			"lists and objects in a body are nested up to `N` levels deep"),
		flags.Size("request-memory", &o.server.RequestMemory, 0, leastRequestMemory, "maximum memory of requests in "+
			"`BYTES`, without the models (0: half of what is available, at most 64 times --max-body)"),
		flags.Int("max-connections", &o.server.MaxConnections, 0, 0, 1<<20,
			"up to `N` connections are open at once (0: what the limit of open files allows, at most 4096)"),
		flags.Int("max-peer-connections", &o.server.MaxPeerConnections, 0, 0, 1<<20,
			"up to `N` of them come from one address (0: a quarter); this machine may have all"))
}

// leastRequestMemory is the memory in bytes that a server needs to answer any request.
const leastRequestMemory = 16 << 20

// mostParallel is the largest --parallel. Engines on this machine take fewer, hereParallel.
const (
	mostParallel = 16_384
	hereParallel = 64
)

// checkParallel refuses more requests at once than an engine on this machine takes, if a model is not at an address.
func (o *serveOptions) checkParallel(list []served) error {
	for _, s := range list {
		if o.runner.Parallel > hereParallel && s.Source != models.Address {
			return Usage("--parallel %d is more than %d, the most for a model on this machine", o.runner.Parallel, hereParallel).
				Hint("lower it, or serve models at addresses in a process of their own")
		}
	}
	return nil
}

// checkMemory refuses a --memory that is less than the weights of a model, which could never be loaded.
func (o *serveOptions) checkMemory(list []served) error {
	largest := slices.MaxFunc(list, func(a, b served) int { return cmp.Compare(a.Files.Bytes(), b.Files.Bytes()) })
	if size := largest.Files.Bytes(); o.pool.Memory > 0 && size > o.pool.Memory {
		return Usage("--memory allows %s, and the weights of %s take %s", render.Size(o.pool.Memory), largest.name,
			render.Size(size)).Hint("use --memory %d or more, or leave out the model", size)
	}
	return nil
}

// validate refuses invalid values and flags that do not go together.
func (o *serveOptions) validate(cmd *cobra.Command) error {
	if err := checkModelFlags(&o.model); err != nil {
		return err
	}
	if err := o.Defaults.Sampling.Validate(math.MaxInt32); err != nil {
		return Usage("%v", err).From(err).Hint("%s", See(cmd))
	}
	if o.pool.KeepAlive == 0 { // the pool's default
		return Usage("--keep-alive cannot be 0").Hint("use a time, as in 1s, or a negative one, which means never")
	}
	o.parallelGiven = cmd.Flags().Changed("parallel")
	if o.key == "" && cmd.Flags().Changed("api-key") {
		return Usage("--api-key is empty").Hint("give a key, or leave out the flag to serve only this machine")
	}
	return o.validateNames()
}

// validateNames refuses invalid hosts and origins.
func (o *serveOptions) validateNames() error {
	if h := o.host; strings.HasPrefix(h, "[") && strings.HasSuffix(h, "]") {
		o.host = h[1 : len(h)-1] // brackets, as in a URL
	}
	for _, host := range o.server.Hosts {
		if !server.IsHostName(host) {
			return Usage("--allow-host cannot be %q", host).Hint("use only a name, as in runner.example.org")
		}
	}
	for _, origin := range o.server.Origins {
		if origin != "*" && !strings.Contains(origin, "://") {
			return Usage("--cors-origin cannot be %q", origin).Hint("use a scheme and a host, as in https://example.org")
		}
	}
	return nil
}

// network parses an address or a network.
func network(name string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(name); err == nil {
		a = a.Unmap().WithZone("")
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(name)
	if err != nil {
		err = errors.New("use an address or a network, as in 10.0.0.7 or 10.0.0.0/24")
	}
	return p, err
}
