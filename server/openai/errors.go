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

// wireError converts an error of any kind. form is the field with the answer's form; may be empty.
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
		e.Param = wire.Index(params["Tools"], c.Tool)
	}
	return e
}

// fieldNames are this format's names of the fields of [generation.Request]. An error about Sampling that names no
// setting is about the bias, because the others were found before.
var fieldNames = wire.Names[ChatRequest]("", map[string]string{
	"Prompt": "prompt", "PromptTokens": "prompt", "Tokens": "input",
})

// completionNames are the names that differ in completions.
var completionNames = wire.Names[CompletionRequest]("", nil)
