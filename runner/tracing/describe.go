package tracing

import (
	"encoding/json"
	"errors"
	"slices"

	"runner/chattemplate"
	"runner/generation"
	"runner/reasoning/trace"
)

// errRequest replaces an encoder's error, which may quote the request.
var errRequest = errors.New("the request cannot be written as JSON")

// describe fills in what the run starts from. The tags of a request's fields say what is recorded.
func describe(b *trace.Begin, req *generation.Request) error {
	prompt, settings := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	text, err := json.Marshal(req)
	if err == nil {
		err = json.Unmarshal(text, &settings)
	}
	if err == nil {
		err = json.Unmarshal(settings["sampling"], &settings)
	}
	if err != nil {
		return errRequest
	}
	b.Tools = settings["tools"]
	for _, name := range [...]string{"messages", "template_args", "text", "tokens"} {
		if value, ok := settings[name]; ok {
			prompt[name] = value
		}
		delete(settings, name)
	}
	delete(settings, "sampling")
	delete(settings, "tools")
	if schema := req.Form.Schema(); schema != nil {
		settings["schema"] = schema
	}
	if !req.Form.IsZero() {
		settings["form"], _ = json.Marshal(req.Form.String())
	}
	if b.Prompt, err = json.Marshal(prompt); err == nil {
		b.Sampling, err = json.Marshal(settings)
	}
	if err != nil {
		return errRequest
	}
	return nil
}

// goal returns the user's last message, or the text of a raw prompt.
func goal(b *trace.Begin) string {
	var p generation.Request
	if json.Unmarshal(b.Prompt, &p) != nil {
		return ""
	}
	for _, m := range slices.Backward(p.Messages) {
		if m.Role == chattemplate.User {
			return m.Content
		}
	}
	return p.Prompt
}
