package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"runner/grammar"
)

// formOptions are the flags that say what form an answer has to have.
type formOptions struct {
	schema, regex, grammar, choice string
	json                           bool
}

// formFlags are their names.
var formFlags = []string{"schema", "json", "regex", "grammar", "choice"}

func (o *formOptions) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.schema, "schema", "", "hold the answer to a JSON Schema, `FILE` or the JSON itself")
	f.BoolVar(&o.json, "json", false, "hold the answer to a JSON object")
	f.StringVar(&o.regex, "regex", "", "hold the answer to a regular expression, `PATTERN`")
	f.StringVar(&o.grammar, "grammar", "", "hold the answer to a grammar in GBNF, `FILE`")
	f.StringVar(&o.choice, "choice", "", "hold the answer to one of `A,B,C`; a backslash keeps a comma")
	cmd.MarkFlagsMutuallyExclusive(formFlags...)
}

// source reads the form that was asked for; zero where none was. It refuses what cannot be honoured before a model is loaded.
func (a *app) source(ctx context.Context, cmd *cobra.Command, o *formOptions) (form grammar.Source, err error) {
	flag := ""
	for _, name := range formFlags {
		if cmd.Flags().Changed(name) {
			flag = "--" + name
		}
	}
	switch flag {
	case "":
		return form, nil
	case "--schema":
		text, err := a.readSchema(o.schema)
		if err != nil {
			return form, err
		}
		form = grammar.JSONSchema([]byte(text))
	case "--json":
		if !o.json {
			return form, nil
		}
		form = grammar.AnyObject()
	case "--regex":
		if o.regex == "" {
			return form, &usageError{what: "--regex is empty", hint: "give the pattern that the whole answer has to match"}
		}
		form = grammar.Regex(o.regex)
	case "--grammar":
		text, err := a.readFile(flag, o.grammar)
		if err != nil {
			return form, err
		}
		form = grammar.GBNF(text)
	case "--choice":
		form = grammar.Choices(grammar.ParseChoices(o.choice)...)
	}
	if err := grammar.Check(ctx, form); err != nil {
		return form, formError(flag, err)
	}
	return form, nil
}

// readSchema reads a schema that was given as a file, - for standard input, or as JSON.
func (a *app) readSchema(value string) (string, error) {
	if text := strings.TrimSpace(value); strings.HasPrefix(text, "{") || json.Valid([]byte(text)) {
		return text, nil
	}
	if value == "" {
		return "", &usageError{what: "the schema is empty", hint: "give a file, or the schema itself"}
	}
	return a.readFile("--schema", value)
}

// formError is what a user is told about a form that cannot be honoured.
func formError(where string, err error) error {
	hint := ""
	if h, ok := err.(interface{ Hint() string }); ok {
		hint = h.Hint()
	}
	return &inputError{what: fmt.Sprintf("%s: %v", where, err), hint: hint, err: err}
}
