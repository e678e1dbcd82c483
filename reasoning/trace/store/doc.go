// Package store keeps sealed traces in an SQLite database. A signed chain of entries shows what was removed or changed.
//
// A [Store] writes. A [Reader] lists, opens and checks traces; it writes nothing, signs nothing and needs no private
// key. Both hold the blobs of package trace and what is known of them without a key: id, times, size, owner, and the
// model's digest. Neither has a key that opens a blob.
//
// A [Writer] signs the beginning of a trace and commits each chunk as it is sealed. A crash loses only what was not
// sealed yet. It leaves a trace without an end, which the next Store that opens the folder records as cut. Only
// Writer.Close returns a trace's id, after the commit that makes the trace durable.
//
// # The chain
//
// Every beginning of a trace, every end of a trace and every erasure is an entry. An entry contains the hash of the
// entry before it. Its own hash, which is the head of the chain at that moment, is signed with a NaCl signature
// (Ed25519). [Reader.Verify] follows the chain and compares every blob. It finds blobs and entries that were removed,
// changed, exchanged or added. On its own it cannot notice that the newest entries were cut off, or that the holder of
// the signing key made a new chain. A [Head] kept elsewhere shows both.
//
// Integers are big-endian. Times are milliseconds since 1970 in UTC. The hash of an entry is SHA-256 over
//
//	size  what
//	  22  "runner/trace/v1 entry" and a zero byte
//	   8  number, from 1
//	   1  kind: 1 complete, 2 cut, 3 erased, 4 begun
//	  16  id of the trace
//	   8  time of the entry
//	   8  time when the trace began
//	   8  size of the blob; of its header if the kind is begun
//	  32  SHA-256 of the blob, or of its header
//	 4+n  length and bytes of the principal
//	 4+n  length and bytes of the model's digest; empty if it is not known, which an end may add
//	  32  hash of the entry before, zeros in the first
//
// In an erasure the fields after the time of the entry, except the last, are zeros and empty strings. The signature
// covers "runner/trace/v1 head", a zero byte, the entry's number and its hash. A head as text is "rthead1-" and
// base64url of number (8), hash (32), public key (32), signature (64).
//
// # Pieces
//
// A blob is stored in pieces: its header, then each chunk. Each has a signature by the same key over
//
//	size  what
//	  22  "runner/trace/v2 piece" and a zero byte
//	  16  id of the trace
//	   8  number of the piece, from 0
//	   8  size of the blob up to the end of the piece
//	  32  SHA-256 of the blob up to the end of the piece
//
// Without the signing key nobody can begin a trace, add to one or move a piece, even while the trace is open. When a
// Store records a trace as cut, it takes the pieces before the first one that is not authentic. Verify reports the
// others.
//
// # Signing and checking
//
// sign.key is the signing key. sign.pub is its public key: "rtsign1-" and base64url of the key (32) and the first 4
// bytes of SHA-256 over "runner/trace/v1 signer", a zero byte and the key. A Reader needs at most sign.pub. If only a
// kept head is available, Verify uses the public key in it. Without either, traces can still be read, and all of them
// are unattested. A Store adds nothing to a chain whose last entry it did not sign, or that has lost an entry that this
// process has seen.
//
// A store of version 1, which did not sign pieces, is refused and left as it is.
//
// # Reading without writing
//
// A Reader opens the files only for reading, so the folder may be read-only or a copy. It reads SQLite's log together
// with the database. If there is no log, no other program has the database open, and it is read as it is; if a program
// writes to it meanwhile, the Reader returns [ErrBusy]. A crash or a copy can leave a log without its index. Such a log
// is copied with the database to a temporary folder.
//
// # Erasing
//
// Erasing removes the blob. Its header holds the only copies of the trace's key. The entries stay as tombstones, so
// the chain still holds. The bytes are gone at once: freed pages are overwritten with zeros (secure_delete), and the
// write-ahead log is written into the database and truncated before Erase returns. SQLite moves rows from page to
// page, but never their overflow pages. So each row begins with padding that fills the part that can move, and no copy
// of a blob is left behind. Old copies that a file system or a disk keeps of overwritten files, and backups, are out
// of reach. The file does not shrink; its free pages are used again.
//
// Overwriting needs room in the log. The file named reserve takes up 1 MiB of the disk, which is used to erase on a
// full disk. No trace begins while there is no room for it. A file system that never overwrites in place may need
// more.
//
// # Rules
//
// A Store may be used by several goroutines, and the folder by several processes of one machine, but not over a network
// file system. A Writer is for one goroutine at a time. The folder holds traces.db with its -wal and -shm files,
// sign.key, sign.pub, reserve and lock; only the user can read them. Systems without Unix permissions and flock are
// not supported.
//
// testdata/vectors.json holds a chain, pieces and their signatures from another implementation.
package store
