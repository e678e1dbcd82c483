// Package hub is a client of the Hugging Face hub: which files a repository of models has, and the bytes of a part of
// a file. It writes nothing to disk; package download does.
//
// # What is asked
//
// The requests are those of huggingface_hub 2.4, hf_api.py and file_download.py:
//
//	GET /api/models/REPO/revision/REVISION            the commit, the licence, whether the repository is gated
//	GET /api/models/REPO/tree/COMMIT?recursive=true   the files with their sizes and hashes, in pages
//	GET /REPO/resolve/COMMIT/FILE                     the bytes, mostly after a redirect to a storage host
//
// Everything after the first request names a commit, so a branch that moves meanwhile changes nothing.
//
// # What is trusted
//
// The endpoint is trusted to say which files a repository has and what their hashes are. Storage hosts are trusted with
// nothing: what they send is checked against those hashes by package download.
//
//   - The token goes to the endpoint's own scheme, host and port only. A redirect to anywhere else leaves it behind,
//     and also if a later redirect leads back. It is in no error, and [Token] does not print.
//   - Addresses in errors have no query, because the query of a storage address is a key to the file.
//   - A redirect from https to http is refused, and so are chains of more than 10.
//   - Every answer has a limit: bytes of each answer and of its header, pages, files, sizes, names. Names that could
//     leave a folder, or that one of the usual systems cannot keep, are never given to a caller (see [CheckPath]).
//   - A connection that delivers less than 16 KB in a time (see [Config.Stall]) is dropped.
//
// # Errors
//
// Every error about the hub is an [*Error], except the context's. It has a kind, a line for the user, and a hint.
package hub
