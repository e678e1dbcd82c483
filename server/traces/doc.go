// Package traces serves the sealed traces that a server keeps: GET /v1/traces lists them, GET /v1/traces/{id} tells
// of one what may be known without opening it, GET /v1/traces/{id}/content is the sealed blob, DELETE
// /v1/traces/{id} erases one for good.
//
// Nothing here opens a trace: the server has no key that could. Who has one opens the blob with package trace.
//
// # Who may
//
// Listing and reading take the scope trace:read, erasing trace:erase. A key sees and erases the traces of its own
// runs; those of others do not exist for it. With the scope trace:all, which a key has only where it is named, both
// hold for everybody's. A server without keys is its user's, who may all.
//
// # Rules
//
// Errors and lists are in the shape of OpenAI's API. The list is a page at a time, the newest first. A trace that
// was erased stays in the list as a tombstone. When DELETE has answered, no byte of the trace is left in the store.
package traces
