//go:build unix

package transcript

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRenew(t *testing.T) {
	home := t.TempDir()
	doc := strings.Join([]string{
		"# Prose", "", "```json numbers.json", `{"a": 1}`, "```", "",
		"```", "$ echo not run", "```",
		"```console",
		"$ cat numbers.json", "old", "",
		"$ X='two", "  words'",
		`$ echo "$X" |`, "  cat",
		"old", "older",
		"$ pwd; echo $HOME",
		"$ false || echo \"exit code $?\"",
		"$ printf '\\x1b[2mdim\\x1b[0m  \\n\\nend\\n' >&2",
		"$ sleep 60 &",
		"$ printf ':8080'",
		"```", "More prose.", "",
	}, "\n")
	want := strings.Join([]string{
		"# Prose", "", "```json numbers.json", `{"a": 1}`, "```", "",
		"```", "$ echo not run", "```",
		"```console",
		"$ cat numbers.json", `{"a": 1}`, "",
		"$ X='two", "  words'",
		`$ echo "$X" |`, "  cat", "two", "  words", "",
		"$ pwd; echo $HOME", "/home/me", "/home/me", "",
		"$ false || echo \"exit code $?\"", "exit code 1", "",
		"$ printf '\\x1b[2mdim\\x1b[0m  \\n\\nend\\n' >&2", "dim", "", "end", "",
		"$ sleep 60 &",
		"$ printf ':8080'", ":8080",
		"```", "More prose.", "",
	}, "\n")
	for range 2 { // renewing again changes nothing
		got, err := Renew(doc, home, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Fatalf("got\n%s\nwant\n%s", got, want)
		}
		doc = got
	}
}

// A command reaches a server that runs already at its real port. The document keeps the one that it shows.
func TestRenewHidesThePortsOfOtherServers(t *testing.T) {
	doc := "```console\n$ echo http://h:8000 $(echo http://h:8000 | tr 0-9 a-j)\n```\n"
	got, err := Renew(doc, t.TempDir(), map[string]string{"8000": "41237"})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(got, "\nhttp://h:8000 http://h:ebcdh\n") {
		t.Error(got)
	}
}

func TestRenewHidesTheUser(t *testing.T) {
	t.Setenv("SECRET", "1")
	got, err := Renew("```console\n$ echo \"<$SECRET$GIVEN>\"\n```\n", t.TempDir(), nil, "GIVEN=2")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(got, "\n<2>\n") {
		t.Error(got)
	}
}

// editor acts like the line editor of a chat on a dumb terminal: it draws what is typed, and leaves at Ctrl-D.
const editor = `#!/bin/bash
while true; do
  printf '%s' "${PROMPT:->>> }"
  line=
  while c=$(dd bs=1 count=1 2>/dev/null) && [ "$c" != $'\r' ] && [ "$c" != $'\x04' ]; do line+=$c; done
  printf '%s\r\n' "$line"
  [ "$c" = $'\x04' ] && exit
  echo "you said $line"
done
`

func TestChat(t *testing.T) {
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "chat"), []byte(editor), 0o755); err != nil {
		t.Fatal(err)
	}
	got, err := Renew("```console\n$ ./chat\n>>> hello\nold\n>>> you\n```\n", home, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := "```console\n$ ./chat\n>>> hello\nyou said hello\n>>> you\nyou said you\n```\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for doc, problem := range map[string]string{
		"```console\n$ echo\n>>> hello\n```\n":                                `the command did not ask for "hello"`,
		"```console\n$ PROMPT='result of add: ' ./chat\n>>> hello\n```":       `no line to type at "result of add: "`,
		"```console\n$ ./chat\n>>> " + strings.Repeat("x", columns) + "\n```": "longer than a row",
	} {
		if _, err := Renew(doc, home, nil); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%q: %v", doc, err)
		}
	}
}

func TestRenewRefuses(t *testing.T) {
	for doc, problem := range map[string]string{
		"```console\n$ false\n```\n":       "exit code 1",
		"```console\n$ echo '\n```\n":      "the block ends within this command",
		"```console\nold\n$ echo\n```\n":   "not with a command",
		"```console\n$ echo '$ rm'\n```\n": "would look like a command or a fence",
		"```console\n$ exec true\n```\n":   "the shell has ended",
		"```json ../../x\n{}\n```\n":       "leaves the home folder",
		"\n```console\n$ ) \n```\n":        "line 2",
		"\n```console\n$ echo\n``` \n":     "line 2: \"```console\" begins a block that does not end",
	} {
		if _, err := Renew(doc, t.TempDir(), nil); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%q: %v, want %q", doc, err, problem)
		}
	}
}

func TestStandIns(t *testing.T) {
	s := newStandIns("/tmp/x1", "/home/me", ":39999", ":8080")
	for _, c := range []struct{ in, want string }{
		{"made /tmp/x1/a at http://127.0.0.1:39999/v1", "made /home/me/a at http://127.0.0.1:8080/v1"},
		{"trace 0123456789abcdef0123456789abcdef", "trace id1"},
		{"run_7c817c7d6624cad3 run_0000000000000001 run_7c817c7d6624cad3", "run_1 run_2 run_1"},
		{`run\_7c817c7d6624cad3 0123456789abcdef0123456789abcdef`, `run\_1 id1`},
		{`{"id":"chatcmpl-0123456789abcdef0123456789abcdef","created":1795332511}`, `{"id":"chatcmpl-1","created":…}`},
		{`"timings": {"prompt_ms": 1.25, "n": 3}, "durationMs":12`, `"timings": {"prompt_ms": …, "n": 3}, "durationMs":…`},
		{"prefill  0.011 s, 7495.6 tokens/s", "prefill  … s, … tokens/s"},
		{"2026-11-22T07:28:46Z 2026-11-22T07:28:46.123+01:00", "… …"},
		{"effort medium, seed 8666588738909100", "effort medium, seed …"},
		{`"seed": 1`, `"seed": 1`},
		{"ok  loads  in 0.02 s on CPU with 8 threads, 0 layers on a GPU",
			"ok  loads  in … s on CPU with …, 0 layers on a GPU"},
		{strings.Repeat("Ab_-", 40), "sealed1"},
		{"rk-" + strings.Repeat("a", 43), "rk-key1"},
		{"17 + 25 = 42. 4:35, $6.25, 142 remainder 5, in 3 days", "17 + 25 = 42. 4:35, $6.25, 142 remainder 5, in 3 days"},
	} {
		if got := s.replace(c.in); got != c.want {
			t.Errorf("%q became %q, want %q", c.in, got, c.want)
		}
	}
}
