package cli

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"runner/backend"
	"runner/cmd/runner/settings"
)

// choiceError lists the values that a flag allows.
type choiceError struct{ names []string }

func (e *choiceError) Error() string { return "use " + alternatives(e.names) }

// alternatives lists names as "a, b or c".
func alternatives(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// choiceFlag is a flag with a fixed set of values.
type choiceFlag[T comparable] struct {
	target *T
	names  []string
	values []T
	// old has earlier names of values. They still work, but nothing shows them.
	old map[string]T
}

func (c *choiceFlag[T]) Set(name string) error {
	i := slices.Index(c.names, name)
	if value, ok := c.old[name]; ok {
		*c.target = value
		return nil
	}
	if i < 0 {
		return &choiceError{c.names}
	}
	*c.target = c.values[i]
	return nil
}

func (c *choiceFlag[T]) String() string {
	if i := slices.Index(c.values, *c.target); i >= 0 {
		return c.names[i]
	}
	return ""
}

func (c *choiceFlag[T]) Type() string { return strings.Join(c.names, "|") }

// addChoice adds a flag with named values. Each of names stands for the value at the same index.
func addChoice[T comparable](cmd *cobra.Command, target *T, flag, usage string, names []string, values []T) {
	addChoiceP(cmd, target, flag, "", usage, names, values)
}

// addChoiceP is addChoice for a flag with a short form.
func addChoiceP[T comparable](cmd *cobra.Command, target *T, flag, short, usage string, names []string, values []T) {
	cmd.Flags().VarP(&choiceFlag[T]{target: target, names: names, values: values}, flag, short, usage)
	must(cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)))
}

// rename has a flag accept an earlier name of a value.
func rename[T comparable](cmd *cobra.Command, flag, old string, value T) {
	c := cmd.Flags().Lookup(flag).Value.(*choiceFlag[T])
	c.old = map[string]T{old: value}
}

// addNameChoice adds a flag whose values are strings that name themselves.
func addNameChoice[T ~string](cmd *cobra.Command, target *T, flag, usage string, values ...T) {
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = string(v)
	}
	addChoice(cmd, target, flag, usage, names, values)
}

// addJSON adds a flag that makes a command write JSON for programs. It is no setting: the setting json means the form
// of a model's answer.
func addJSON(cmd *cobra.Command, on *bool, usage string) {
	cmd.Flags().BoolVar(on, "json", false, usage)
	settings.Never(cmd, "json")
}

// number is the value of a flag and its allowed range.
type number struct {
	flag               string
	value, least, most int
}

// checkNumbers refuses the first number that is out of its range.
func checkNumbers(list []number) error {
	for _, n := range list {
		if n.value >= n.least && n.value <= n.most {
			continue
		}
		hint := fmt.Sprintf("use %d to %d", n.least, n.most)
		if n.value < n.least && n.most >= math.MaxInt32 {
			hint = fmt.Sprintf("use %d or more", n.least)
		}
		return &usageError{what: fmt.Sprintf("--%s cannot be %d", n.flag, n.value), hint: hint}
	}
	return nil
}

// must panics on an error, which is a mistake in the command tree itself.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// biases is the flag --logit-bias TOKEN=BIAS.
type biases struct{ target *[]backend.TokenBias }

func (b biases) Set(text string) error {
	id, bias, ok := strings.Cut(text, "=")
	token, err1 := strconv.ParseInt(id, 10, 32)
	value, err2 := strconv.ParseFloat(bias, 32)
	if !ok || err1 != nil || err2 != nil || token < 0 {
		return fmt.Errorf("use TOKEN=BIAS with a token's id and a number, as in 42=-100")
	}
	*b.target = append(*b.target, backend.TokenBias{Token: backend.Token(token), Bias: float32(value)})
	return nil
}

func (b biases) String() string { return strings.Join(b.GetSlice(), " ") }
func (b biases) Type() string   { return "TOKEN=BIAS" }

// Append, Replace and GetSlice are those of a flag that can be repeated.
func (b biases) Append(text string) error { return b.Set(text) }

func (b biases) Replace(list []string) error {
	*b.target = nil
	for _, text := range list {
		if err := b.Set(text); err != nil {
			return err
		}
	}
	return nil
}

func (b biases) GetSlice() []string {
	var list []string
	for _, x := range *b.target {
		list = append(list, fmt.Sprintf("%d=%g", x.Token, x.Bias))
	}
	return list
}
