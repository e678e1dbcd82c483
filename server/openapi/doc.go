// Package openapi is the description of the server that GET /openapi.json answers with: OpenAPI 3.1, all formats in
// one document.
//
// The files in spec are written by hand, one for each format, and joined when the program starts. A generator would
// have little to go by: half of the fields are kept as raw JSON until their kind is known, ranges stand in code,
// answers are encoded without types, and doc comments speak to who reads Go, not to who writes a client. What a
// generator would be good for, that the document stays true, the tests of this package see to. They compare routes
// and permissions with those of the server, fields with those of the Go types that requests are decoded into and
// answers encoded from, ranges and kinds of values with what handlers refuse, and what handlers answer with the
// schemas, in which no field may be missing then.
//
// In a file an operation says what is its own. x-permission is the permission that it takes ("own" for a token in
// place of an API key), x-errors the statuses that it can fail with beside those that any operation can, and
// x-error the schema of its errors where that is not the file's; they are replaced by what OpenAPI has for them.
//
// The document holds no secrets and nothing of the models, so it takes no API key. It is served as
// application/json, which every tool accepts, with an ETag. It describes all formats, whichever are mounted.
package openapi
