// Package server is the room of the HTTP side: routes, authentication, limits and server-sent events.
//
// It holds no model logic. It drives runner.Runner; each wire format is a package below it that decodes requests into
// runner.Request and encodes events, and none of them imports package backend. Nothing is served yet.
package server
