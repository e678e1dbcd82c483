// Package wire holds what the server's wire formats share: the principal of a request, the models, errors, reading
// bodies and writing streams.
//
// It serves nothing. Each format is a package of its own: it decodes requests into [generation.Request], encodes
// events, and lists its routes as [Route] values. Package server adds authentication, limits and metrics. Formats
// and package server use a model only through the interfaces [Model] and [Loaded]. They do not import package runner.
//
// Rules: A handler returns an error, and the format of its route answers with it in its own shape. Log lines of
// errors contain nothing of prompts, reasoning, answers or keys. A stream consists of whole frames, and each is sent
// at once.
package wire
