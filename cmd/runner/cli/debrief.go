package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"runner/reasoning/decision"
)

func (a *app) debriefCommand() *cobra.Command {
	var asJSON, markdown bool
	cmd := &cobra.Command{
		Use:   "debrief FILE",
		Short: "Tell from a run's trace why it went as it did",
		Long: `Tell from a run's trace what it did, why, what it assumed and what ended it.

FILE is a trace that run --output trace has written, - for standard input. Reasons are in it only where the run was asked for
them (--rationale) and showed its reasoning (--reasoning full); what the model did not state is counted and left open.`,
		Example: `  runner run --tools tools.json --rationale --reasoning full --output trace "What is 17 + 25?" > trace.jsonl
  runner debrief trace.jsonl`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return &usageError{what: "name one trace", hint: see(cmd)}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if asJSON && markdown {
				return &usageError{what: "--json and --markdown exclude each other", hint: "give one of them"}
			}
			text, err := a.readFile("", args[0])
			if err != nil {
				return err
			}
			debriefs, err := decision.Read(strings.NewReader(text))
			if err != nil {
				return err
			}
			return writeDebriefs(cleaned(a.out, a.outTerminal), debriefs, asJSON, markdown)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write one JSON object for each run")
	cmd.Flags().BoolVar(&markdown, "markdown", false, "write Markdown")
	return cmd
}

func writeDebriefs(to io.Writer, debriefs []*decision.Debrief, asJSON, markdown bool) error {
	enc := json.NewEncoder(to)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	for i, d := range debriefs {
		if i > 0 && !asJSON {
			fmt.Fprintln(to)
		}
		write := d.WriteText
		switch {
		case asJSON:
			write = func(io.Writer) error { return enc.Encode(d) }
		case markdown:
			write = d.WriteMarkdown
		}
		if err := write(to); err != nil {
			return err
		}
	}
	return nil
}
