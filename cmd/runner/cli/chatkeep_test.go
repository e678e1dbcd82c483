//go:build unix

package cli

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rivo/uniseg"
)

const passphrase = "correct horse"

// dataFolderWithKeys returns the environment of a program with a new data folder and a keyring in it.
func dataFolderWithKeys(t *testing.T) (dir string, env []string) {
	t.Helper()
	dir = t.TempDir()
	env = []string{"XDG_DATA_HOME=" + dir, passphraseVariable + "=" + passphrase}
	newKeyring(t, env)
	return filepath.Join(dir, "runner"), env
}

func newKeyring(t *testing.T, env []string, args ...string) {
	t.Helper()
	cmd := exec.Command("runner", append([]string{"trace", "keys", "new"}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// A conversation is kept after each answer, sealed, and another chat goes on with it.
func TestChatGoesOn(t *testing.T) {
	const canary = "canary"
	dir, env := dataFolderWithKeys(t)
	file := filepath.Join(dir, "conversation.sealed")
	begin := func(args ...string) *terminal { return start(t, env, append([]string{"run"}, args...)...) }

	tt := begin("--continue")
	tt.expect("runner: no conversation is kept; keep one with runner run --keep-conversation")
	tt.exit(exitFailed)

	tt = begin("--keep-conversation", "--system", "the system's "+canary)
	tt.enter("echo the " + canary) // this is not in the history, which is in the clear
	tt.expect("echo the " + canary)
	tt.expect(emptyPrompt)
	checkPrivate(t, file)
	tt.cmd.Process.Kill() // the conversation is kept whatever ends the chat
	tt.exit(-1)
	for _, folder := range []string{dir, tt.dir} {
		expectNowhere(t, folder, canary)
	}

	tt = begin("--continue")
	tt.expect("Going on with 2 messages of 20")
	tt.expect("You: echo the canary")
	tt.expect("Answer: echo the canary")
	tt.enter("request")
	tt.expect(`"content":"the system's canary"`)
	tt.expect(`"content":"echo the canary"`)
	tt.enter("how many messages")
	tt.expect("6 messages")
	tt.enter("/undo")
	tt.leave()
	tt = begin("--continue", "--system", "Be kind.")
	tt.expect("Going on with 4 messages of 20")
	tt.enter("request")
	tt.expect(`"content":"Be kind."`)
	tt.enter("slow")
	tt.expect("working")
	tt.send("\x03") // a stopped answer is kept too
	tt.expect("Stopped.")
	tt.leave()
	tt = begin("--continue")
	tt.expect("Going on with 8 messages")
	tt.enter("/clear")
	tt.leave()
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("a conversation that was forgotten is kept: %v", err)
	}

	// Nothing is kept of a chat that did not ask for it.
	tt = begin()
	tt.enter("hello")
	tt.leave()
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("a conversation is kept without a wish: %v", err)
	}
}

// A chat that goes on shows the last question and its answer, at most three rows of each, which fit the terminal.
func TestLastTurnIsShown(t *testing.T) {
	_, env := dataFolderWithKeys(t)
	long := "echo " + strings.Repeat("many words ", 50) + strings.Repeat("世", 70)
	tt := start(t, env, "run", "--keep-conversation")
	tt.enter("echo first")
	tt.enter(long)
	tt.leave()
	tt = startIn(t, 60, env, "run", "--continue")
	tt.expect("Going on with 4 messages")
	shown := tt.expect(emptyPrompt)
	rows := 0
	for row := range strings.SplitSeq(shown, "\r\n") {
		row, said := strings.CutPrefix(row, "\x1b[2m")
		if !said {
			continue
		}
		rows++
		row = strings.TrimSuffix(row, "\x1b[0m")
		if w := uniseg.StringWidth(row); w > 60 {
			t.Errorf("%q is %d columns wide", row, w)
		}
	}
	if rows != 6 || strings.Count(shown, " …\x1b") != 2 || strings.Contains(shown, "first") ||
		!strings.Contains(shown, "You: echo many") || !strings.Contains(shown, "Answer: echo many") {
		t.Errorf("%d rows: %q", rows, shown)
	}
	tt.send("\x04")
	tt.exit(exitOK)
}

// What is typed is kept in the clear unless the conversation is kept sealed, or the user says otherwise. It is read
// only where it is kept.
func TestHistoryOnDisk(t *testing.T) {
	_, env := dataFolderWithKeys(t)
	for _, c := range []struct {
		args []string
		env  string
		kept bool
	}{
		{nil, "", true},
		{[]string{"--history", "off"}, "", false},
		{nil, "RUNNER_HISTORY=off", false},
		{[]string{"--history", "on"}, "RUNNER_HISTORY=off", true},
		{[]string{"--keep-conversation"}, "", false},
		{[]string{"--continue"}, "", false},
		{[]string{"--continue", "--history", "on"}, "", true},
		{nil, "RUNNER_KEEP_CONVERSATION=true", false},
	} {
		state := t.TempDir()
		path := filepath.Join(state, "runner", "history")
		h := openHistory(path)
		if err := h.add("an older question"); err != nil {
			t.Fatal(err)
		}
		tt := start(t, append(env[:2:2], "XDG_STATE_HOME="+state, c.env), append([]string{"run"}, c.args...)...)
		tt.enter("echo a new question")
		tt.expect("a new question")
		tt.expect(emptyPrompt)
		tt.send("\x1b[A")
		tt.expect("echo a new question")
		tt.send("\x1b[A")
		if c.kept {
			tt.expect("an older question")
		}
		tt.send("\x03")
		tt.leave()
		if strings.Contains(tt.text, "an older question") != c.kept {
			t.Errorf("%v: %q", c, tt.text)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), "a new question") != c.kept {
			t.Errorf("%v: the history is %q", c, b)
		}
	}
}

// expectNowhere looks for a text in all files of a folder.
func expectNowhere(t *testing.T, folder, text string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if strings.Contains(string(b), text) {
			t.Errorf("%s has the text", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestChatGoesOnWithItsModel(t *testing.T) {
	_, env := dataFolderWithKeys(t)
	tt := start(t, append(env, "RUNNER_KEEP_CONVERSATION=true"), "run")
	tt.write("other.gguf", "GGUF")
	tt.enter("/model other.gguf")
	tt.enter("What is 17 + 25?")
	tt.leave()
	path := filepath.Join(tt.dir, "other.gguf")
	tt = start(t, env, "run", "--continue") // in another folder
	tt.expect("Going on with 2 messages")
	tt.enter("/model")
	tt.expect(path + ": scripted model")
	tt.leave()
	tt = start(t, env, "run", "demo", "--continue")
	tt.expect("The model was " + path + "; this is demo.")
	tt.leave()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	tt = start(t, env, "run", "--continue")
	tt.expect("runner: ")
	tt.exit(exitFailed)
}

// Without the keys, or with other ones, a kept conversation stays closed.
func TestChatNeedsItsKeys(t *testing.T) {
	dir, env := dataFolderWithKeys(t)
	tt := start(t, env, "run", "--keep-conversation")
	tt.enter("What is 17 + 25?")
	tt.leave()

	asked := append(env[:1:1], "HOME="+t.TempDir()) // without the passphrase in the environment
	tt = start(t, asked, "run", "--continue")
	tt.expect("Passphrase: ")
	tt.send("a wrong one\r")
	tt.expect("runner: the passphrase is wrong, or the keyring was altered; give the one of runner trace keys new")
	tt.exit(exitFailed)
	tt = start(t, asked, "run", "--continue")
	tt.expect("Passphrase: ")
	tt.send(passphrase + "\r")
	tt.expect("Going on with 2 messages")
	tt.leave()

	other := filepath.Join(t.TempDir(), "other.keys")
	newKeyring(t, env, "--keyring", other)
	tt = start(t, env, "run", "--continue", "--keyring", other)
	tt.expect("cannot be opened: it was sealed to other keys; name the keyring of that time with --keyring")
	tt.exit(exitFailed)

	file := filepath.Join(dir, "conversation.sealed")
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	tt = start(t, env, "run", "--continue")
	tt.expect("others can read or change it")
	tt.exit(exitFailed)
	if err := os.Truncate(file, 200); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	tt = start(t, env, "run", "--continue")
	tt.expect("cannot be opened: its end is missing; remove the file and begin another chat")
	tt.exit(exitFailed)

	if err := os.Remove(filepath.Join(dir, "trace.keys")); err != nil {
		t.Fatal(err)
	}
	for _, flag := range []string{"--continue", "--keep-conversation"} {
		tt = start(t, env, "run", flag)
		tt.expect("runner: there is no keyring " + dir)
		tt.expect("make one with runner trace keys new")
		tt.exit(exitFailed)
	}
}

// A conversation that cannot be kept is told, and the chat goes on.
func TestChatIsNotKept(t *testing.T) {
	dir, env := dataFolderWithKeys(t)
	tt := start(t, env, "run", "--keep-conversation")
	if err := os.MkdirAll(filepath.Join(dir, "conversation.sealed", "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	tt.enter("What is 17 + 25?")
	tt.expect("runner: warning: the conversation is not kept: ")
	tt.enter("how many messages")
	tt.expect("3 messages")
	tt.leave()
}

// Only chats are kept. The setting does not disturb single questions.
func TestOnlyChatsAreKept(t *testing.T) {
	dir, env := dataFolderWithKeys(t)
	for _, flag := range []string{"--continue", "--keep-conversation"} {
		tt := start(t, env, "run", flag, "demo", "hello")
		tt.expect("runner: " + flag + " is for a chat; leave out the prompt, and use a terminal")
		tt.exit(exitUsage)
	}
	tt := start(t, append(env, "RUNNER_KEEP_CONVERSATION=true"), "run", "demo", "hello")
	tt.expect("42")
	tt.exit(exitOK)
	if _, err := os.Stat(filepath.Join(dir, "conversation.sealed")); !os.IsNotExist(err) {
		t.Errorf("a question is kept: %v", err)
	}
}
