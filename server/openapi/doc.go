// Package openapi is the description of the server that GET /openapi.json returns: OpenAPI 3.1, with all formats that
// the server has in one document.
//
// A format has two files in its folder openapi. Those of the other routes are in spec. One file, api.json or
// common.json, is written by hand. It describes the operations and the schemas without a Go type: unions, and frames of
// streams that are encoded without types. The other, generated.json, has the schemas of requests and answers that have
// a Go type: see the command in generate, which go generate runs. A field is declared once, in its struct: the comment
// above it is its description, and the tag api has its limits and values.
//
// A format's files name only schemas of their own and of spec. If two formats have the same operation, both describe
// it. All files are joined when the document is first requested.
//
// Tests keep the document true. They compare the routes and permissions with the server, the generated schemas with the
// Go types, and the fields of other schemas with the structs that they describe. They check that handlers refuse the
// values that the document forbids, and that answers match their schemas. Every field of an answer must be described.
//
// In a file, each operation states only its own facts. x-permission is the permission that it needs ("own" for the
// token of a participant instead of an API key). x-errors lists the statuses of its errors, except those that every
// operation can return. x-error names the schema of its errors if it differs from the file's. All three are replaced by
// their OpenAPI form. A format with secrets of its own describes them in securitySchemes.
//
// The document has no secrets and nothing about the models, so reading it needs no API key. It is served as
// application/json, which every tool accepts, with an ETag.
package openapi
