package settings

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"runner/cmd/runner/flags"
	"runner/hint"
)

// Check refuses the first key of the file that is not the name of a flag, or of a command with a table. near returns
// the name that is most like another one, or "".
func (s *Settings) Check(root *cobra.Command, near func(typed string, names []string) string) error {
	return s.check(root, nil, s.keys, near)
}

func (s *Settings) check(cmd *cobra.Command, path []string, table map[string]any,
	near func(typed string, names []string) string) error {
	own, commands := known(cmd)
	for _, key := range slices.Sorted(maps.Keys(table)) {
		inner, isTable := table[key].(map[string]any)
		at := append(slices.Clone(path), key)
		switch {
		case isTable && commands[key] != nil:
			if err := s.check(commands[key], at, inner, near); err != nil {
				return err
			}
			continue
		case !isTable && own[key] != nil:
			if err := s.checkValue(own[key], at, table[key]); err != nil {
				return err
			}
			continue
		}
		what, names := "setting", slices.Sorted(maps.Keys(own))
		if isTable {
			what, names = "command", slices.Sorted(maps.Keys(commands))
		}
		advice := "see " + cmd.CommandPath() + " --help"
		if n := near(key, names); n != "" {
			advice = "did you mean " + strings.Join(append(path[:len(path):len(path)], n), ".") + "?"
		}
		return mistake(s.file, fmt.Sprintf("there is no %s %q", what, strings.Join(at, ".")), hint.Advice(advice))
	}
	return nil
}

// checkValue refuses a value that no flag takes.
func (s *Settings) checkValue(f *pflag.Flag, at []string, value any) error {
	_, repeated := f.Value.(pflag.SliceValue)
	list, isList := value.([]any)
	if !isList {
		list = []any{value}
	}
	name := strings.Join(at, ".")
	if isList && !repeated {
		return mistake(s.file, name+" takes one value, not a list", "")
	}
	for _, v := range list {
		switch v.(type) {
		case string, int64, float64, bool:
		default:
			return mistake(s.file, name+" has a value of the wrong kind", "give a text, a number, true or false")
		}
	}
	return nil
}

// known returns the settings of cmd and of the commands in it, and these commands.
func known(cmd *cobra.Command) (own map[string]*pflag.Flag, commands map[string]*cobra.Command) {
	own, commands = map[string]*pflag.Flag{}, map[string]*cobra.Command{}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if flags.IsSetting(f) {
			own[f.Name] = f
		}
	})
	for _, sub := range cmd.Commands() {
		if sub.Hidden {
			continue
		}
		commands[sub.Name()] = sub
		inner, _ := known(sub)
		maps.Copy(inner, own)
		own = inner
	}
	return own, commands
}

// Misspelled returns the environment variables that are no settings of root and its commands, and that differ from one
// in a letter or two, with that one. All else may be another program's.
func (s *Settings) Misspelled(root *cobra.Command, distance func(a, b string) int) map[string]string {
	names := map[string]bool{}
	var look func(cmd *cobra.Command)
	look = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if flags.IsSetting(f) {
				names[flags.VariableOf(f)] = true
			}
		})
		for _, sub := range cmd.Commands() {
			look(sub)
		}
	}
	look(root)
	found := map[string]string{}
	for given := range s.env {
		best := min(2, len(strings.TrimPrefix(given, flags.VariablePrefix))/4) + 1
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if d := distance(given, name); d < best && !names[given] {
				best, found[given] = d, name
			}
		}
	}
	return found
}

// Value is the value of a flag that is in effect.
type Value struct {
	// Command is the command of the flag, without the program's name.
	Command string `json:"command"`
	Name    string `json:"name"`
	// Value is the value as text, or a placeholder for a secret.
	Value string `json:"value"`
	// From is the variable, or the file and the key, or "default".
	From string `json:"from"`
}

// InEffect applies the settings to cmd and lists its flags.
func (s *Settings) InEffect(cmd *cobra.Command) ([]Value, error) {
	from, err := s.Apply(cmd)
	if err != nil {
		return nil, err
	}
	var list []Value
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !flags.IsSetting(f) {
			return
		}
		v := Value{Command: strings.Join(pathOf(cmd), " "), Name: f.Name, Value: f.Value.String(), From: "default"}
		if many, ok := f.Value.(pflag.SliceValue); ok {
			v.Value = strings.Join(many.GetSlice(), ", ")
		}
		v.Value = shown(f, v.Value)
		if where := from[f.Name]; where != "" {
			v.From = where
		}
		list = append(list, v)
	})
	return list, nil
}
