package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"runner/generation"
	"runner/reasoning"
	"runner/runner"
	"runner/server"
	"runner/server/mew"
	"runner/server/mew/envelope"
	"runner/server/mew/participant"
	"runner/server/mew/space"
	"runner/server/wire"
)

// mewTokenVariable is the environment variable for a participant's token, which keeps it off the command line.
const mewTokenVariable = "RUNNER_MEW_TOKEN"

// mewServeOptions are the flags of serve for its MEW space.
type mewServeOptions struct {
	on            bool
	tokens, space string
	visibility    reasoning.Visibility
	// rationale makes the model give reasons for its calls in the space. trace keeps a trace of each of its runs.
	rationale, trace bool
	// rate and thoughts are the maximum numbers of messages and thoughts a second.
	rate, thoughts int
	// connections is the maximum number of connections of each participant.
	connections int
	// participants is set by load, from the file tokens.
	participants *mew.Tokens
}

func (o *mewServeOptions) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.on, "mew", false, "serve a MEW space, in which the first model takes part; see runner mew")
	f.StringVar(&o.tokens, "mew-tokens", "", "`FILE` of the participants' tokens; see runner mew token")
	f.StringVar(&o.space, "mew-space", "local", "`NAME` of the space")
	addChoice(cmd, &o.visibility, "mew-reasoning", "how much of its reasoning the model tells the space", visibilityNames,
		visibilities)
	f.BoolVar(&o.rationale, "rationale", false, "with --mew: have the model give its reason for each call in the space")
	f.BoolVar(&o.trace, "trace", false, "with --mew: keep a trace of each of its runs in the space; see runner keys")
	f.IntVar(&o.rate, "mew-rate", 20, "most messages a second of each participant, `N`, and five times as many at once")
	f.IntVar(&o.connections, "mew-connections", 4, "`N` connections of each participant may be open at once")
	addThoughts(cmd, &o.thoughts, "mew-thoughts")
}

// addThoughts adds the flag that limits how many thoughts a model sends.
func addThoughts(cmd *cobra.Command, n *int, flag string) {
	cmd.Flags().IntVar(n, flag, 5, "most thoughts a second that the model tells, `N`, and four times as many at "+
		"once; what is left out is counted")
}

// validate refuses flags that do not go together.
func (o *mewServeOptions) validate(cmd *cobra.Command) error {
	if o.on && o.tokens == "" {
		return &usageError{what: "--mew needs --mew-tokens", hint: "make the file with runner mew token FILE ID"}
	}
	if err := checkNumbers([]number{
		{"mew-rate", o.rate, 1, 100_000}, {"mew-connections", o.connections, 1, 100_000},
		{"mew-thoughts", o.thoughts, 1, 100_000},
	}); err != nil {
		return err
	}
	for _, flag := range []string{
		"mew-tokens", "mew-space", "mew-reasoning", "rationale", "trace", "mew-rate", "mew-connections", "mew-thoughts",
	} {
		if !o.on && cmd.Flags().Changed(flag) {
			return &usageError{what: "--" + flag + " is for --mew", hint: "add --mew"}
		}
	}
	if o.space == "" {
		return &usageError{what: "--mew-space is empty", hint: "give the space a name"}
	}
	return nil
}

// load reads the file of tokens if a space is served.
func (o *mewServeOptions) load() (err error) {
	if o.on {
		o.participants, err = mew.LoadTokens(o.tokens)
	}
	return err
}

// mountMEW adds the MEW space to a server if --mew is set. Its traces are stored in kept.
func mountMEW(s *server.Server, o *serveOptions, kept *keptTraces, log *slog.Logger) {
	if o.mew.on {
		req := o.defaults
		req.Visibility, req.Rationale = o.mew.visibility, o.mew.rationale
		s.Mount(mew.New(s, mew.Config{
			Traces: kept.recorder(o.mew.trace),
			Tokens: o.mew.participants, Space: o.mew.space, Request: req, Thoughts: float64(o.mew.thoughts), Logger: log,
			Connections: o.mew.connections,
			Limits:      space.Config{Rate: float64(o.mew.rate), Burst: 5 * float64(o.mew.rate)},
		}))
	}
}

// mewOptions are the flags of mew.
type mewOptions struct {
	runOptions
	address  participant.Address
	noTools  bool
	thoughts int
}

func (a *app) mewCommand() *cobra.Command {
	o := &mewOptions{}
	cmd := &cobra.Command{
		Use:   "mew [MODEL]",
		Short: "Take part in a MEW space with a model",
		Long: `Take part in a MEW space (Multi-Entity Workspace, v0.4) with a model, until interrupted. It answers
chat that names it, or that is for everyone and no reply, and tells as much of its reasoning as
--reasoning says. Who it is and what it may send is for the token to say.

MODEL is as for run. The functions that the model may call are those that other participants offer,
or those of --tools. A connection that is lost is made again.`,
		Example: `  RUNNER_MEW_TOKEN=... runner mew --url ws://127.0.0.1:8080 --space local --reasoning summary
  runner mew token tokens.json alice --allow chat
  runner serve --mew --mew-tokens tokens.json`,
		Args:              atMost(1, "arguments", "name one model"),
		ValidArgsFunction: completeModels,
		RunE:              func(cmd *cobra.Command, args []string) error { return a.mew(cmd, o, args) },
	}
	o.add(cmd)
	cmd.AddCommand(a.mewTokenCommand())
	return cmd
}

func (o *mewOptions) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.address.URL, "url", "", "`URL` of the space's server, ws://, wss://, http:// or https://")
	f.StringVar(&o.address.Token, "token", "", "`TOKEN` of the participant (also: "+mewTokenVariable+")")
	f.StringVar(&o.address.Space, "space", "", "`NAME` of the space (default: the server's)")
	f.StringVar(&o.address.ID, "id", "", "`ID` to join with, for servers that do not know it from the token")
	o.addReasoning(cmd)
	f.BoolVar(&o.request.Rationale, "rationale", false, "have the model give its reason for each call, which costs tokens")
	f.StringVar(&o.delegate, "delegate", "", "have a specialist reason first, whose prompt is in `FILE`")
	addDelegationFlags(cmd, &o.request)
	f.StringVar(&o.system, "system", "", "system prompt, `TEXT` or @FILE")
	f.StringVar(&o.tools, "tools", "", "functions that the model may call in place of those that others offer, a "+
		"JSON `FILE`")
	f.BoolVar(&o.noTools, "no-tools", false, "offer the model no functions")
	f.StringVar(&o.chatTemplate, "chat-template", "", "Jinja chat template `FILE` instead of the model's own")
	f.IntVar(&o.request.MaxTokens, "max-tokens", 0,
		"most `tokens` to generate in a turn, reasoning included (0: what the context holds)")
	addThoughts(cmd, &o.thoughts, "thoughts")
	o.record.add(cmd, "trace", "keep a trace of each run in the space, sealed to who may read it; see runner keys")
	addSamplingFlags(cmd, &o.request.Sampling)
	f.Uint64Var(&o.seed, "seed", 0, "seed `N` of every turn (default: drawn)")
	addModelFlags(cmd, &o.model)
	f.BoolVarP(&o.verbose, "verbose", "v", false, "log more")
}

func (o *mewOptions) validate(cmd *cobra.Command) error {
	if o.address.Token == "" {
		o.address.Token = os.Getenv(mewTokenVariable)
	}
	switch {
	case o.address.URL == "":
		return &usageError{what: "--url is missing",
			hint: "give the address of the space's server, as in ws://127.0.0.1:8080"}
	case o.address.Token == "":
		return &usageError{what: "the token is missing", hint: "give it with " + mewTokenVariable + " or --token"}
	case o.tools != "" && o.noTools:
		return &usageError{what: "--tools and --no-tools exclude each other", hint: "leave one out"}
	}
	if err := o.address.Check(); err != nil {
		return &usageError{what: "--url: " + err.Error(), hint: "give an address as in ws://127.0.0.1:8080", err: err}
	}
	if err := checkNumbers([]number{{"thoughts", o.thoughts, 1, 100_000}}); err != nil {
		return err
	}
	return o.runOptions.validate(cmd)
}

func (a *app) mew(cmd *cobra.Command, o *mewOptions, args []string) (err error) {
	if err := o.validate(cmd); err != nil {
		return err
	}
	name := demoName
	if len(args) > 0 {
		name = args[0]
	}
	model, err := resolve(name)
	if err != nil {
		return err
	}
	rc, err := a.readRequestFiles(&o.runOptions)
	if err != nil {
		return err
	}
	rc.CallMemory = runner.NewCallMemory(ownCalls, callAge)
	if o.exposed() {
		a.complain("warning: --url is not encrypted, so others on the network can read the token and all messages; use " +
			"wss://")
	}
	a.warnReasons(o.request.Rationale, o.record.on, o.request.Visibility, "--reasoning")
	log := a.logger(logText, o.verbose)
	kept, err := a.keepTraces(&o.record, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kept.close()) }()
	ctx, stop := untilStopped(cmd.Context())
	defer stop()
	gen, _, err := a.open(ctx, model, o.model, rc, a.spinner())
	if err != nil {
		return err
	}
	defer gen.Close()
	cfg := participant.Config{
		Generate: gen.Generate, Request: o.request, Tools: o.request.Tools, NoTools: o.noTools,
		Thoughts: float64(o.thoughts), Logger: log,
	}
	if kept != nil {
		cfg.Trace = func(question string) generation.Tracer { return kept.traces.Tracer(wire.Local, "--trace", question) }
	}
	p := participant.New(cfg)
	return p.Run(ctx, func(ctx context.Context) (participant.Conn, error) { return participant.Dial(ctx, o.address) })
}

// warnReasons warns if the reasons that a space's model gives for its calls are neither shown nor kept.
func (a *app) warnReasons(asked, kept bool, v reasoning.Visibility, flag string) {
	if asked && !kept && v != reasoning.VisibilityFull {
		a.complain("warning: --rationale shows reasons to the space only with " + flag + " full, and keeps them only with " +
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

func (a *app) mewTokenCommand() *cobra.Command {
	var kinds []string
	var patterns string
	cmd := &cobra.Command{
		Use:   "token FILE ID",
		Short: "Make a participant's token, add it to FILE and print it",
		Long: `Make a token for the participant ID of a space that runner serve --mew serves, and add it to FILE,
which is made if it is not there. The token is printed this once: FILE holds its hash only.

What the participant may send is said by --allow, as kinds of messages in which * stands for any
text, or by --capabilities, which can look at payloads too. --allow agent is what a model needs:
chat, reasoning/start, reasoning/thought, reasoning/conclusion, mcp/request and mcp/response.
reasoning/cancel is the right to stop anybody's reasoning; who asked may stop the reasoning that
answers without it.`,
		Example: `  runner mew token tokens.json alice --allow chat,reasoning/thought
  runner mew token tokens.json helper --allow agent
  runner mew token tokens.json reader \
    --capabilities '[{"kind": "mcp/request", "payload": {"params": {"name": "read_*"}}}]'`,
		Args: fileAndID,
		RunE: func(cmd *cobra.Command, args []string) error {
			capabilities, err := mewCapabilities(kinds, patterns)
			if err != nil {
				return &usageError{what: err.Error(), hint: see(cmd), err: err}
			}
			token, err := mew.AddToken(args[0], args[1], capabilities)
			if err != nil {
				return err
			}
			fmt.Fprintln(a.out, token)
			a.note(fmt.Sprintf("added %s to %s; the token is shown only once", args[1], args[0]))
			return nil
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringSliceVar(&kinds, "allow", []string{envelope.Chat}, "`KINDS` of messages that it may send, or agent")
	f.StringVar(&patterns, "capabilities", "", "`JSON` list of capabilities, in place of --allow")
	return cmd
}

// mewCapabilities reads patterns, or makes capabilities from kinds if there are no patterns.
func mewCapabilities(kinds []string, patterns string) (envelope.Capabilities, error) {
	if patterns != "" {
		return envelope.ParseCapabilities([]byte(patterns))
	}
	type kind struct {
		Kind string `json:"kind"`
	}
	var list []kind
	for _, k := range kinds {
		if k = strings.TrimSpace(k); k != "agent" {
			list = append(list, kind{k})
			continue
		}
		for _, c := range mew.AgentCapabilities() {
			list = append(list, kind{c.Kind})
		}
	}
	text, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	return envelope.ParseCapabilities(text)
}
