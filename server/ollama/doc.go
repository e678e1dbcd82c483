// Package ollama serves Ollama's own API (https://github.com/ollama/ollama, docs/api.md) from local models.
//
// It decodes requests into [generation.Request] and encodes events as JSON lines. Through a [Library] clients pull,
// name and delete models on the disk, if they have the permission. Pulling a model that is there succeeds for
// everybody, because scripts do that first. Models cannot be made or published: those endpoints answer 501 and say
// what to do instead.
//
// Rules:
//
//   - A model is found by its name in the server's list, with or without the tag "latest".
//   - Reasoning is in the field thinking, if think in the request is true or a level. With think false the model does
//     not reason. Without think the reasoning is hidden, unlike in Ollama.
//   - The field thinking of messages in a request is the client's own text. It is used while calls are pending.
//   - A call is sent as a whole. Its arguments are an object. If the model wrote something else, the call is part of
//     the text instead.
//   - Fields that are not supported (images, templates, text around a gap) are refused by name. Options about loading
//     are ignored. Unknown options and fields give the warning field_ignored.
//   - A raw prompt may contain control tokens, so it needs the permission to see all reasoning.
package ollama
