package cli

import (
	"context"
	"errors"
	"math"
	"net"
	"net/url"

	"github.com/spf13/cobra"

	"runner/cmd/runner/flags"
	"runner/generation"
	"runner/reasoning"
	"runner/runner"
	"runner/server/mew/participant"
	"runner/server/wire"
)

// mewTokenVariable is the environment variable for a participant's token, which keeps it off the command line.
const mewTokenVariable = "RUNNER_MEW_TOKEN"

// mewOptions are the flags of mew.
type mewOptions struct {
	runOptions
	address  participant.Address
	noTools  bool
	thoughts int
}

func (a *App) mewCommand() *cobra.Command {
	o := &mewOptions{}
	cmd := Command(&cobra.Command{
		Use:   "mew [MODEL]",
		Short: "Take part in a MEW space with a model",
		Long: `Take part in a MEW space (Multi-Entity Workspace, v0.4) with a model, until interrupted. It answers chat that
names it, and chat for everyone that is not a reply. It sends as much of its reasoning as --reasoning says. The token
decides who it is and what it may send.

MODEL is as for run. The model may call the functions that other participants offer, or those of --tools. If
the connection is lost, it connects again.`,
		Example: `  RUNNER_MEW_TOKEN=... runner mew --url ws://127.0.0.1:8080 -r summary
  runner mew token tokens.json alice --allow chat
  runner serve --mew tokens.json`,
		Args:              AtMost(1, "arguments", "name one model"),
		ValidArgsFunction: CompleteModels,
		RunE:              func(cmd *cobra.Command, args []string) error { return a.mew(cmd, o, args) },
	}, o.flags())
	cmd.AddCommand(a.mewTokenCommand())
	return cmd
}

func (o *mewOptions) flags() flags.Table {
	return flags.List(
		flags.Text("url", &o.address.URL, "", "`URL` of the space's server, ws://, wss://, http:// or https://"),
		flags.Text("token", &o.address.Token, "", "`TOKEN` of the participant", flags.Secret,
			flags.Variable(mewTokenVariable)),
		flags.Text("space", &o.address.Space, "", "`NAME` of the space (default: the server's)"),
		flags.Text("id", &o.address.ID, "", "`ID` to join with, for servers that do not know it from the token"),
		systemFlag(&o.system),
		o.reasoningFlags(),
		flags.OneOf(
			flags.Text("tools", &o.tools, "",
				"functions that the model may call in place of those that others offer, a JSON `FILE`"),
			flags.Switch("no-tools", &o.noTools, "offer the model no functions")),
		rationaleFlag(&o.request.Rationale),
		thoughtsFlag("thoughts", &o.thoughts),
		flags.Int("max-tokens", &o.request.MaxTokens, 0, 0, math.MaxInt,
			"generate at most `N` tokens in a turn, reasoning included (0: what fits into the context)", flags.Short("n")),
		flags.Topic("Delegation", o.delegationFlags()),
		flags.Topic("Sampling", samplingFlags(&o.request.Sampling), flags.Seed("seed", &o.seed,
			"seed `N` of every turn (default: random)", flags.Short("s"))),
		flags.Topic("Loading the model", modelFlags(&o.model), draftsFlag(&o.drafts), o.isolation.flags(),
			templateFlag(&o.chatTemplate)),
		flags.Topic("Traces", o.record.flags("keep a sealed trace of each run in the space", []string{"trace"})),
		flags.Switch("verbose", &o.verbose, "log more", flags.Short("v")),
	).Showing("url", "token", "space", "id", "tools", "no-tools", "max-tokens", "temperature", "seed", "verbose")
}

func (o *mewOptions) validate(cmd *cobra.Command) error {
	switch {
	case o.address.URL == "":
		return Usage("--url is missing").Hint("give the address of the space's server, as in ws://127.0.0.1:8080")
	case o.address.Token == "":
		return Usage("the token is missing").Hint("give it with %s or --token", mewTokenVariable)
	}
	if err := o.address.Check(); err != nil {
		return Usage("--url: %v", err).From(err).Hint("give an address as in ws://127.0.0.1:8080")
	}
	return o.runOptions.validate(cmd)
}

func (a *App) mew(cmd *cobra.Command, o *mewOptions, args []string) (err error) {
	if err := o.validate(cmd); err != nil {
		return err
	}
	name := demoName
	if len(args) > 0 {
		name = args[0]
	}
	if err := a.Isolate(o.isolation); err != nil {
		return err
	}
	model, err := a.resolve(name)
	if err != nil {
		return err
	}
	rc, err := a.readRequestFiles(&o.runOptions)
	if err != nil {
		return err
	}
	rc.CallMemory = runner.NewCallMemory(ownCalls, callAge)
	if o.exposed() {
		a.Complain("warning: --url is not encrypted, so others on the network can read the token and all messages; use " +
			"wss://")
	}
	a.warnReasons(o.request.Rationale, o.record.on, o.request.Visibility, "--reasoning")
	log := a.Logger(logText, o.verbose)
	kept, err := a.keepTraces(&o.record, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kept.close()) }()
	ctx, stop := UntilStopped(cmd.Context())
	defer stop()
	rc.Logger = log
	gen, _, err := a.open(ctx, model, o.model, rc, a.Spinner())
	if err != nil {
		return err
	}
	defer gen.Close()
	cfg := participant.Config{
		Generate: gen.Generate, Request: o.request, Tools: o.request.Tools, NoTools: o.noTools,
		Thoughts: float64(o.thoughts), Logger: log,
	}
	if kept != nil {
		cfg.Observe = func(question string) generation.Observer { return kept.traces.Tracer(wire.Local, "--trace", question) }
	}
	p := participant.New(cfg)
	return p.Run(ctx, func(ctx context.Context) (participant.Conn, error) { return participant.Dial(ctx, o.address) })
}

// warnReasons warns if the reasons that a space's model gives for its calls are neither shown nor kept.
func (a *App) warnReasons(asked, kept bool, v reasoning.Visibility, flag string) {
	if asked && !kept && v != reasoning.VisibilityFull {
		a.Complain("warning: --rationale shows reasons to the space only with " + flag + " full, and keeps them only with " +
			"--trace")
	}
}

// exposed reports whether messages to the space cross a network unencrypted.
func (o *mewOptions) exposed() bool {
	u, err := url.Parse(o.address.URL)
	if err != nil || u.Scheme == "wss" || u.Scheme == "https" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback())
}
