package room

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"runner/cmd/runner/cli"
	"runner/cmd/runner/flags"
	"runner/server/mew"
	"runner/server/mew/envelope"
)

func tokenCommand(a *cli.App) *cobra.Command {
	kinds := []string{envelope.Chat}
	var patterns string
	return cli.Command(&cobra.Command{
		Use:   "token FILE ID",
		Short: "Make a participant's token, add it to FILE and print it",
		Long: `Make a token for the participant ID of a space that runner serve --mew serves, and add it to FILE. A FILE that
does not exist is created. The token is printed only now, because FILE holds only its hash.

--allow lists the kinds of messages that the participant may send; * stands for any text. --capabilities does the same
and can also look at payloads. A model needs --allow agent: chat, reasoning/start, reasoning/thought,
reasoning/conclusion, mcp/request and mcp/response. With reasoning/cancel a participant may stop anybody's
reasoning. It may always stop the reasoning that answers its own message.`,
		Example: `  runner mew token tokens.json alice --allow chat,reasoning/thought
  runner mew token tokens.json helper --allow agent
  runner mew token tokens.json reader \
    --capabilities '[{"kind": "mcp/request",
      "payload": {"params": {"name": "read_*"}}}]'`,
		Args: cli.FileAndID,
		RunE: func(cmd *cobra.Command, args []string) error {
			capabilities, err := capabilitiesOf(kinds, patterns)
			if err != nil {
				return cli.Usage("%v", err).From(err).Hint("%s", cli.See(cmd))
			}
			token, err := mew.AddToken(args[0], args[1], capabilities)
			if err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout(), token)
			a.Note(fmt.Sprintf("added %s to %s; the token is shown only once", args[1], args[0]))
			return nil
		},
	}, flags.Words("allow", &kinds, "`KINDS` of messages that it may send, or agent"),
		flags.Text("capabilities", &patterns, "`JSON` list of capabilities, in place of --allow"))
}

// capabilitiesOf reads patterns, or makes capabilities from kinds if there are no patterns.
func capabilitiesOf(kinds []string, patterns string) (envelope.Capabilities, error) {
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
