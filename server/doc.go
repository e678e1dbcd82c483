// Package server is the HTTP side: routes, authentication, limits, metrics, health and the end of a server's life.
//
// It holds no model logic and knows no wire format: each is a package below it that decodes requests into
// generation.Request and encodes events, and is mounted on a [Server]. None of them imports package backend. Package
// pool keeps the models, package keys the API keys, and package wire what formats share.
//
// Rules: who makes a request is known before any of it is read; without keys only the machine itself is served;
// nothing of a prompt, of reasoning, of an answer or of a key reaches the log, a metric or its labels; a stopping
// server cuts no frame in two.
package server
