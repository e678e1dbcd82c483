package cli

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"runner/cmd/runner/conversation"
	"runner/cmd/runner/render"
)

// attachment is a text that goes with the next message.
type attachment struct {
	name, text string
	tokens     int
}

// withAttached returns a message with the attached texts before it.
func (c *chat) withAttached(text string) string {
	var parts []string
	for _, a := range c.attached {
		parts = append(parts, a.text)
	}
	return joined(append(parts, text)...)
}

// attach adds a file to the next message, shows what will go with it, or drops it.
func (c *chat) attach(ctx context.Context, path string) error {
	switch path {
	case "":
		if len(c.attached) == 0 {
			c.say("No file goes with the next message.")
		}
		for _, a := range c.attached {
			c.say("%s, %s, goes with the next message.", a.name, render.Size(int64(len(a.text))))
		}
		return nil
	case valueNone:
		c.attached = nil
		c.say("No file goes with the next message.")
		return nil
	}
	if c.gen == nil {
		return errNoModel
	}
	text, err := readRegular("/file", path)
	if err != nil {
		return err
	}
	tokens, err := c.tokens(ctx, path, text)
	if err != nil {
		return err
	}
	c.attached = append(c.attached, attachment{path, labelled(path, text), tokens})
	total := 0
	for _, a := range c.attached {
		total += a.tokens
	}
	c.say("%s, %s, %d tokens, goes with the next message.", path, render.Size(int64(len(text))), tokens)
	if total*2 > c.info.ContextSize {
		c.say("The files take %d of the context's %d tokens; /file none drops them.", total, c.info.ContextSize)
	}
	return nil
}

// tokens counts the tokens of a file. One that does not fit into the context is refused.
func (c *chat) tokens(ctx context.Context, path, text string) (int, error) {
	long := func() error {
		return Input("/file %s: %s do not fit into the context of %d tokens", path, render.Size(int64(len(text))),
			c.info.ContextSize).Hint("give a smaller part of it, or use a larger --ctx-size")
	}
	if c.gen.Fits(text) != nil {
		return 0, long()
	}
	list, err := c.gen.Tokenize(ctx, "", text, false)
	if err == nil && len(list) >= c.info.ContextSize {
		err = long()
	}
	return len(list), err
}

// systemText returns a system message: the value itself, or the text of FILE if the value is @FILE.
func (c *chat) systemText(value string) (string, error) {
	if path, ok := strings.CutPrefix(value, "@"); ok {
		text, err := readRegular("/system", path)
		if err == nil && strings.TrimSpace(text) == "" {
			err = Input("/system @%s: the file is empty", path).Hint("/system none removes the message")
		}
		return text, err
	}
	return value, nil
}

// save writes the conversation to a new file that only the user can read: the messages as JSON, or what was shown.
func (c *chat) save(_ context.Context, path string) error {
	if path == "" {
		return Usage("/save needs a file").Hint("name one: /save FILE")
	}
	data, err := c.talk.Markdown(render.CleanLine(c.info.Name)), error(nil)
	if isJSON(path) {
		data, err = c.talk.JSON(c.model.Name)
	}
	if err == nil {
		err = writeNew(home(path), data)
	}
	if errors.Is(err, fs.ErrExist) {
		return Input("/save %s: the file exists already", path).From(err).Hint("choose another name")
	}
	if err != nil {
		return unreadable("/save", path, err)
	}
	c.say("Saved to %s.", path)
	return nil
}

func isJSON(path string) bool { return strings.EqualFold(filepath.Ext(path), ".json") }

// writeNew writes a new file that only the user can read. A file that could not be written whole is removed.
func writeNew(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// load reads a conversation that takes the place of this one.
func (c *chat) load(_ context.Context, path string) error {
	if path == "" {
		return Usage("/load needs a file").Hint("name one: /load FILE.json")
	}
	text, err := readRegular("/load", path)
	if err != nil {
		return err
	}
	talk, model, err := conversation.Parse([]byte(text))
	if err != nil {
		return Input("/load %s: %v", path, err).From(err).Hint("give a file that /save FILE.json wrote")
	}
	old := c.said()
	c.talk, c.stats, c.again, c.changed = talk, stats{}, 0, true
	c.say("Loaded %s from %s.", Count(c.said(), "message", "messages"), path)
	if old > 0 {
		c.say("They take the place of %s.", Count(old, "message", "messages"))
	}
	if model != "" && model != c.model.Name {
		c.say("The model was %s; this is %s. /model changes it.", model, c.model.Name)
	}
	return nil
}

// said returns the number of messages without those of the system.
func (c *chat) said() int { return len(c.talk.Messages()) - len(c.talk.System) }

// readRegular reads the text of a file that a command names. It refuses folders, pipes and devices, which could block
// the chat or never end.
func readRegular(command, path string) (string, error) {
	name := home(path)
	info, err := os.Stat(name)
	if err != nil {
		return "", unreadable(command, path, err)
	}
	if !info.Mode().IsRegular() {
		what := "it is not a file with text"
		if info.IsDir() {
			what = "it is a folder"
		}
		return "", Input("%s %s: %s", command, path, what).Hint("name a text file")
	}
	f, err := os.Open(name)
	if err != nil {
		return "", unreadable(command, path, err)
	}
	defer f.Close()
	return readText(command+" "+path, f)
}

// home replaces a ~ at the begin of a path with the user's home folder.
func home(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if dir, err := os.UserHomeDir(); err == nil {
			return filepath.Join(dir, rest)
		}
	}
	return path
}

// completeJSON returns the paths of folders and of JSON files.
func completeJSON(c *chat, typed string) []string {
	return slices.DeleteFunc(completePaths(c, typed), func(path string) bool {
		return !strings.HasSuffix(path, "/") && !isJSON(path)
	})
}

// pathLimit is the most entries of a folder that a completion looks at.
const pathLimit = 10_000

// completePaths returns the paths that begin with what was typed. Those of folders end in a slash. Names that could not
// be typed as one clean line are left out.
func completePaths(_ *chat, typed string) (paths []string) {
	folder, base := typed[:strings.LastIndexByte(typed, '/')+1], typed[strings.LastIndexByte(typed, '/')+1:]
	dir, err := os.Open(home(folder + "."))
	if err != nil {
		return nil
	}
	defer dir.Close()
	entries, _ := dir.ReadDir(pathLimit) // a completion offers what it can
	for _, e := range entries {
		name := e.Name()
		hidden := strings.HasPrefix(name, ".") && !strings.HasPrefix(base, ".")
		if hidden || !strings.HasPrefix(name, base) || render.CleanLine(name) != name {
			continue
		}
		path := folder + name
		if info, err := os.Stat(home(path)); err == nil && info.IsDir() {
			path += "/"
		}
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return paths
}
