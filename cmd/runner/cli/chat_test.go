//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/creack/pty"
)

// write makes a file in the folder that a chat runs in.
func (tt *terminal) write(name, text string) {
	tt.t.Helper()
	if err := os.WriteFile(filepath.Join(tt.dir, name), []byte(text), 0o600); err != nil {
		tt.t.Fatal(err)
	}
}

// leave ends a chat.
func (tt *terminal) leave() {
	tt.t.Helper()
	tt.enter("/exit")
	tt.exit(exitOK)
}

func TestChatSystem(t *testing.T) {
	tt := start(t, nil, "run")
	tt.write("prompt.txt", "You are a file.\n")
	tt.enter("/system")
	tt.expect("There is no system message.")
	tt.enter("What is 17 + 25?")
	tt.enter("/system You are terse.")
	tt.expect("The system message is set.")
	tt.enter("request")
	tt.expect(`"messages":[{"role":"system","content":"You are terse."`)
	tt.expect(`"content":"What is 17 + 25?"`) // the conversation stays
	tt.enter("/system You are\\\rkind.")
	tt.expect("The system message is changed.")
	tt.enter("/system")
	tt.expect("You are\r\nkind.\r\n")
	tt.enter("/system @prompt.txt")
	tt.expect("The system message is changed.")
	tt.enter("request")
	tt.expect(`"content":"You are a file.\n"`)
	tt.enter("/system @missing")
	tt.expect("runner: /system missing: no such file or directory; check the name and its permissions")
	tt.enter("/clear")
	tt.enter("how many messages")
	tt.expect("2 messages")
	tt.enter("/system none")
	tt.expect("The system message is removed.")
	tt.enter("how many messages")
	tt.expect("3 messages")
	tt.leave()
}

func TestChatFiles(t *testing.T) {
	tt := start(t, nil, "run", "--ctx-size", "1000")
	tt.write("notes.txt", "the notes\n")
	tt.write("more notes.txt", strings.Repeat("long ", 500))
	tt.write("large.txt", strings.Repeat("x", 4000)) // 1000 tokens
	tt.write("huge.txt", strings.Repeat("x", 20_000))
	tt.write("binary", "a\x00b")
	if err := os.Mkdir(filepath.Join(tt.dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	tt.enter("/file")
	tt.expect("No file goes with the next message.")
	for name, want := range map[string]string{
		"missing":  "/file missing: no such file or directory; check the name and its permissions",
		"folder":   "/file folder: it is a folder; name a text file",
		"/dev/tty": "/file /dev/tty: it is not a file with text; name a text file",
		"binary":   "/file binary is not UTF-8 text; convert it to text first",
		"large.txt": "/file large.txt: 3.9 KiB do not fit into the context of 1000 tokens; give a smaller part of it, or " +
			"use a larger --ctx-size",
		"huge.txt": "/file huge.txt: 19.5 KiB do not fit into the context of 1000 tokens; give a smaller part of it, or " +
			"use a larger --ctx-size",
	} {
		tt.enter("/file " + name)
		tt.expect("runner: " + want + "\r\n")
	}
	tt.enter("/file no\t") // the rest of the name is completed
	tt.expect("notes.txt, 10 B, 3 tokens, goes with the next message.")
	tt.enter("/file ~/more notes.txt")
	tt.expect("625 tokens, goes with the next message.")
	tt.expect("The files take 628 of the context's 1000 tokens; /file none drops them.")
	tt.enter("/file none")
	tt.expect("No file goes with the next message.")
	tt.enter("/file notes.txt")
	tt.enter("/file")
	tt.expect("notes.txt, ")
	tt.enter("request")
	tt.expect(`"content":"[file notes.txt]\nthe notes\n[end of file notes.txt]\n\nrequest"`)
	tt.enter("echo again")
	if text := tt.expect(emptyPrompt); strings.Contains(text, "the notes") {
		t.Errorf("attached twice: %q", text)
	}
	tt.send("\x04")
	tt.exit(exitOK)
}

func TestChatModels(t *testing.T) {
	tt := start(t, []string{"SHOW_CLOSE=1"}, "run", "first.gguf", "--chat-template", templateFile(t))
	for _, name := range []string{"first.gguf", "second.gguf", "corrupt.gguf", "brittle.gguf",
		"sluggish.gguf"} {
		tt.write(name, "GGUF")
	}
	tt.enter("What is 17 + 25?")
	tt.enter("/model")
	tt.expect("first.gguf: scripted model, context of 4096 tokens.")
	tt.enter("/model second.gguf")
	tt.expect("closed first.gguf")
	tt.expect("The conversation goes on.")
	tt.enter("model")
	tt.expect("second.gguf with 3 messages, template \"\"")
	// What is not there, or cannot be run here, leaves the model open.
	tt.enter("/model third.gguf")
	tt.expect("runner: ")
	tt.enter("/model corrupt.gguf")
	tt.expect("runner: ")
	tt.enter("model")
	tt.expect("second.gguf with 5 messages")
	tt.expect(emptyPrompt)
	if tt.mu.Lock(); strings.Contains(tt.text, "closed second.gguf") {
		t.Error("a model that cannot be opened costs the open one")
	}
	tt.mu.Unlock()
	tt.send("\r")
	// A model that cannot be loaded costs the loading of the old one.
	tt.enter("/model brittle.gguf")
	tt.expect("runner: there is not enough memory\r\n")
	tt.expect("second.gguf is open again.")
	tt.enter("model")
	tt.expect("second.gguf with 7 messages")
	// Ctrl-C stops the loading.
	tt.enter("/model sluggish.gguf")
	tt.expect("loading")
	tt.send("\x03")
	tt.expect("Stopped; sluggish.gguf is not opened.")
	tt.expect("second.gguf is open again.")
	// The chat goes on without a model if the old one cannot be loaded either, and another one helps.
	if err := os.Remove(filepath.Join(tt.dir, "second.gguf")); err != nil {
		t.Fatal(err)
	}
	tt.enter("/model brittle.gguf")
	tt.expect("runner: no model is open; open one with /model NAME")
	tt.enter("hello")
	tt.expect("runner: no model is open; open one with /model NAME")
	tt.enter("/regenerate")
	tt.expect("runner: no model is open")
	tt.enter("/model first.gguf")
	tt.expect("The conversation goes on.")
	tt.enter("model")
	tt.expect("first.gguf with 9 messages, template \"plain\"")
	tt.enter("/exit")
	tt.expect("closed first.gguf")
	tt.exit(exitOK)
}

func templateFile(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "template")
	if err := os.WriteFile(path, []byte("plain"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestChatRegenerates(t *testing.T) {
	tt := start(t, nil, "run", "--seed", "7")
	tt.enter("/regenerate")
	tt.expect("runner: there is no message to answer again; send one first")
	tt.enter("What is 17 + 25?")
	tt.enter("seed")
	tt.expect("seed 7 of 3 messages")
	tt.enter("/regenerate")
	tt.expect("Answering again, with the seed 8.")
	tt.expect("seed 8 of 3 messages")
	tt.enter("/regenerate")
	tt.expect("seed 9 of 3 messages")
	tt.enter("/save talk.json")
	tt.expect("Saved")
	tt.enter("seed")
	tt.expect("seed 7 of 5 messages") // the next message has the seed of the command line
	tt.leave()
	saved, err := os.ReadFile(filepath.Join(tt.dir, "talk.json"))
	if err != nil || strings.Count(string(saved), "seed 9") != 1 || strings.Contains(string(saved), "seed 8") {
		t.Errorf("%s, %v", saved, err)
	}
	if strings.Contains(string(saved), "plus") {
		t.Errorf("reasoning that was not shown is saved: %s", saved)
	}
}

// The earlier answer stays if there is no whole new one.
func TestChatRegeneratesInVain(t *testing.T) {
	tt := start(t, nil, "run")
	tt.enter("again slow") // the second answer is slow
	tt.expect("the first answer")
	tt.enter("/regenerate")
	tt.expect("working")
	tt.send("\x03")
	tt.expect("Stopped; the earlier answer stays.")
	tt.enter("again fail")
	tt.expect("the first answer")
	tt.enter("/regenerate")
	tt.expect("runner: ")
	tt.enter("/save talk.json")
	tt.expect("Saved")
	tt.enter("how many messages")
	tt.expect("5 messages")
	tt.leave()
	saved, err := os.ReadFile(filepath.Join(tt.dir, "talk.json"))
	if err != nil || strings.Count(string(saved), "the first answer") != 2 || strings.Contains(string(saved), "working") {
		t.Errorf("%s, %v", saved, err)
	}
}

func TestChatUndo(t *testing.T) {
	tt := start(t, nil, "run", "--system", "Be kind.")
	tt.enter("/undo")
	tt.expect("runner: there is nothing to take back; send a message first")
	tt.enter("weather")
	tt.expect("result of get_weather: " + ready)
	tt.send("sunny\r")
	tt.enter("how many messages")
	tt.expect("6 messages")
	tt.enter("weather")
	tt.expect("result of get_weather: " + ready)
	tt.send("\x03")
	tt.expect("the turn is forgotten")
	tt.enter("/undo")
	tt.expect("The last message and its answer are taken back; 4 messages are left.")
	tt.enter("/undo")
	tt.expect("no message is left.")
	tt.enter("how many messages")
	tt.expect("2 messages")
	tt.enter("/save talk.md")
	tt.leave()
	saved, err := os.ReadFile(filepath.Join(tt.dir, "talk.md"))
	if err != nil || strings.Contains(string(saved), "sunny") {
		t.Errorf("%s, %v", saved, err)
	}
}

func TestChatStats(t *testing.T) {
	tt := start(t, nil, "run")
	tt.enter("/stats")
	tt.expect("runner: there is no answer yet; send a message first")
	tt.enter("What is 17 + 25?")
	tt.enter("What is 17 + 25?")
	tt.enter("/stats")
	shown := tt.expect(emptyPrompt)
	for _, want := range []string{"first token   0.011 s", "decode        0.030 s, 366.7 tokens/s",
		"context used  32 of 4096 tokens, 1 %", "answers       2, first token after 0.011 s on average",
		"prompts       40 tokens, 8 from the cache", "generated     24 tokens: 16 reasoning, 4 answer; 366.7 tokens/s"} {
		if !strings.Contains(shown, want) {
			t.Errorf("no %q in %s", want, shown)
		}
	}
	tt.send("/clear\r")
	tt.enter("/stats")
	tt.expect("there is no answer yet")
	tt.leave()
}

func TestChatSummary(t *testing.T) {
	tt := start(t, nil, "run")
	for _, c := range [][2]string{
		{"/summary", "Summary of the reasoning: off. Reasoning shown: none."},
		{"/summary on", "Summary of the reasoning: on, concise."},
		{"/summary detailed", "Summary of the reasoning: on, detailed."},
		{"request", `"visibility":"summary"`},
		{"request", `"detailed_summary":true`},
		{"/summary off", "Summary of the reasoning: off. Reasoning shown: none."},
		{"/reasoning full", "Reasoning shown: full."},
		{"/summary off", "Summary of the reasoning: off. Reasoning shown: full."},
		{"/summary loud", `runner: /summary cannot be "loud"; use on, off, concise or detailed`},
	} {
		tt.enter(c[0])
		tt.expect(c[1])
	}
	tt.leave()
}

func TestChatLoadsWhatItSaved(t *testing.T) {
	tt := start(t, nil, "run", "--system", "Be kind.", "--reasoning", "full")
	tt.enter("What is 17 + 25?")
	tt.enter("weather")
	tt.expect("result of get_weather: " + ready)
	tt.send("sunny\r")
	tt.enter("/save talk.json")
	tt.expect("Saved to talk.json.")
	tt.enter("/save talk.json")
	tt.expect("runner: /save talk.json: the file exists already; choose another name")
	tt.enter("request")
	asked := tt.expect(emptyPrompt)
	tt.send("/clear\r")
	tt.enter("/system none")
	tt.enter("hello")
	tt.enter("/load talk.json")
	tt.expect("Loaded 6 messages from talk.json.")
	tt.expect("They take the place of 2 messages.")
	tt.enter("request")
	if again := tt.expect(emptyPrompt); again != asked {
		t.Errorf("after /load the model gets %s\nwant %s", again, asked)
	}
	tt.send("/undo\r")
	tt.enter("/undo")
	tt.expect("2 messages are left")
	tt.write("bad.json", `{"messages":[{"role":"robot","content":"secret"}]}`)
	for name, want := range map[string]string{
		"bad.json": "/load bad.json: messages[0]: unknown role; the roles are system, developer, user, assistant and tool; " +
			"give a file that /save FILE.json wrote",
		"nothing.json": "/load nothing.json: no such file or directory; check the name and its permissions",
		"":             "/load needs a file; name one: /load FILE.json",
	} {
		tt.enter("/load " + name)
		tt.expect("runner: " + want + "\r\n")
	}
	tt.enter("how many messages")
	tt.expect("4 messages") // what could not be loaded changes nothing
	tt.leave()
	checkPrivate(t, filepath.Join(tt.dir, "talk.json"))
}

func TestChatCompletes(t *testing.T) {
	tt := start(t, nil, "run")
	tt.write("talk.json", "{}")
	tt.write("words.txt", "")
	tt.write("two words.json", "{}")
	tt.write(".hidden.json", "{}")
	tt.write("bad\x1bname.json", "{}")
	if err := os.Mkdir(filepath.Join(tt.dir, "talks"), 0o700); err != nil {
		t.Fatal(err)
	}
	for keys, want := range map[string]string{
		"/reg\t":             "/regenerate",
		"/su\t\t":            "on  off  concise  detailed",
		"/reasoning f\t":     "/reasoning full",
		"/effort mi\t":       "/effort minimal",
		"/model de\t":        "/model demo",
		"/load tw\t":         "/load two words.json",
		"/load talk\t\t":     "talk.json  talks/",
		"/load ./t\t\t":      "./talk.json  ./talks/  ./two words.json",
		"/load .h\t":         "/load .hidden.json",
		"/load bad\t":        "/load bad",
		"/load wo\t":         "/load wo", // not JSON
		"/file wo\t":         "/file words.txt",
		"/help /und\t":       "/help /undo",
		"/system n\t":        "/system none",
		"hello\t":            "hello",
		"/undo x\t":          "/undo x",
		"/load /nowhere/x\t": "/load /nowhere/x",
	} {
		tt.expect(emptyPrompt)
		tt.send(keys)
		tt.expectShown(want)
		tt.send("\x03")
	}
	tt.expect(emptyPrompt)
	tt.send("\x04")
	tt.exit(exitOK)
}

// expectShown waits until some words have been shown, in their order.
func (tt *terminal) expectShown(text string) {
	tt.t.Helper()
	for _, word := range strings.Fields(text) {
		tt.expect(word)
	}
}

// No command takes what is not meant for it, and unknown ones suggest the nearest.
func TestChatRefusesCommands(t *testing.T) {
	tt := start(t, nil, "run")
	for text, want := range map[string]string{
		"/regenrate":      "runner: there is no command /regenrate; did you mean /regenerate?",
		"/set think":      "runner: there is no command /set; /system, /reasoning and /effort set those;",
		"/show info":      "runner: there is no command /show; /stats shows figures of the last answer,",
		"/undo it":        "runner: /undo takes no argument; enter it alone",
		"/xyzzy":          "runner: there is no command /xyzzy; /help lists them",
		"/help xyzzy":     "runner: there is no command /xyzzy; /help lists them",
		"/save":           "runner: /save needs a file; name one: /save FILE",
		"/save /nowhere/": "runner: /save /nowhere/: ",
	} {
		tt.enter(text)
		tt.expect(want)
	}
	tt.leave()
}

// The help fits a terminal of 80 columns and 24 rows, and of 40 columns. The narrow one says the same.
func TestChatHelp(t *testing.T) {
	for name := range helpTexts {
		if _, ok := findCommand(name); !ok {
			t.Errorf("there is a help text for %s, which is no command", name)
		}
	}
	said := map[int]string{}
	for _, columns := range []int{80, 40} {
		tt := startIn(t, uint16(columns), nil, "run")
		tt.enter("/help")
		shown := tt.expect(emptyPrompt)
		if n := strings.Count(shown, "\n"); n > 23 && columns == 80 {
			t.Errorf("/help has %d lines", n)
		}
		for _, cmd := range chatCommands() {
			tt.send("/help " + cmd.name + "\r")
			one := tt.expect(emptyPrompt)
			if words := strings.Join(strings.Fields(one), " "); !strings.Contains(words, cmd.help) {
				t.Errorf("/help %s shows %q", cmd.name, one)
			}
			shown += one
		}
		for line := range strings.SplitSeq(shown, "\r\n") {
			if !strings.Contains(line, "\x1b") && utf8.RuneCountInString(line) > columns {
				t.Errorf("the line is too long for %d columns: %q", columns, line)
			}
		}
		said[columns] = strings.Join(strings.Fields(shown), " ")
		tt.send("\x04")
		tt.exit(exitOK)
	}
	if said[80] != said[40] {
		t.Errorf("80 columns get %q, 40 columns %q", said[80], said[40])
	}
}

// Lines are broken for the width that the terminal has when an answer begins. An answer in a form is not broken.
func TestAnswersAreWrapped(t *testing.T) {
	tt := start(t, nil, "run", "--reasoning", "full")
	resize := func(columns uint16) {
		t.Helper()
		tt.expect(emptyPrompt)
		if err := pty.Setsize(tt.file, &pty.Winsize{Rows: 40, Cols: columns}); err != nil {
			t.Fatal(err)
		}
	}
	resize(20)
	tt.send("What is 17 + 25?\r")
	tt.expect("\x1b[2mReasoning:\r\n17 plus 25 makes\r\n42.\x1b[0m\r\n\r\n42\r\n") // the last column stays free
	tt.enter("weather")
	tt.expect("  get_weather {\"city\":\"Paris\"}\r\n") // code is not broken
	tt.expect("result of")
	tt.send("sunny and dry\r")
	tt.expect("It is sunny and dry\r\nin Paris.\r\n")
	resize(24)
	tt.send("weather\r")
	tt.expect("result of")
	tt.send("sunny and dry\r")
	tt.expect("It is sunny and dry in\r\nParis.\r\n")
	resize(10) // too narrow
	tt.send("weather\r")
	tt.expect("result of")
	tt.send("sunny and dry\r")
	tt.expect("It is sunny and dry in Paris.\r\n")
	tt.expect(">>> ")
	tt.send("\x04")
	tt.exit(exitOK)

	for _, c := range []struct{ pattern, want string }{
		{"", "echo one two three\r\nfour\r\n"}, {".*", "echo one two three four\r\n"},
	} {
		args := []string{"run", "echo one two three four"}
		if c.pattern != "" {
			args = append(args, "--regex", c.pattern)
		}
		tt := startIn(t, 21, nil, args...)
		tt.expect(c.want)
		tt.exit(exitOK)
	}
}
