// Package openapi is the description of the server that GET /openapi.json returns: OpenAPI 3.1, with all formats in one
// document.
//
// The files in spec are written by hand, one for each format, and joined when the program starts. A generator would
// find too little in the code: half of the fields stay raw JSON until their kind is known, ranges are checked in
// code, answers are encoded without types, and doc comments address readers of Go, not authors of clients. The
// tests of this package keep the document true instead. They compare routes and permissions with those of the
// server. They compare fields with those of the Go types that requests are decoded into and answers are encoded
// from. They compare ranges and kinds of values with what handlers refuse. They compare the handlers' answers with
// the schemas, and then no field may be missing.
//
// In a file, each operation states only its own facts. x-permission is the permission that it needs ("own" for a token
// instead of an API key). x-errors lists the statuses of its errors, except those that every operation can return.
// x-error names the schema of its errors if it differs from the file's. All three are replaced by their OpenAPI form.
//
// The document contains no secrets and nothing about the models, so it needs no API key. It is served as
// application/json, which every tool accepts, with an ETag. It describes all formats, whether they are mounted or not.
package openapi
