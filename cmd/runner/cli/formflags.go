package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"runner/cmd/runner/flags"
	"runner/grammar"
)

// formOptions are the flags that set the form of the answer.
type formOptions struct {
	schema, regex, grammar, choice string
	json                           bool
}

// formFlags are the names of these flags.
var formFlags = []string{"schema", "json", "regex", "grammar", "choice"}

func (o *formOptions) flags() flags.Table {
	return flags.OneOf(
		flags.Text("schema", &o.schema, "make the answer match a JSON Schema, `FILE` or the JSON itself", flags.Common),
		flags.Switch("json", &o.json, "make the answer a JSON object", flags.Common),
		flags.Text("regex", &o.regex, "make the answer match a regular expression, `PATTERN`"),
		flags.Text("grammar", &o.grammar, "make the answer match a grammar in GBNF, `FILE`"),
		flags.Text("choice", &o.choice, "make the answer one of `A,B,C`; \\, is a comma in a choice"))
}

// flag returns the flag that asks for a form, or "" if there is none. --json=false asks for none.
func (o *formOptions) flag(cmd *cobra.Command) string {
	for _, name := range formFlags {
		if cmd.Flags().Changed(name) && (name != "json" || o.json) {
			return "--" + name
		}
	}
	return ""
}

// source reads the requested form; the zero value is no form. It refuses an unsupported form before a model is loaded.
func (a *App) source(ctx context.Context, cmd *cobra.Command, o *formOptions) (form grammar.Source, err error) {
	flag := o.flag(cmd)
	where := flag
	switch flag {
	case "":
		return form, nil
	case "--schema":
		return a.Schema(ctx, flag, o.schema)
	case "--json":
		form = grammar.AnyObject()
	case "--regex":
		if o.regex == "" {
			return form, empty(flag, "give the pattern that the whole answer must match")
		}
		form = grammar.Regex(o.regex)
	case "--grammar":
		if o.grammar == "" {
			return form, empty(flag, "give a file")
		}
		text, err := a.ReadFile(flag, o.grammar)
		if err != nil {
			return form, err
		}
		form, where = grammar.GBNF(text), flag+" "+o.grammar
	case "--choice":
		if o.choice == "" {
			return form, empty(flag, "give the allowed answers, separated by commas")
		}
		form = grammar.Choices(grammar.ParseChoices(o.choice)...)
	}
	return checked(ctx, where, form)
}

// Schema reads a JSON Schema that the answer must match: a file, - for standard input, or the schema itself. It refuses
// one that is not supported.
func (a *App) Schema(ctx context.Context, flag, value string) (form grammar.Source, err error) {
	where, text := flag, strings.TrimSpace(value)
	if text == "" {
		return form, empty(flag, "give a file, or the schema itself")
	}
	if !strings.HasPrefix(text, "{") && !json.Valid([]byte(text)) {
		where = strings.TrimSpace(flag + " " + value)
		if text, err = a.ReadFile(flag, value); err != nil {
			return form, err
		}
	}
	return checked(ctx, where, grammar.JSONSchema([]byte(text)))
}

// checked refuses a form that is not supported. where names it.
func checked(ctx context.Context, where string, form grammar.Source) (grammar.Source, error) {
	if err := grammar.Check(ctx, form); err != nil {
		return form, formError(where, err)
	}
	return form, nil
}

// empty returns the error of a flag or an argument with an empty value.
func empty(name, hint string) error {
	return Usage("%s is empty", name).Hint("%s", hint)
}

// formError returns the error of a form that is not supported. where names the form.
func formError(where string, err error) error {
	e := Input("%s: %v", where, err).From(err).Hint("%s", adviceOf(err))
	if c := (*grammar.CompileError)(nil); errors.As(err, &c) {
		e.Text = fmt.Sprintf("%s: %v", where, c.Err)
	}
	return e
}
