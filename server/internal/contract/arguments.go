package contract

import (
	"encoding/json"
	"strings"

	"runner/server/wire"
)

// Arguments returns the arguments of a call in a request as the model wrote them, from a field that has them as JSON. A
// text contains what is not JSON.
func Arguments(raw json.RawMessage) string {
	var text string
	switch {
	case !wire.Given(raw):
		return "{}"
	case json.Unmarshal(raw, &text) == nil:
		return text
	}
	return string(raw)
}

// Object returns the arguments of a call as a JSON object, which is empty if the model wrote nothing. ok is false if
// they are something else.
func Object(arguments string) (object json.RawMessage, ok bool) {
	text := strings.TrimSpace(arguments)
	if text == "" {
		return json.RawMessage("{}"), true
	}
	return json.RawMessage(text), text[0] == '{' && json.Valid([]byte(text))
}
