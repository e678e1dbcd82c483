package settings

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"runner/cmd/runner/flags"
)

// tree returns a program with the commands a and "a b", which have the same flags.
func tree() (root, a, b *cobra.Command) {
	root = &cobra.Command{Use: "runner"}
	a, b = &cobra.Command{Use: "a", Run: func(*cobra.Command, []string) {}}, &cobra.Command{Use: "b"}
	b.Run = a.Run
	for _, cmd := range []*cobra.Command{a, b} {
		var x, y, text string
		var number int
		var list []string
		flags.Add(cmd, flags.Text("text-one", &text, "", flags.Usual("d"), flags.Common),
			flags.Int("number", &number, 0, math.MinInt, math.MaxInt, ""), flags.Texts("list", &list, ""),
			flags.OneOf(flags.Text("x", &x, ""), flags.Text("y", &y, "", flags.Secret)))
	}
	a.AddCommand(b)
	root.AddCommand(a)
	return root, a, b
}

// value returns the value of a flag.
func value(cmd *cobra.Command, name string) string { return cmd.Flags().Lookup(name).Value.String() }

func write(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The first place that has a value decides: the command line, the variable, the command's table, the table of the
// command that holds it, the rest of the file. All 32 combinations are tried.
func TestPrecedence(t *testing.T) {
	for set := range 32 {
		has := func(i int) bool { return set&(1<<i) != 0 }
		root, _, b := tree()
		want, from := "d", ""
		var file strings.Builder
		var environ, args []string
		if has(4) {
			want, from = "file", "text-one"
			file.WriteString("text-one = 'file'\n")
		}
		file.WriteString("[a]\n")
		if has(3) {
			want, from = "outer", "a.text-one"
			file.WriteString("text-one = 'outer'\n")
		}
		file.WriteString("[a.b]\n")
		if has(2) {
			want, from = "table", "a.b.text-one"
			file.WriteString("text-one = 'table'\n")
		}
		path := write(t, file.String())
		if from != "" {
			from = path + ": " + from
		}
		if has(1) {
			want, from = "variable", "RUNNER_TEXT_ONE"
			environ = append(environ, "RUNNER_TEXT_ONE=variable", "RUNNER_TEXT=other", "TEXT_ONE=other")
		}
		if has(0) {
			want, from = "flag", "command line"
			args = []string{"--text-one", "flag"}
		}
		s, err := Read(path, environ)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Check(root, none); err != nil {
			t.Fatal(err)
		}
		if err := b.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		got, err := s.Apply(b)
		if value := value(b, "text-one"); err != nil || value != want || got["text-one"] != from {
			t.Errorf("%05b: %q from %q, want %q from %q (%v)", set, value, got["text-one"], want, from, err)
		}
	}
}

func none(string, []string) string { return "" }

// Of flags that exclude each other only the one of the highest precedence counts. Two in one place are left for the
// command to refuse.
func TestOneOf(t *testing.T) {
	for _, c := range []struct{ file, environ, args, x, y string }{
		{"x = '1'", "RUNNER_Y=2", "", "", "2"},
		{"x = '1'", "RUNNER_Y=2", "--x=3", "3", ""},
		{"y = '1'", "", "--x=3", "3", ""},
		{"x = '1'\ny = '2'", "", "", "1", "2"},
		{"x = '1'", "RUNNER_Y=", "", "1", ""},
	} {
		_, a, _ := tree()
		s, err := Read(write(t, c.file), []string{c.environ})
		if err != nil {
			t.Fatal(err)
		}
		if err := a.ParseFlags(strings.Fields(c.args)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Apply(a); err != nil {
			t.Fatal(err)
		}
		x, y := value(a, "x"), value(a, "y")
		if x != c.x || y != c.y {
			t.Errorf("%+v: x %q, y %q", c, x, y)
		}
	}
}

// A repeated flag takes a list from the file and lines from a variable, with commas and spaces as they are.
func TestLists(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var want, quoted []string
		for range 1 + r.IntN(4) {
			v := []string{"a", "a,b", " c ", "d=e", "\"", "ü"}[r.IntN(6)]
			want, quoted = append(want, v), append(quoted, fmt.Sprintf("%q", v))
		}
		for _, variable := range []bool{false, true} {
			text, environ := "list = ["+strings.Join(quoted, ",")+"]", []string(nil)
			if variable {
				text, environ = "", []string{"RUNNER_LIST=" + strings.Join(want, "\n")}
			}
			_, a, _ := tree()
			s, err := Read(write(t, text), environ)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Apply(a); err != nil {
				t.Fatal(err)
			}
			if got := a.Flags().Lookup("list").Value.(pflag.SliceValue).GetSlice(); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("%q, want %q", got, want)
			}
		}
	}
}

// A secret is in no list of values and in no error.
func TestSecrets(t *testing.T) {
	_, a, _ := tree()
	pin := 0
	flags.Add(a, flags.Int("pin", &pin, 0, 0, 9999, "", flags.Secret))
	s, err := Read(write(t, "y = 'hush'"), nil)
	if err != nil {
		t.Fatal(err)
	}
	list, err := s.InEffect(a)
	if err != nil || !strings.Contains(fmt.Sprint(list), "(hidden)") || strings.Contains(fmt.Sprint(list), "hush") {
		t.Errorf("%v, %v", list, err)
	}
	s, err = Read("", []string{"RUNNER_PIN=hush"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Apply(a); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("%v", err)
	}
}

// Other programs use variables that begin with RUNNER_, such as the runners of GitHub Actions. Those are no flags.
func TestForeignVariables(t *testing.T) {
	_, a, _ := tree()
	s, err := Read("", []string{"RUNNER_OS=Linux", "RUNNER_TEMP=/tmp", "RUNNER_HELP_ALL=1", "RUNNER_HELP=1"})
	if err != nil {
		t.Fatal(err)
	}
	if from, err := s.Apply(a); err != nil || len(from) > 0 {
		t.Errorf("%v, %v", from, err)
	}
}

// Whatever is in the file, it is read or refused, and what is accepted can be applied or is refused with its place.
func FuzzFile(f *testing.F) {
	for _, text := range []string{"", "number = 1", "[a]\nnumber = 'x'", "[a.b]\nlist = [1, true, 'x']", "a = 1",
		"[[a]]\nx = 1", "x = 2020-01-01", "x = {y = 1}", "number = 1e400", "list = [[1]]", "x = nan", "[a.b]\nlist = []"} {
		f.Add([]byte(text))
	}
	dir := f.TempDir()
	path := filepath.Join(dir, "config.toml")
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		root, _, b := tree()
		s, err := Read(path, nil)
		if err != nil || s.Check(root, none) != nil {
			return
		}
		from, err := s.Apply(b)
		if err != nil && !strings.Contains(err.Error(), path+": ") {
			t.Errorf("an error without its place: %v", err)
		}
		b.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Changed != (from[f.Name] != "") && err == nil {
				t.Errorf("%s: set %v, from %q", f.Name, f.Changed, from[f.Name])
			}
		})
	})
}
