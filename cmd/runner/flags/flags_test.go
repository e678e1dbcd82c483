package flags

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// command returns a command with flags.
func command(rows ...Table) *cobra.Command {
	cmd := &cobra.Command{Use: "c", Run: func(*cobra.Command, []string) {}}
	Add(cmd, rows...)
	return cmd
}

// A value that a flag refuses is answered with what to use, and changes nothing.
func TestRefusedValues(t *testing.T) {
	var n, any, port int
	var seed uint64
	var x float32
	var on bool
	var kind string
	var wait, keep, age time.Duration
	var size, room int64
	var list []int
	var some []string
	cmd := command(Int("n", &n, 7, 0, math.MaxInt, ""), Int("any", &any, 7, -1, math.MaxInt32, ""),
		Int("port", &port, 7, 1, 65535, ""), Seed("seed", &seed, ""), Float("x", &x, 0.5, ""), Switch("on", &on, ""),
		Name("kind", &kind, []string{"a", "b", "c"}, ""), Time("wait", &wait, 7, 0, Forever, ""),
		Time("keep", &keep, time.Minute, time.Second, time.Hour, ""), Age("age", &age, time.Second, ""),
		Size("size", &size, 7, 1, ""), Size("room", &room, 0, 16<<20, ""), Ints("list", &list, []int{7}, 1, 64, ""),
		Some("some", &some, []string{"a", "b"}, ""))
	for text, want := range map[string]string{
		"n=x": "use a whole number", "n=-1": "use 0 or more", "n=99999999999999999999": "the number is out of range",
		"any=-2": "use -1 or more", "any=3000000000": "use -1 to 2147483647", "port=0": "use 1 to 65535",
		"port=99999999999999999999": "use 1 to 65535", "seed=-1": "use a whole number, 0 or more", "x=warm": "use a number",
		"x=1e400": "the number is out of range", "on=maybe": "use true or false", "kind=d": "use a, b or c",
		"wait=soon": "use a time, as in 30s or 5m", "wait=-1s": "use 0s or more, as in 30s", "keep=2h": "use 1s to 1h",
		"age=old": "use an age, as in 30d or 12h", "age=0d": "use an age, as in 30d or 12h",
		"age=-1h": "use an age, as in 30d or 12h", "size=0": "use 1 or more", "room=5": "use 16MiB or more, or 0",
		"room=12XB": "use a number of bytes, as in 64MB or 1.5GiB",
		"room=0.4":  "use a number of bytes, as in 64MB or 1.5GiB", "list=1,65": "use 1 to 64",
		"some=a,z": "use some of a, b",
	} {
		name, value, _ := strings.Cut(text, "=")
		f := cmd.Flags().Lookup(name)
		var refused *pflag.InvalidValueError
		if err := cmd.Flags().Set(name, value); !errors.As(err, &refused) || refused.Unwrap().Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
		if _, list := f.Value.(pflag.SliceValue); !list && f.Value.String() != f.DefValue {
			t.Errorf("%s: it is now %s", text, f.Value)
		}
	}
}

// Values are taken as people write them, and shown so that they mean the same.
func TestTakenValues(t *testing.T) {
	var size int64
	var wait, age time.Duration
	var n int
	cmd := command(Size("size", &size, 0, 0, ""), Time("wait", &wait, 0, -Forever, Forever, ""), Age("age", &age, 0, ""),
		Int("n", &n, 0, math.MinInt, math.MaxInt, ""))
	for text, want := range map[string]string{
		"size=24GB": "24GB", "size=64MiB": "64MiB", "size=67108864": "64MiB", "size=1.5GiB": "1536MiB", "size=1000": "1KB",
		"size=1025": "1025", "size=0": "0", "wait=24h0m0s": "24h", "wait=30m0s": "30m", "wait=1h30m0s": "1h30m",
		"wait=30s": "30s", "wait=10m0s": "10m", "wait=-1s": "-1s", "age=2d": "48h", "age=90m": "1h30m", "n=0x10": "16",
	} {
		name, value, _ := strings.Cut(text, "=")
		f := cmd.Flags().Lookup(name)
		for range 2 { // as it is written, and as it is shown
			if err := f.Value.Set(value); err != nil || f.Value.String() != want {
				t.Errorf("%s is %s, want %s: %v", text, f.Value, want, err)
			}
			value = f.Value.String()
		}
	}
}

// The first value of a list replaces the default. An empty one leaves nothing, which is not the same as no flag.
func TestLists(t *testing.T) {
	for _, c := range []struct{ args, ints, words, texts string }{
		{"", "512", "", ""},
		{"--ints 1,2 --ints 3 --words a,b --texts a,b --texts c", "1,2,3", "a,b", "a,b;c"},
		{"--ints= --words= --texts=", "", "", ""},
	} {
		var ints []int
		var words, texts []string
		cmd := command(Ints("ints", &ints, []int{512}, 0, 1000, ""), Words("words", &words, ""), Texts("texts", &texts, ""))
		if err := cmd.ParseFlags(strings.Fields(c.args)); err != nil {
			t.Fatal(err)
		}
		if got := cmd.Flags().Lookup("ints").Value.String(); got != c.ints || strings.Join(words, ",") != c.words ||
			strings.Join(texts, ";") != c.texts || (words != nil) != (c.args != "") {
			t.Errorf("%q: %s, %q, %q", c.args, got, words, texts)
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !strings.HasSuffix(f.Value.Type(), "Slice") {
				t.Errorf("a shell does not offer --%s again: it is of type %s", f.Name, f.Value.Type())
			}
		})
	}
}

// Flags that exclude, belong to or need each other are checked. One with its default is as if it were not there.
func TestRelations(t *testing.T) {
	for args, want := range map[string]string{
		"": "", "--a 1": "", "--a 1 --b 2": "--a and --b exclude each other", "--a 1 --b=": "",
		"--c --a 1": "--a and --c exclude each other", "--c=false --a 1": "", "--key k --cert c": "",
		"--cert c": "--cert and --key belong together", "--key k": "--cert and --key belong together",
		"--part 2": "--part needs --whole or --a", "--part 2 --whole": "", "--part 2 --a 1": "", "--part 1": "",
	} {
		var a, b, cert, key string
		var c, whole bool
		var part int
		cmd := command(OneOf(Text("a", &a, ""), Text("b", &b, ""), Switch("c", &c, "")),
			Together(Text("cert", &cert, ""), Text("key", &key, "")), Switch("whole", &whole, ""),
			Int("part", &part, 1, 0, 9, "", Needs("whole", "a")))
		if err := cmd.ParseFlags(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := Check(cmd); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", args, got, want)
		}
	}
}

// Marks reach the flags: topics, short names, variables, secrets, and which flags the help shows first.
func TestMarks(t *testing.T) {
	var a, b, c, d string
	cmd := command(Topic("First", Text("a", &a, "", Common, Short("x")), List(Text("b", &b, "", Secret))),
		List(Text("c", &c, "", CommandLine), Text("d", &d, "", Variable("RUNNER_OTHER"))).Showing("d"))
	list := ""
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		list += f.Name + f.Shorthand + " "
		for mark, has := range map[string]bool{"ad" + AllFlag: IsCommon(f), "b": IsSecret(f), "abd": IsSetting(f),
			"ab": TopicOf(f) == "First"} {
			if strings.Contains(mark, f.Name) != has {
				t.Errorf("%s: %v of %s", f.Name, has, mark)
			}
		}
	})
	if list != "ax b c d "+AllFlag+" " {
		t.Errorf("the flags are %s", list)
	}
	if name := VariableOf(cmd.Flags().Lookup("d")); name != "RUNNER_OTHER" {
		t.Error(name)
	}
	cmd.SetArgs([]string{"--" + AllFlag})
	if err := cmd.Args(cmd, nil); err != nil {
		t.Error(err)
	}
	if err := cmd.ParseFlags([]string{"--" + AllFlag}); err != nil || !errors.Is(cmd.Args(cmd, nil), pflag.ErrHelp) {
		t.Errorf("--%s shows no help: %v", AllFlag, err)
	}
}
