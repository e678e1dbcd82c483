package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rivo/uniseg"

	"runner/chattemplate"
	"runner/cmd/runner/conversation"
	"runner/cmd/runner/flags"
	"runner/cmd/runner/render"
	"runner/reasoning/trace"
	"runner/reasoning/trace/keys"
)

// keepOptions are the flags that keep a chat's conversation and go on with it, and what the user typed.
type keepOptions struct {
	on, resume bool
	// history is one of the values of --history.
	history string
}

const (
	keepFlag   = "keep-conversation"
	resumeFlag = "continue"
)

// Values of --history. With historyAuto there is a history, but none of a conversation that is kept sealed.
const (
	historyAuto = "auto"
	historyOn   = "on"
	historyOff  = "off"
)

func (o *keepOptions) flags() flags.Table {
	return flags.List(
		flags.Switch(keepFlag, &o.on, "keep a chat's conversation, sealed like a trace, for --"+resumeFlag),
		flags.Switch(resumeFlag, &o.resume, "go on with the conversation that was kept last, and keep it",
			flags.CommandLine),
		flags.Name("history", &o.history, []string{historyAuto, historyOn, historyOff},
			"keep what you type in a chat, in the clear, for the keys Up and Ctrl-R; auto does not where the conversation is "+
				"kept sealed"))
}

// typed returns the path of the history, or "" if what is typed is not kept on disk.
func (o *keepOptions) typed() string {
	if o.history == historyOff || o.history == historyAuto && (o.on || o.resume) {
		return ""
	}
	return historyPath()
}

// check refuses the flags for anything but a chat. The setting of --keep-conversation has no effect there.
func (o *keepOptions) check(a *App, chatting bool) error {
	for _, f := range []struct {
		name string
		on   bool
	}{{resumeFlag, o.resume}, {keepFlag, o.on && a.Given(keepFlag)}} {
		if f.on && !chatting {
			return Usage("--%s is for a chat", f.name).Hint("leave out the prompt, and use a terminal")
		}
	}
	return nil
}

// keptFile returns the path of the conversation that is kept.
func keptFile() (string, error) {
	dir, err := DataFolder()
	return filepath.Join(dir, "conversation.sealed"), err
}

// resume opens the conversation that --continue goes on with. It returns nil without the flag. prompted says that the
// command has a prompt.
func (a *App) resume(o *runOptions, prompted bool) (*conversation.Kept, error) {
	if !o.keep.resume {
		return nil, nil
	}
	if err := o.keep.check(a, !prompted && a.inTerminal && a.outTerminal); err != nil {
		return nil, err
	}
	return a.openKept(&o.sealing.Keys)
}

// openKept asks for the keyring's passphrase and opens the conversation that was kept last.
func (a *App) openKept(k *KeyringFlags) (*conversation.Kept, error) {
	path, err := keptFile()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, Input("no conversation is kept").From(err).Hint("keep one with runner run --%s", keepFlag)
	}
	ring, err := k.Load()
	if err != nil {
		return nil, err
	}
	phrase, err := a.Passphrase(k, false)
	if err != nil {
		return nil, err
	}
	identities, err := ring.Unlock(phrase)
	if errors.Is(err, keys.ErrPassphrase) {
		return nil, Input("%v", err).From(err).Hint("give the one of runner trace keys new")
	}
	if err != nil {
		return nil, err
	}
	kept, err := conversation.Open(path, identities...)
	if err != nil {
		return nil, unopened(path, err)
	}
	return kept, nil
}

// unopened explains why the kept conversation cannot be opened.
func unopened(path string, err error) error {
	e := Input("the conversation %s cannot be opened: %s", path, strings.TrimPrefix(err.Error(), "sealed trace: ")).
		From(err).Hint("remove the file and begin another chat")
	var at *fs.PathError
	switch {
	case errors.As(err, &at):
		e.Text = fmt.Sprintf("the conversation %s cannot be opened: %v", path, at.Err)
		e.Advice = "correct that, or remove the file"
	case errors.Is(err, trace.ErrNotRecipient):
		e.Advice = "name the keyring of that time with --keyring"
	case errors.Is(err, trace.ErrVersion):
		e.Advice = "use a newer version of this program"
	}
	return e
}

// keeper keeps a chat's conversation on disk, sealed.
type keeper struct {
	path string
	to   []trace.Recipient
	now  func() time.Time
}

// newKeeper returns a keeper that seals to the keys that traces are sealed to.
func (a *App) newKeeper(s *Sealing) (*keeper, error) {
	path, err := keptFile()
	if err != nil {
		return nil, err
	}
	to, err := s.Recipients(a)
	if err != nil {
		return nil, err
	}
	k := &keeper{path: path, to: to, now: time.Now}
	if a.engine.Clock != nil {
		k.now = a.engine.Clock
	}
	return k, nil
}

// keep replaces what is kept. An empty conversation is removed.
func (k *keeper) keep(talk conversation.Conversation, model string) error {
	if talk.Last() < 0 {
		if err := os.Remove(k.path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if _, err := os.Stat(model); err == nil { // a path, which must be found from another folder too
		if whole, err := filepath.Abs(model); err == nil {
			model = whole
		}
	}
	kept := conversation.Kept{Conversation: talk, Model: model, Saved: k.now()}
	return kept.Keep(k.path, k.to)
}

// keep keeps the conversation if it has changed, where the user asked for that.
func (c *chat) keep() {
	if c.keeper == nil || !c.changed {
		return
	}
	if err := c.keeper.keep(c.talk, c.model.Name); err != nil {
		c.app.Complain("warning: the conversation is not kept: " + errorLine(err))
		return
	}
	c.changed = false
}

// goesOn says that the chat goes on with a kept conversation.
func (c *chat) goesOn(kept *conversation.Kept) {
	c.say("Going on with %s of %s.", Count(c.said(), "message", "messages"),
		kept.Saved.Local().Format("2006-01-02 15:04"))
	if was := cmp.Or(kept.Model, c.model.Name); was != c.model.Name {
		c.say("The model was %s; this is %s.", was, c.model.Name)
	}
	c.recallLast()
}

// recallLast shows the beginning of the last question and of its answer, as a reminder.
func (c *chat) recallLast() {
	last := c.talk.Last()
	if last < 0 {
		return
	}
	answer := ""
	for _, m := range c.talk.Turns[last].Messages {
		if m.Role == chattemplate.Assistant {
			answer = cmp.Or(m.Content, answer)
		}
	}
	c.remind(conversation.HeadingUser, c.talk.Turns[last].Messages[0].Content)
	c.remind(conversation.HeadingAnswer, answer)
}

// remindedRows is how many rows of a message a reminder shows.
const remindedRows = 3

// remind shows the first rows of a message.
func (c *chat) remind(heading, text string) {
	if strings.TrimSpace(text) == "" {
		return
	}
	width := min(c.app.helpWidth(), render.ProseWidth)
	const more = " …"
	rows := strings.Split(render.Wrap(heading+": "+text, width-uniseg.StringWidth(more)), "\n")
	if len(rows) > remindedRows {
		rows = rows[:remindedRows]
		rows[remindedRows-1] += more
	}
	for _, row := range rows {
		c.say("%s", render.Clipped(row, width))
	}
}
