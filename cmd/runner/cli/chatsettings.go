package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"runner/chattemplate"
	"runner/cmd/runner/flags"
	"runner/cmd/runner/render"
	"runner/reasoning"
)

// errNoModel means that a chat has no model.
var errNoModel = Input("no model is open").Hint("open one with /model NAME")

func effortNames() []string {
	names := []string{effortName(reasoning.EffortDefault)}
	for _, e := range efforts {
		names = append(names, string(e))
	}
	return names
}

// badValue is the error of a command whose value is none of names.
func badValue(command, value string, names []string) error {
	return Usage("%s cannot be %q", command, render.CleanLine(value)).Hint("use %s", flags.Alternatives(names))
}

// choose sets what a command changes to the value with a name. Without a name it changes nothing.
func choose[T any](command, name string, names []string, values []T, to *T) error {
	if name == "" {
		return nil
	}
	i := slices.Index(names, name)
	if i < 0 {
		return badValue(command, name, names)
	}
	*to = values[i]
	return nil
}

func (c *chat) setReasoning(_ context.Context, value string) error {
	req := &c.options.request
	if err := choose("/reasoning", value, visibilityNames, visibilities, &req.Visibility); err != nil {
		return err
	}
	c.say("Reasoning shown: %s.", req.Visibility)
	return nil
}

func (c *chat) setEffort(_ context.Context, value string) error {
	req, all := &c.options.request, append([]reasoning.Effort{reasoning.EffortDefault}, efforts...)
	if err := choose("/effort", value, effortNames(), all, &req.Effort); err != nil {
		return err
	}
	c.say("Reasoning effort: %s.", effortName(req.Effort))
	return nil
}

const (
	summaryOn       = "on"
	summaryOff      = "off"
	summaryConcise  = "concise"
	summaryDetailed = "detailed"
)

var summaryNames = []string{summaryOn, summaryOff, summaryConcise, summaryDetailed}

func (c *chat) setSummary(_ context.Context, value string) error {
	req := &c.options.request
	switch value {
	case "":
	case summaryOn:
		req.Visibility = reasoning.VisibilitySummary
	case summaryConcise, summaryDetailed:
		req.Visibility, req.DetailedSummary = reasoning.VisibilitySummary, value == summaryDetailed
	case summaryOff:
		if req.Visibility == reasoning.VisibilitySummary {
			req.Visibility = reasoning.VisibilityNone
		}
	default:
		return badValue("/summary", value, summaryNames)
	}
	length := summaryConcise
	if req.DetailedSummary {
		length = summaryDetailed
	}
	if req.Visibility == reasoning.VisibilitySummary {
		c.say("Summary of the reasoning: on, %s.", length)
	} else {
		c.say("Summary of the reasoning: off. Reasoning shown: %s.", req.Visibility)
	}
	return nil
}

// setSystem shows, sets or removes the system message.
func (c *chat) setSystem(_ context.Context, text string) error {
	had := len(c.talk.System) > 0
	switch text {
	case "":
		if !had {
			c.say("There is no system message.")
			return nil
		}
		fmt.Fprintln(c.app.Stdout(), chattemplate.JoinPrompts(c.talk.System))
		return nil
	case valueNone:
		c.talk.System = nil
		c.changed = c.changed || c.said() > 0
		if !had {
			c.say("There was no system message.")
			return nil
		}
		c.say("The system message is removed.")
		return nil
	}
	text, err := c.systemText(text)
	if err != nil {
		return err
	}
	c.talk.System = []chattemplate.Message{{Role: chattemplate.System, Content: text}}
	c.changed = c.changed || c.said() > 0
	if had {
		c.say("The system message is changed. It holds from the next message on.")
	} else {
		c.say("The system message is set. It holds from the next message on.")
	}
	return nil
}

// setModel shows or changes the model. A model that cannot be found or has no engine leaves the old one open. The old
// one is closed before the new one is loaded, because there may be memory for one only.
func (c *chat) setModel(ctx context.Context, name string) error {
	if name == "" {
		if c.gen == nil {
			return errNoModel
		}
		c.say("%s: %s, context of %d tokens.", c.model.Name, c.info.Name, c.info.ContextSize)
		return nil
	}
	m, err := c.app.resolve(ctx, name)
	if err != nil {
		return err
	}
	at, err := c.app.place(ctx, m)
	if err != nil {
		return err
	}
	before := c.model
	if err = c.close(); err == nil {
		err = c.openModel(ctx, at)
	}
	if err == nil {
		c.say("%s, context of %d tokens. The conversation goes on.", c.info.Name, c.info.ContextSize)
		return nil
	}
	if c.notOpened(name, err); ctx.Err() != nil || c.interrupted {
		return ErrInterrupted
	}
	if at, err = c.app.placeAgain(ctx, before); err == nil {
		err = c.openModel(ctx, at)
	}
	if err != nil {
		c.notOpened(before.Name, err)
		return errNoModel
	}
	c.say("%s is open again.", before.Name)
	return nil
}

// notOpened says why a model is not open.
func (c *chat) notOpened(name string, err error) {
	if errors.Is(err, ErrInterrupted) {
		fmt.Fprintln(c.app.out) // ends the line in which the terminal shows ^C
		c.say("Stopped; %s is not opened.", name)
		return
	}
	c.app.Complain(errorLine(err))
}

// openModel opens a model. The first Ctrl-C stops that. A second one before it has stopped sets c.interrupted.
func (c *chat) openModel(ctx context.Context, m placed) error {
	var err error
	presses := c.interruptibly(ctx, func(ctx context.Context) { c.gen, c.loaded, err = c.open(ctx, m) })
	c.interrupted = presses > 1
	if err != nil {
		c.gen = nil // not a nil in an interface
		return err
	}
	c.model, c.info = m.Model, c.gen.Info()
	return nil
}
