// Package settings gives flags their values from a file and from environment variables.
//
// The flag on the command line wins over the variable, the variable over the file, and in the file the table of a
// command over what stands outside tables. What none of them sets keeps its default. Package settings does not know
// which commands and flags there are. It does not know what a flag means.
//
// The file is TOML. A key is the name of a flag. Outside tables it is for every command that has the flag; a table has
// the keys of one command, as in [serve] or [trace.list]:
//
//	ctx-size = 8192
//
//	[serve]
//	port = 9000
//	alias = ["claude-*=demo"]
//
// The variable of a flag is RUNNER_ and its name in capitals, with _ for -, as in RUNNER_CTX_SIZE. A flag can have
// another one ([flags.Variable]). A variable that is empty does not count. A flag that can be repeated takes one value
// for each line of the variable.
package settings

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"runner/cmd/runner/flags"
	"runner/hint"
)

// MaxFile is the maximum size of the file in bytes.
const MaxFile = 1 << 20

// Settings are the values of a file and of the environment. It is safe for concurrent use.
type Settings struct {
	// file is the path of the file. keys has its content: values of flags, and tables of commands.
	file string
	keys map[string]any
	env  map[string]string
}

// Read reads the file at path, which may be missing, and the variables of environ, a list of NAME=VALUE.
func Read(path string, environ []string) (*Settings, error) {
	s := &Settings{file: path, keys: map[string]any{}, env: map[string]string{}}
	for _, e := range environ {
		if name, value, ok := strings.Cut(e, "="); ok && strings.HasPrefix(name, flags.VariablePrefix) && value != "" {
			s.env[name] = value
		}
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, mistake(path, hint.Reason(err).Error(), "check its permissions")
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	switch {
	case err != nil:
		return nil, mistake(path, hint.Reason(err).Error(), "name a file")
	case len(text) > MaxFile:
		return nil, mistake(path, "is longer than 1 MiB", "a settings file has one line a setting")
	}
	if err := toml.Unmarshal(text, &s.keys); err != nil {
		detail := "is not TOML: " + err.Error()
		if bad := (toml.ParseError{}); errors.As(err, &bad) {
			detail = fmt.Sprintf("line %d: %s", bad.Position.Line, strings.TrimSuffix(bad.Message, "."))
		}
		return nil, mistake(path, detail, "write name = value, with texts in quotes")
	}
	return s, nil
}

// File returns the path of the file.
func (s *Settings) File() string { return s.file }

// mistake is the error of a setting. where is the file, or the variable. advice may be empty.
func mistake(where, detail string, advice hint.Advice) error {
	return &hint.Error{Text: where + ": " + detail, Advice: advice, Err: flags.ErrUsage}
}

// CommandLine is where a value comes from that was typed.
const CommandLine = "command line"

// Apply gives the flags of cmd that are not on the command line their values. It returns where each of them comes from,
// by the flag's name.
func (s *Settings) Apply(cmd *cobra.Command) (map[string]string, error) {
	from := map[string]string{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed {
			from[f.Name] = CommandLine
		}
	})
	var failed error
	for _, look := range s.places(cmd) {
		set := map[string]string{}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			values, where, ok := look(f)
			excluded := func(name string) bool { return from[name] != "" }
			if !ok || failed != nil || !flags.IsSetting(f) || from[f.Name] != "" ||
				slices.ContainsFunc(flags.Excluding(f), excluded) {
				return
			}
			for _, v := range values {
				if err := cmd.Flags().Set(f.Name, v); err != nil && failed == nil {
					failed = mistake(where, fmt.Sprintf("cannot be %q", shown(f, v)), advice(err))
				}
			}
			if list, ok := f.Value.(pflag.SliceValue); ok && len(values) == 0 && failed == nil {
				failed = list.Replace(values) // no value was set, and the default does not count
				f.Changed = true
			}
			set[f.Name] = where
		})
		maps.Copy(from, set) // now, so that the flags of one place can exclude each other
	}
	return from, failed
}

// advice returns what a flag takes in place of a value that it refused.
func advice(err error) hint.Advice {
	if invalid := (*pflag.InvalidValueError)(nil); errors.As(err, &invalid) {
		return hint.Advice(invalid.Unwrap().Error())
	}
	return ""
}

// shown returns a value of a flag, or a placeholder for a secret.
func shown(f *pflag.Flag, value string) string {
	if value != "" && flags.IsSecret(f) {
		return "(hidden)"
	}
	return value
}

// place looks a flag up in one of the places that set flags.
type place func(f *pflag.Flag) (values []string, where string, ok bool)

// places returns the places that set flags of cmd, the first to look in first.
func (s *Settings) places(cmd *cobra.Command) []place {
	list := []place{func(f *pflag.Flag) ([]string, string, bool) {
		value, ok := s.env[flags.VariableOf(f)]
		if _, repeated := f.Value.(pflag.SliceValue); repeated && ok {
			return strings.Split(strings.TrimRight(value, "\n"), "\n"), flags.VariableOf(f), true
		}
		return []string{value}, flags.VariableOf(f), ok
	}}
	path := pathOf(cmd)
	for n := len(path); n >= 0; n-- { // a command's own table before that of the command that holds it
		table, _ := s.table(path[:n])
		list = append(list, func(f *pflag.Flag) ([]string, string, bool) {
			value, ok := table[f.Name]
			if _, isTable := value.(map[string]any); !ok || isTable {
				return nil, "", false
			}
			return texts(value), s.file + ": " + strings.Join(append(slices.Clone(path[:n]), f.Name), "."), true
		})
	}
	return list
}

// pathOf returns the names of a command and of those that hold it, without the program's.
func pathOf(cmd *cobra.Command) []string { return strings.Fields(cmd.CommandPath())[1:] }

// table returns the table of the command with a path.
func (s *Settings) table(path []string) (map[string]any, bool) {
	t := s.keys
	for _, name := range path {
		inner, ok := t[name].(map[string]any)
		if !ok {
			return nil, false
		}
		t = inner
	}
	return t, true
}

// texts returns a value of the file as a flag's values.
func texts(value any) []string {
	list, ok := value.([]any)
	if !ok {
		return []string{fmt.Sprint(value)}
	}
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = fmt.Sprint(v)
	}
	return out
}
