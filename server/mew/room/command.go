package room

import (
	"context"
	"errors"
	"net"
	"net/url"

	"github.com/spf13/cobra"

	"runner/cmd/runner/cli"
	"runner/cmd/runner/flags"
	"runner/server/mew/participant"
)

// tokenVariable is the environment variable for a participant's token, which keeps it off the command line.
const tokenVariable = "RUNNER_MEW_TOKEN"

// command is the command mew.
type command struct {
	app      *cli.App
	session  *cli.Session
	address  participant.Address
	noTools  bool
	thoughts int
}

func commands(a *cli.App) []*cobra.Command {
	c := &command{app: a, session: a.NewSession("keep a sealed trace of each run in the space")}
	cmd := cli.Command(&cobra.Command{
		Use:     "mew [MODEL]",
		GroupID: "serve",
		Short:   "Take part in a MEW space with a model",
		Long: `Take part in a MEW space (Multi-Entity Workspace, v0.4) with a model, until interrupted. It answers chat that
names it, and chat for everyone that is not a reply. It sends as much of its reasoning as --reasoning says. The token
decides who it is and what it may send.

MODEL is as for run. The model may call the functions that other participants offer, or those of --tools. If
the connection is lost, it connects again.`,
		Example: `  RUNNER_MEW_TOKEN=... runner mew --url ws://127.0.0.1:8080 -r summary
  runner mew token tokens.json alice --allow chat
  runner serve --mew tokens.json`,
		Args:              cli.AtMost(1, "arguments", "name one model"),
		ValidArgsFunction: cli.CompleteModels,
		RunE:              c.run,
	}, c.flags())
	cmd.AddCommand(tokenCommand(a))
	return []*cobra.Command{cmd}
}

func (c *command) flags() flags.Table {
	return flags.List(
		flags.Text("url", &c.address.URL, "`URL` of the space's server, ws://, wss://, http:// or https://"),
		flags.Text("token", &c.address.Token, "`TOKEN` of the participant", flags.Secret,
			flags.Variable(tokenVariable)),
		flags.Text("space", &c.address.Space, "`NAME` of the space (default: the server's)"),
		flags.Text("id", &c.address.ID, "`ID` to join with, for servers that do not know it from the token"),
		flags.OneOf(
			c.session.Tools("functions that the model may call in place of those that others offer, a JSON `FILE`"),
			flags.Switch("no-tools", &c.noTools, "offer the model no functions")),
		thoughtsFlag("thoughts", &c.thoughts),
		c.session.Flags(),
	).Showing("url", "token", "space", "id", "tools", "no-tools")
}

func (c *command) check() error {
	switch {
	case c.address.URL == "":
		return cli.Usage("--url is missing").Hint("give the address of the space's server, as in ws://127.0.0.1:8080")
	case c.address.Token == "":
		return cli.Usage("the token is missing").Hint("give it with %s or --token", tokenVariable)
	}
	if err := c.address.Check(); err != nil {
		return cli.Usage("--url: %v", err).From(err).Hint("give an address as in ws://127.0.0.1:8080")
	}
	return nil
}

func (c *command) run(cmd *cobra.Command, args []string) (err error) {
	if err := c.check(); err != nil {
		return err
	}
	if err := c.session.Check(cmd, args); err != nil {
		return err
	}
	if c.exposed() {
		c.app.Complain("warning: --url is not encrypted, so others on the network can read the token and all messages; " +
			"use wss://")
	}
	req := c.session.Request()
	warnReasons(c.app, req.Rationale, c.session.Records(), req.Visibility, "--reasoning")
	ctx, stop := cli.UntilStopped(cmd.Context())
	defer stop()
	if err := c.session.Open(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.session.Close()) }()
	p := participant.New(participant.Config{
		Generate: c.session.Generate, Observe: c.session.Observe, Request: req, Tools: req.Tools, NoTools: c.noTools,
		Thoughts: float64(c.thoughts), Logger: c.session.Logger,
	})
	return p.Run(ctx, func(ctx context.Context) (participant.Conn, error) { return participant.Dial(ctx, c.address) })
}

// exposed reports whether messages to the space cross a network unencrypted.
func (c *command) exposed() bool {
	u, err := url.Parse(c.address.URL)
	if err != nil || u.Scheme == "wss" || u.Scheme == "https" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback())
}
