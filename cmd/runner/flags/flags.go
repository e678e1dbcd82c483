// Package flags is the table of a command's flags. A row is all that is known about a flag: its value, with the default
// and what it may be; its description; where the help shows it; which other flags it needs or excludes; and how a
// config file and the environment may set it.
//
//	flags.Add(cmd,
//		flags.Topic("Address",
//			flags.Text("host", &o.host, "`ADDRESS` to listen on", flags.Usual("127.0.0.1"), flags.Common),
//			flags.Int("port", &o.port, 8080, 0, math.MaxUint16, "`PORT` to listen on", flags.Common)),
//		flags.Switch("log-content", &o.logContent, "log prompts too"))
//
// A value is checked when it is set, wherever it comes from. The error of a value is what to use instead, as in "use 0
// to 65535". [Check] checks what the flags of a command need and exclude.
//
// Package flags does not read config files and does not print help.
package flags

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"runner/hint"
)

// Table is a flag, or a list of tables.
type Table struct {
	name, short, usage string
	value              pflag.Value
	marks              map[string][]string
	// completions are the values that a shell offers.
	completions []string

	// rows are those of a list, whose value is nil, and topic is the topic of those that have none.
	rows  []Table
	topic string
}

// Keys of the annotations of flags.
const (
	topicKey       = "topic"
	commonKey      = "common"
	secretKey      = "secret"
	variableKey    = "variable"
	commandLineKey = "command line"
	oneOfKey       = "one of"
	togetherKey    = "together"
	needsKey       = "needs"
)

// Mark says something more about a flag.
type Mark func(t *Table)

func annotation(key string, values ...string) Mark {
	return func(t *Table) { t.marks[key] = append(t.marks[key], values...) }
}

var (
	// Common marks a flag that --help shows. The other flags of its command are shown by --help-all.
	Common = annotation(commonKey, "true")
	// Secret marks a flag whose value is not shown.
	Secret = annotation(secretKey, "true")
	// CommandLine marks a flag that only the command line can set.
	CommandLine = annotation(commandLineKey, "true")
)

// Short gives a flag a name of one letter.
func Short(letter string) Mark { return func(t *Table) { t.short = letter } }

// Variable gives a flag the environment variable called name in place of its own.
func Variable(name string) Mark { return annotation(variableKey, name) }

// Needs says that a flag has an effect only with one of the flags called names.
func Needs(names ...string) Mark { return annotation(needsKey, strings.Join(names, " ")) }

// Completions are the values that a shell offers for a flag.
func Completions(values ...string) Mark { return func(t *Table) { t.completions = values } }

// List joins tables.
func List(rows ...Table) Table { return Table{rows: rows} }

// Topic joins tables that the help shows together.
func Topic(name string, rows ...Table) Table { return Table{rows: rows, topic: name} }

// OneOf joins flags that exclude each other. One that is given in a place of higher precedence wins, and those of lower
// precedence are ignored.
func OneOf(rows ...Table) Table { return related(oneOfKey, rows) }

// Together joins flags of which a command takes all or none.
func Together(rows ...Table) Table { return related(togetherKey, rows) }

func related(key string, rows []Table) Table {
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = r.name
	}
	return List(rows...).With(annotation(key, strings.Join(names, " ")))
}

// With marks all flags of a table.
func (t Table) With(marks ...Mark) Table {
	if t.value == nil {
		t.rows = slices.Clone(t.rows)
		for i := range t.rows {
			t.rows[i] = t.rows[i].With(marks...)
		}
		return t
	}
	t.marks = maps.Clone(t.marks)
	if t.marks == nil {
		t.marks = map[string][]string{}
	}
	for _, mark := range marks {
		mark(&t)
	}
	return t
}

// Showing marks flags of a table as [Common] in this command.
func (t Table) Showing(names ...string) Table {
	return t.With(func(t *Table) {
		if slices.Contains(names, t.name) {
			Common(t)
		}
	})
}

// AllFlag is the flag that shows all flags. Commands have it where only some are [Common].
const AllFlag = "help-all"

// Add adds flags to a command, in the order of the help.
func Add(cmd *cobra.Command, rows ...Table) {
	cmd.Flags().SortFlags = false
	List(rows...).add(cmd, "")
	common := false
	cmd.Flags().VisitAll(func(f *pflag.Flag) { common = common || IsCommon(f) })
	if !common || cmd.Flags().Lookup(AllFlag) != nil {
		return
	}
	all := false
	Switch(AllFlag, &all, "show all flags, by topic", Common, CommandLine).add(cmd, "")
	check := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		switch {
		case all:
			return pflag.ErrHelp
		case check == nil:
			return nil
		}
		return check(cmd, args)
	}
}

func (t Table) add(cmd *cobra.Command, topic string) {
	if t.value == nil {
		if t.topic != "" {
			topic = t.topic
		}
		for _, r := range t.rows {
			r.add(cmd, topic)
		}
		return
	}
	f := cmd.Flags().VarPF(t.value, t.name, t.short, t.usage)
	f.Annotations = t.marks
	if topic != "" {
		f.Annotations[topicKey] = []string{topic}
	}
	if t.value.Type() == switchType {
		f.NoOptDefVal = "true"
	}
	if t.completions != nil {
		err := cmd.RegisterFlagCompletionFunc(t.name,
			cobra.FixedCompletions(t.completions, cobra.ShellCompDirectiveNoFileComp))
		if err != nil {
			panic(err) // a mistake in the command tree
		}
	}
}

func marked(f *pflag.Flag, key string) string {
	if values := f.Annotations[key]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// TopicOf returns the topic of a flag, or "" if it has none.
func TopicOf(f *pflag.Flag) string { return marked(f, topicKey) }

// IsCommon reports whether --help shows a flag.
func IsCommon(f *pflag.Flag) bool { return marked(f, commonKey) != "" }

// IsSecret reports whether the value of a flag is not shown.
func IsSecret(f *pflag.Flag) bool { return marked(f, secretKey) != "" }

// IsSetting reports whether a file or a variable can set a flag.
func IsSetting(f *pflag.Flag) bool {
	return !f.Hidden && f.Name != "help" && marked(f, commandLineKey) == ""
}

// VariablePrefix begins the names of all variables.
const VariablePrefix = "RUNNER_"

// VariableOf returns the name of a flag's environment variable.
func VariableOf(f *pflag.Flag) string {
	if own := marked(f, variableKey); own != "" {
		return own
	}
	return VariablePrefix + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
}

// Excluding returns the names of the flags that exclude f.
func Excluding(f *pflag.Flag) []string {
	return slices.DeleteFunc(namesIn(f, oneOfKey), func(name string) bool { return name == f.Name })
}

func namesIn(f *pflag.Flag, key string) []string {
	return strings.Fields(strings.Join(f.Annotations[key], " "))
}

// ErrUsage is in the errors about mistakes in the command line, the environment and the config file.
var ErrUsage = errors.New("this cannot be used in this way")

// Check refuses flags of cmd that exclude each other or lack a flag that they need. A flag with its default counts as
// not given.
func Check(cmd *cobra.Command) error {
	given := func(name string) bool {
		f := cmd.Flags().Lookup(name)
		return f != nil && f.Changed && f.Value.String() != f.DefValue
	}
	var failed error
	fail := func(what string, advice hint.Advice) {
		failed = &hint.Error{Text: what, Advice: advice, Err: ErrUsage}
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if failed != nil || !given(f.Name) {
			return
		}
		if i := slices.IndexFunc(Excluding(f), given); i >= 0 {
			fail(fmt.Sprintf("--%s and --%s exclude each other", f.Name, Excluding(f)[i]), "give one of them")
		}
		for _, name := range namesIn(f, togetherKey) {
			if !given(name) {
				fail("--"+strings.Join(namesIn(f, togetherKey), " and --")+" belong together", "give both")
			}
		}
		if needed := namesIn(f, needsKey); len(needed) > 0 && !slices.ContainsFunc(needed, given) {
			for i := range needed {
				needed[i] = "--" + needed[i]
			}
			fail(fmt.Sprintf("--%s needs %s", f.Name, Alternatives(needed)), "add one, or leave it out")
		}
	})
	return failed
}
