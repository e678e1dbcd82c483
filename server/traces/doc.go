// Package traces serves the sealed traces that a server keeps:
//
//	GET /v1/traces               lists them
//	GET /v1/traces/{id}          returns what is known of a trace without opening it
//	GET /v1/traces/{id}/content  returns the sealed blob
//	DELETE /v1/traces/{id}       erases a trace for good
//
// Nothing here opens a trace, because the server has no key for it. The holder of a private key opens the blob with
// package trace.
//
// # Permissions
//
// Listing and reading need the scope trace:read, erasing needs trace:erase. A key sees and erases the traces of its own
// runs; for it, those of others do not exist. With the scope trace:all, which a key has only if it is named, the same
// holds for the traces of all keys. A server without keys belongs to its user, who may do everything; where
// other machines can reach it, nobody may.
//
// # Rules
//
// Errors and lists have the form of OpenAI's API. A list comes in pages, the newest trace first. An erased trace stays
// in the list as a tombstone. After DELETE has answered, the store contains no byte of the trace.
package traces
