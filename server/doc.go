// Package server is the HTTP server: routes, authentication, limits, metrics, health and shutdown.
//
// It knows no wire format, no engine and no runner. Each wire format is a package below it that is mounted on a
// [Server]. A model is what the interfaces of package wire say; package pool keeps the models, and whoever makes
// the pool says how to open them. Package keys has the API keys, and package wire what the formats share.
//
// docs/architecture.md is the map of the source.
//
// Rules: A request's principal is known before its body is read. Without keys only this machine is served. Nothing of
// prompts, reasoning, answers or keys reaches the log or the metrics. A server that stops ends every stream after a
// whole frame.
package server
