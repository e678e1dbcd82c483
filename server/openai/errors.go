package openai

import (
	"errors"
	"maps"
	"net/http"

	"runner/chattemplate"
	"runner/server/internal/apierror"
	"runner/server/wire"
)

// WriteError implements [wire.Format].
func (a *API) WriteError(w http.ResponseWriter, err error) { apierror.Write(w, wireError(err, "")) }

// wireError says what an error amounts to, with the names of this API's fields. form is the field that the answer's
// form came from.
func wireError(err error, form string) *wire.Error {
	params := fieldNames
	if form != "" {
		params = maps.Clone(fieldNames)
		params["Form"] = form
	}
	e := wire.FromError(err, params)
	var c *chattemplate.ConversationError
	switch {
	case !errors.As(err, &c) || e.Param != params["Messages"]:
	case c.Arg != "":
		e.Param = params["TemplateArgs"] + "." + wire.Clip(c.Arg)
	case c.Tool >= 0:
		e.Param = index(params["Tools"], c.Tool)
	}
	return e
}

// fieldNames are the fields of [generation.Request] as requests call them. What else is wrong about Sampling was
// refused before.
var fieldNames = map[string]string{
	"Messages": "messages", "Prompt": "prompt", "PromptTokens": "prompt", "Tools": "tools", "ToolChoice": "tool_choice",
	"ToolName": "tool_choice", "ResponseFormat": "response_format", "Form": "response_format", "Visibility": "reasoning",
	"Effort": "reasoning_effort", "Budget": "reasoning_budget", "Strategy": "reasoning_strategy",
	"MaxTokens": "max_completion_tokens",
	"Stop":      "stop", "Sampling": "logit_bias", "TemplateArgs": "chat_template_kwargs", "Seal": "reasoning_seal",
	"Tokens": "input", "Delegation": "delegation",
}
