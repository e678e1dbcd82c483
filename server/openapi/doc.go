// Package openapi is the description of the server that GET /openapi.json returns: OpenAPI 3.1, with all formats in one
// document.
//
// The schemas of requests and answers that have a Go type are generated from it into spec/generated.json: see the
// command in generate, which go generate runs. A field is declared once, in its struct: the comment above it is its
// description, and the tag api has its limits and values. The other files in spec are written by hand, one for each
// format. They describe the operations, and the schemas that no Go type has: unions, and frames of streams that are
// encoded without types. All files are joined when the program starts.
//
// Tests keep the document true. They compare routes and permissions with those of the server, generated schemas
// with the Go types, and the fields of the other schemas with the structs that they describe. They compare ranges
// and kinds of values with what handlers refuse. They compare the handlers' answers with the schemas, and then no
// field may be missing.
//
// In a file, each operation states only its own facts. x-permission is the permission that it needs ("own" for a token
// instead of an API key). x-errors lists the statuses of its errors, except those that every operation can return.
// x-error names the schema of its errors if it differs from the file's. All three are replaced by their OpenAPI form.
//
// The document contains no secrets and nothing about the models, so it needs no API key. It is served as
// application/json, which every tool accepts, with an ETag. It describes all formats, whether they are mounted or not.
package openapi
