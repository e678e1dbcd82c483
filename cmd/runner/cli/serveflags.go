package cli

import (
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"runner/backend"
	"runner/cmd/runner/settings"
	"runner/generation"
	"runner/reasoning"
	"runner/runner"
	"runner/server"
	"runner/server/wire"
)

// serveOptions are the flags of serve.
type serveOptions struct {
	host string
	port int

	// models are those of --model.
	models []string

	isolation isolation
	remote    remoteFlags

	parallel, queue              int
	parallelGiven                bool
	keepAlive                    time.Duration
	memory, maxBody              byteSize
	requestTimeout, drainTimeout time.Duration

	responses, background int
	responsesMemory       byteSize
	responsesAge          time.Duration

	maxTokenize, requestMemory byteSize
	maxValues, maxDepth        int

	connections, peerConnections int
	proxyNames                   []string
	proxies                      []netip.Prefix

	callMemory    int
	callMemoryAge time.Duration

	key, keyFile   string
	modelsWrite    bool
	maxReasoning   reasoning.Visibility
	public         bool
	hosts, origins []string
	aliases        []string
	cert, certKey  string
	sealKeys       string
	sealed         string
	record         recordOptions
	mew            mewServeOptions

	logContent, verbose bool
	logFormat           string

	model        backend.Config
	drafts       runner.Drafts
	defaults     generation.Request
	chatTemplate string
}

// keyVariable is the environment variable for the API key, which keeps it off the command line.
const keyVariable = "RUNNER_API_KEY"

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

func (o *serveOptions) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.SortFlags = false
	topic(cmd, "Address", func() { o.addAddress(cmd) })
	topic(cmd, "Models", func() { o.addModels(cmd) })
	topic(cmd, "Access", func() { o.addAccess(cmd) })
	topic(cmd, "Reasoning", func() { o.addReasoning(cmd) })
	topic(cmd, "Concurrency and time", func() { o.addConcurrency(cmd) })
	topic(cmd, "Stored responses and calls", func() { o.addStored(cmd) })
	topic(cmd, "Limits on requests", func() { o.addLimits(cmd) })
	topic(cmd, "Sampling that requests do not set", func() { addSamplingFlags(cmd, &o.defaults.Sampling) })
	topic(cmd, "Delegation", func() { addDelegationFlags(cmd, &o.defaults) })
	topic(cmd, "Loading models", func() {
		addModelFlags(cmd, &o.model)
		addDrafts(cmd, &o.drafts)
		o.isolation.from = servedFrom
		o.isolation.add(cmd, "auto: models of more than 256 MiB")
	})
	topic(cmd, "Engine at an address", func() { o.remote.add(cmd) })
	topic(cmd, "Traces", func() {
		o.record.add(cmd, "traces", "keep sealed traces of the runs whose requests ask for it (reasoning_encrypt)")
	})
	topic(cmd, "MEW", func() { o.mew.add(cmd) })
	topic(cmd, "Log", func() { o.addLog(cmd) })
	common(cmd, "host", "port", "model", "alias", "api-key", "api-keys", "reasoning", "max-reasoning", "parallel",
		"keep-alive", "memory", "ctx-size", "gpu-layers", "log-format", "verbose")
}

func (o *serveOptions) addAddress(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.host, "host", "127.0.0.1", "`ADDRESS` to listen on; 0.0.0.0 lets other machines reach the server")
	f.IntVar(&o.port, "port", 8080, "`PORT` to listen on (0: any that is free)")
	f.StringVar(&o.cert, "tls-cert", "", "`FILE` of the certificate chain, PEM")
	f.StringVar(&o.certKey, "tls-key", "", "`FILE` of the certificate's key, PEM")
	f.StringArrayVar(&o.hosts, "allow-host", nil,
		"`NAME` by which the server may be called without a key, as in box.local (repeatable)")
	f.StringArrayVar(&o.origins, "cors-origin", nil,
		"`ORIGIN` whose pages may use the server, as in https://example.org; * means every page (repeatable)")
	f.StringArrayVar(&o.proxyNames, "proxy", nil,
		"`ADDRESS` or network of a proxy, which may use all connections (repeatable)")
}

func (o *serveOptions) addModels(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVarP(&o.models, "model", "m", nil, "`MODEL` to serve, like an argument (repeatable)")
	f.StringArrayVar(&o.aliases, "alias", nil,
		"`PATTERN=NAME`: more names for the model NAME, as in 'claude-*=demo' (repeatable)")
	f.DurationVar(&o.keepAlive, "keep-alive", 5*time.Minute,
		"`TIME` after which an idle model is unloaded, if there are several (negative: never)")
	f.Var(&o.memory, "memory", "maximum `BYTES` of weights loaded at once, as in 24GB (0: no limit)")
	addChatTemplate(cmd, &o.chatTemplate, "the models' own")
}

func (o *serveOptions) addAccess(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.key, "api-key", "", "`KEY` that requests must send (also: "+keyVariable+")")
	f.StringVar(&o.keyFile, "api-keys", "", "`FILE` of keys with their permissions; see runner serve apikey")
	f.BoolVar(&o.public, "insecure-public", false, "serve other machines without asking for a key")
	f.BoolVar(&o.modelsWrite, "models-write", false,
		"let clients pull, name and delete models; with --api-keys, name models:write for those who may")
	settings.Secret(cmd, "api-key")
	settings.OneOf(cmd, "api-key", "api-keys")
}

func (o *serveOptions) addReasoning(cmd *cobra.Command) {
	addChoiceP(cmd, &o.defaults.Visibility, "reasoning", "r", "how much reasoning a request gets if it does not say",
		visibilityNames, visibilities)
	o.maxReasoning = reasoning.VisibilityFull
	addChoice(cmd, &o.maxReasoning, "max-reasoning",
		"maximum reasoning that a request may ask for; keys can allow less", visibilityNames, visibilities)
	cmd.Flags().StringVar(&o.sealKeys, "seal-keys", "", sealKeysUsage)
	o.sealed = sealedLenient
	addNameChoice(cmd, &o.sealed, "sealed", "what happens to sealed reasoning that a client sends where it does not "+
		"belong: it is left out with a warning, or the request is refused", sealedLenient, sealedStrict)
}

func (o *serveOptions) addConcurrency(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVar(&o.parallel, "parallel", 4, "answer up to `N` requests at once; they share one cache (without the flag an "+
		"engine at an address gets as many as it computes at a time)")
	f.IntVar(&o.queue, "queue", 64, "up to `N` requests wait; more are refused with status 429")
	f.IntVar(&o.background, "background", 16, "make up to `N` responses in the background at once")
	f.DurationVar(&o.requestTimeout, "request-timeout", 30*time.Minute, "maximum `TIME` for an answer (0: no limit)")
	f.DurationVar(&o.drainTimeout, "drain-timeout", 30*time.Second,
		"`TIME` in which running requests may finish when the server stops")
}

func (o *serveOptions) addStored(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVar(&o.responses, "responses", 1024, "store up to `N` responses for each key, in memory")
	o.responsesMemory = 256 << 20
	f.Var(&o.responsesMemory, "responses-memory", "maximum `BYTES` of stored responses, a quarter of them for one key")
	f.DurationVar(&o.responsesAge, "responses-age", 24*time.Hour, "`TIME` for which a response is stored")
	f.IntVar(&o.callMemory, "call-memory", servedCalls,
		"remember the reasoning before `N` tool calls, in memory, for the next turn (0: none)")
	f.DurationVar(&o.callMemoryAge, "call-memory-age", callAge, "`TIME` for which it is remembered")
}

func (o *serveOptions) addLimits(cmd *cobra.Command) {
	f := cmd.Flags()
	o.maxBody = 32 << 20
	f.Var(&o.maxBody, "max-body", "maximum size of a request's body in `BYTES`")
	o.maxTokenize = 4 << 20
	f.Var(&o.maxTokenize, "max-tokenize", "maximum size of the body of /tokenize in `BYTES`")
	f.IntVar(&o.maxValues, "max-values", wire.DefaultValues, "maximum number `N` of values in a body")
	f.IntVar(&o.maxDepth, "max-nesting", wire.DefaultDepth, "lists and objects in a body are nested up to `N` levels deep")
	f.Var(&o.requestMemory, "request-memory",
		"maximum memory of requests in `BYTES`, without the models (0: half of what is available, at most 64 times "+
			"--max-body)")
	f.IntVar(&o.connections, "max-connections", 0,
		"up to `N` connections are open at once (0: what the limit of open files allows, at most 4096)")
	f.IntVar(&o.peerConnections, "max-peer-connections", 0,
		"up to `N` of them come from one address (0: a quarter); this machine may have all")
}

func (o *serveOptions) addLog(cmd *cobra.Command) {
	f := cmd.Flags()
	o.logFormat = logText
	addNameChoice(cmd, &o.logFormat, "log-format", "form of the log on standard error", logText, logJSON)
	f.BoolVarP(&o.verbose, "verbose", "v", false, "log more")
	f.BoolVar(&o.logContent, "log-content", false, "log prompts, answers and reasoning too; for debugging only")
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
		if o.parallel > hereParallel && !isRemote(s.model.Path) {
			return &usageError{
				what: fmt.Sprintf("--parallel %d is more than %d, the most for a model on this machine", o.parallel, hereParallel),
				hint: "lower it, or serve models at addresses in a process of their own",
			}
		}
	}
	return nil
}

// validate refuses invalid values and flags that do not go together.
func (o *serveOptions) validate(cmd *cobra.Command) error {
	if err := checkNumbers([]number{
		{"port", o.port, 0, math.MaxUint16}, {"parallel", o.parallel, 1, mostParallel}, {"queue", o.queue, 1, 100_000},
		{"responses", o.responses, 1, 1 << 20}, {"call-memory", o.callMemory, 0, 1 << 20},
		{"max-values", o.maxValues, 1, 100_000_000}, {"max-nesting", o.maxDepth, 1, 10_000},
		{"max-connections", o.connections, 0, 1 << 20}, {"max-peer-connections", o.peerConnections, 0, 1 << 20},
		{"background", o.background, 1, 10_000},
	}); err != nil {
		return err
	}
	if err := checkModelFlags(&o.model); err != nil {
		return err
	}
	if err := o.mew.validate(cmd); err != nil {
		return err
	}
	if o.mew.visibility > o.maxReasoning {
		return &usageError{
			what: fmt.Sprintf("--mew-reasoning %s is more than --max-reasoning %s", o.mew.visibility, o.maxReasoning),
			hint: "lower the first or raise the second",
		}
	}
	o.record.space = o.mew.trace
	if err := o.record.validate(cmd); err != nil {
		return err
	}
	if err := o.defaults.Sampling.Validate(math.MaxInt32); err != nil {
		return &usageError{what: err.Error(), hint: see(cmd), err: err}
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{{"request-timeout", o.requestTimeout}, {"drain-timeout", o.drainTimeout}} {
		if d.value < 0 {
			return &usageError{what: fmt.Sprintf("--%s cannot be %s", d.flag, d.value), hint: "use 0 or more, as in 30s"}
		}
	}
	o.parallelGiven = cmd.Flags().Changed("parallel")
	if err := o.validateKeys(cmd); err != nil {
		return err
	}
	if err := o.validateLimits(); err != nil {
		return err
	}
	return o.validateNames()
}

// validateKeys refuses API keys and certificates that do not go together.
func (o *serveOptions) validateKeys(cmd *cobra.Command) error {
	if o.key == "" && cmd.Flags().Changed("api-key") {
		return &usageError{what: "--api-key is empty", hint: "give a key, or leave out the flag to serve only this machine"}
	}
	switch {
	case o.modelsWrite && o.keyFile != "":
		return &usageError{what: "--models-write and --api-keys exclude each other",
			hint: "make keys with runner serve apikey new --permission models,models:write"}
	case o.key != "" && o.keyFile != "":
		return &usageError{what: "--api-key and --api-keys exclude each other", hint: "put the key into the file"}
	case (o.cert == "") != (o.certKey == ""):
		return &usageError{what: "--tls-cert and --tls-key belong together", hint: "give both"}
	}
	return nil
}

// validateLimits refuses sizes and ages that are too small.
func (o *serveOptions) validateLimits() error {
	switch {
	case o.maxBody < 1:
		return &usageError{what: "--max-body cannot be 0", hint: "use 1 or more"}
	case o.maxTokenize < 1:
		return &usageError{what: "--max-tokenize cannot be 0", hint: "use 1 or more"}
	case o.requestMemory != 0 && o.requestMemory < leastRequestMemory:
		return &usageError{what: fmt.Sprintf("--request-memory cannot be %d", o.requestMemory),
			hint: "use 16MiB or more, or 0"}
	case o.responsesMemory < 4:
		return &usageError{what: "--responses-memory cannot be 0",
			hint: "use 4 or more, as in 64MB; requests with store: false are not stored"}
	case o.callMemoryAge <= 0:
		return &usageError{what: fmt.Sprintf("--call-memory-age cannot be %s", o.callMemoryAge),
			hint: "use more than 0, as in 1h; to remember nothing use --call-memory 0"}
	case o.responsesAge <= 0:
		return &usageError{what: fmt.Sprintf("--responses-age cannot be %s", o.responsesAge),
			hint: "use more than 0, as in 24h"}
	}
	return nil
}

// validateNames refuses invalid addresses, hosts and origins, and reads the addresses.
func (o *serveOptions) validateNames() error {
	if h := o.host; strings.HasPrefix(h, "[") && strings.HasSuffix(h, "]") {
		o.host = h[1 : len(h)-1] // brackets, as in a URL
	}
	for _, name := range o.proxyNames {
		p, err := network(name)
		if err != nil {
			return &usageError{what: fmt.Sprintf("--proxy cannot be %q", name),
				hint: "use an address or a network, as in 10.0.0.7 or 10.0.0.0/24"}
		}
		o.proxies = append(o.proxies, p)
	}
	for _, host := range o.hosts {
		if !server.IsHostName(host) {
			return &usageError{what: fmt.Sprintf("--allow-host cannot be %q", host),
				hint: "use only a name, as in runner.example.org"}
		}
	}
	for _, origin := range o.origins {
		if origin != "*" && !strings.Contains(origin, "://") {
			return &usageError{what: fmt.Sprintf("--cors-origin cannot be %q", origin),
				hint: "use a scheme and a host, as in https://example.org"}
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
	return netip.ParsePrefix(name)
}

// share returns the maximum number of background responses of one key; 0 means an equal share. Without a file of keys
// there is only one key, which may use all.
func (o *serveOptions) share() int {
	if o.keyFile == "" {
		return math.MaxInt
	}
	return 0
}

// byteSize is a number of bytes on the command line: 512, 64MB, 1.5GiB.
type byteSize int64

// units are the names of sizes. The single letter comes last, because the other names end in it.
var units = []struct {
	name string
	size float64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9},
	{"TB", 1e12}, {"B", 1}}

func (b *byteSize) Set(text string) error {
	number, unit := strings.TrimSpace(text), 1.0
	for _, u := range units {
		if len(number) > len(u.name) && strings.EqualFold(number[len(number)-len(u.name):], u.name) {
			number, unit = strings.TrimSpace(number[:len(number)-len(u.name)]), u.size
			break
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || n < 0 || n*unit >= math.MaxInt64 || math.IsNaN(n) {
		return fmt.Errorf("use a number of bytes, as in 64MB or 1.5GiB")
	}
	*b = byteSize(n * unit)
	return nil
}

// String returns the shortest spelling that means the same number.
func (b *byteSize) String() string {
	best := strconv.FormatInt(int64(*b), 10)
	for _, u := range units {
		if n := float64(*b) / u.size; n >= 1 && n == math.Trunc(n) {
			if text := strconv.FormatFloat(n, 'f', 0, 64) + u.name; len(text) < len(best) {
				best = text
			}
		}
	}
	return best
}

// Type is what the help calls a value.
func (b *byteSize) Type() string { return "BYTES" }
