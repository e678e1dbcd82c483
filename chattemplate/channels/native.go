package channels

import (
	"errors"
	"strings"

	"runner/chattemplate"
	"runner/chattemplate/channels/harmony"
	"runner/reasoning"
)

// native renders harmony without a template.
//
// It uses the caller's variables that gpt-oss's own template has: model_identity, builtin_tools (a list of "browser"
// and "python") and reasoning_effort. Other variables have no effect, as in a template.
type native struct{ tokens harmony.Tokens }

func (n native) render(b *chattemplate.Builder, c *chattemplate.Conversation) (chattemplate.Start, error) {
	system, effort, err := nativeSystem(c)
	if err != nil {
		return 0, err
	}
	msgs := []harmony.Message{{Role: harmony.RoleSystem, Content: system.Text()}}

	prompts := 0
	for prompts < len(c.Messages) && chattemplate.IsPrompt(c.Messages[prompts].Role) {
		prompts++
	}
	developer := harmony.Developer{Instructions: chattemplate.JoinPrompts(c.Messages[:prompts])}
	for _, t := range c.Tools {
		developer.Functions = append(developer.Functions, harmony.Function{
			Name: t.Name, Description: t.Description, Parameters: t.Parameters,
		})
	}
	if f := c.ResponseFormat; f != nil {
		developer.ResponseFormats = []harmony.ResponseFormat{{Name: f.Name, Description: f.Description, Schema: f.Schema}}
	}
	if !developer.Empty() {
		text, err := developer.Text()
		if err != nil {
			return 0, definitionError(err)
		}
		msgs = append(msgs, harmony.Message{Role: harmony.RoleDeveloper, Content: text,
			Unseen: chattemplate.AnyUnseen(c.Messages[:prompts], chattemplate.UnseenText)})
	}
	for _, m := range c.Messages[prompts:] {
		if msgs, err = n.append(msgs, &m, &system); err != nil {
			return 0, err
		}
	}
	if !c.KeepReasoning {
		msgs = harmony.DropAnalysis(msgs, !c.NoGenerationPrompt)
	}
	for _, m := range msgs {
		n.tokens.Write(b, m)
	}
	if c.NoGenerationPrompt {
		return chattemplate.StartTurn, nil
	}
	n.tokens.OpenTurn(b)
	if effort == reasoning.EffortNone && !offers(c) {
		n.openAnswer(b, chattemplate.StartTurn)
		return chattemplate.StartAnswer, nil
	}
	return chattemplate.StartTurn, nil
}

// nativeSystem returns the system message and the effort that takes effect.
func nativeSystem(c *chattemplate.Conversation) (harmony.System, reasoning.Effort, error) {
	s := harmony.System{Functions: len(c.Tools) > 0}
	if !c.Now.IsZero() {
		s.CurrentDate = c.Now.Format("2006-01-02")
	}
	effort := c.Effort
	if arg, ok := c.Args["reasoning_effort"]; ok {
		text, ok := arg.(string)
		if !ok || text == "" {
			return s, "", chattemplate.ArgError("reasoning_effort", "give a string", "is not a string")
		}
		if effort != reasoning.EffortDefault && effort != reasoning.Effort(text) {
			return s, "", chattemplate.ArgError("reasoning_effort", "set the effort in one place",
				"contradicts the request's effort")
		}
		effort = reasoning.Effort(text)
	}
	switch effort {
	case reasoning.EffortDefault:
	case reasoning.EffortNone, reasoning.EffortMinimal, reasoning.EffortLow:
		s.Effort = "low"
	case reasoning.EffortMedium, reasoning.EffortHigh:
		s.Effort = string(effort)
	default:
		return s, "", chattemplate.ArgError("reasoning_effort", "the efforts are none, minimal, low, medium and high",
			"unknown effort")
	}
	if arg, ok := c.Args["model_identity"]; ok {
		if s.Identity, ok = arg.(string); !ok {
			return s, "", chattemplate.ArgError("model_identity", "give a string", "is not a string")
		}
	}
	if arg, ok := c.Args["builtin_tools"]; ok {
		list, ok := arg.([]any)
		for _, e := range list {
			s.Browser = s.Browser || e == browser
			s.Python = s.Python || e == python
			name, _ := e.(string)
			ok = ok && builtins[name] != nil
		}
		if !ok {
			return s, "", chattemplate.ArgError("builtin_tools", `give a list of "browser" and "python"`,
				"is not a list of known tools")
		}
	}
	return s, effort, nil
}

// append adds one message of the conversation, which can become several messages of harmony.
func (n native) append(msgs []harmony.Message, m *chattemplate.Message, system *harmony.System) ([]harmony.Message,
	error) {
	unseen := m.Unseen&chattemplate.UnseenText != 0
	switch m.Role {
	case chattemplate.System, chattemplate.Developer:
		text, err := harmony.Developer{Instructions: m.Content}.Text()
		if err != nil || text == "" {
			return msgs, err
		}
		return append(msgs, harmony.Message{Role: harmony.RoleDeveloper, Content: text, Unseen: unseen}), nil
	case chattemplate.User:
		return append(msgs, harmony.Message{Role: harmony.RoleUser, Name: m.Name, Content: m.Content,
			Unseen: unseen}), nil
	case chattemplate.ToolRole:
		return append(msgs, harmony.Message{
			Role: harmony.RoleTool, Name: recipient(m.ToolName, system), Recipient: string(harmony.RoleAssistant),
			Channel: toolChannel(m.ToolName, system), Content: m.Content, Unseen: unseen,
		}), nil
	}
	said := func(channel, text string) {
		if text != "" {
			msgs = append(msgs, harmony.Message{Role: harmony.RoleAssistant, Channel: channel, Content: text, Unseen: unseen})
		}
	}
	if said(harmony.Analysis, m.Reasoning); m.Reasoning != "" {
		msgs[len(msgs)-1].Unseen = m.Unseen&chattemplate.UnseenReasoning != 0
	}
	said(harmony.Commentary, m.Preamble)
	switch {
	case len(m.ToolCalls) > 0:
		said(harmony.Commentary, m.Content)
	case m.Content == "" && m.Reasoning == "" && m.Preamble == "":
		msgs = append(msgs, harmony.Message{Role: harmony.RoleAssistant, Channel: harmony.Final})
	default:
		said(harmony.Final, m.Content)
	}
	for _, call := range m.ToolCalls {
		h := harmony.Message{
			Role: harmony.RoleAssistant, Recipient: recipient(call.Name, system), Channel: toolChannel(call.Name, system),
			ContentType: contentJSON, Constrain: true, Content: call.Arguments,
			Unseen: m.Unseen&chattemplate.UnseenCalls != 0,
		}
		if h.Channel == harmony.Analysis {
			h.ContentType, h.Constrain = contentCode, false
		}
		msgs = append(msgs, h)
	}
	return msgs, nil
}

// builtin reports whether name is an offered built-in tool. These have namespaces of their own.
func builtin(name string, s *harmony.System) bool {
	return callsBuiltin(name) && (s.Python && name == python || s.Browser && name != python)
}

func recipient(name string, s *harmony.System) string {
	if builtin(name, s) || strings.HasPrefix(name, functions) {
		return name
	}
	return functions + name
}

// toolChannel returns the channel for calls of a tool and for its results: commentary for functions, analysis for
// built-in tools.
func toolChannel(name string, s *harmony.System) string {
	if builtin(name, s) {
		return harmony.Analysis
	}
	return harmony.Commentary
}

// definitionError makes the error for a tool or a response format that cannot be rendered.
func definitionError(err error) error {
	if e := (*harmony.SchemaError)(nil); errors.As(err, &e) && e.What == "function" {
		return chattemplate.ToolError(e.Index, chattemplate.DefinitionAdvice, e.Err)
	}
	return &chattemplate.ConversationError{Message: -1, Tool: -1, Err: err, Advice: chattemplate.DefinitionAdvice}
}

func (n native) endReasoning(b *chattemplate.Builder) {
	b.Control(n.tokens.End)
	n.tokens.OpenTurn(b)
}

func (n native) openAnswer(b *chattemplate.Builder, from chattemplate.Start) {
	switch from {
	case chattemplate.StartReasoning:
		n.endReasoning(b)
		n.tokens.OpenFinal(b)
	case chattemplate.StartTurn:
		n.tokens.OpenFinal(b)
	}
}

func (n native) summaryTurn(b *chattemplate.Builder, prompt string) {
	n.tokens.Write(b, harmony.Message{Role: harmony.RoleDeveloper, Content: prompt})
	n.tokens.OpenTurn(b)
	n.tokens.OpenFinal(b)
}
