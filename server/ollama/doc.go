// Package ollama serves Ollama's own API (https://github.com/ollama/ollama, docs/api.md) from local models.
//
// It decodes requests into [generation.Request] and encodes events as JSON lines; it generates nothing, and cannot fetch,
// make, copy or delete models: those endpoints answer 501 and say what to do instead. To pull a model that is served
// is a success, because scripts do that first.
//
// Rules: a model is found by its name as the server lists it, and with or without the tag "latest". Reasoning comes
// in the field thinking where the request has think true or a level, and only there; think false skips it. Without
// think it is hidden, other than in Ollama. The thinking of messages that come back is the client's own text, and
// counts while calls are pending. A call comes whole, its arguments an object; what a model wrote instead of one
// stands beside empty arguments in raw_arguments. What a local model cannot honour (images, templates of the
// request, text around a gap) is refused with the field's name; options about loading, unknown options and unknown
// fields are ignored, as in Ollama. A raw prompt is given to the model with its control tokens, so it needs the
// permission to see all reasoning.
package ollama
