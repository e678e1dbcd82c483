// Package store keeps sealed traces in an SQLite database, with a signed chain that shows what was removed or changed.
//
// A [Store] holds blobs of package trace and what may be known of them without a key: id, times, size, whose run it was, the model's digest. It
// never holds a key that opens one. A [Writer] commits each chunk as it is sealed, so a crash loses what was not sealed yet and leaves a
// trace without an end, which the next Open notes as cut. A trace's id is returned by Writer.Close alone, after the commit that makes it durable.
//
// # The chain
//
// Every trace that ended, and every erasure, is an entry. An entry holds the SHA-256 of the blob and of the entry before it; the hash of
// each entry, the head of that moment, is signed with a NaCl signature (Ed25519). [Store.Verify] follows the chain and compares every blob. It finds what was
// removed, changed, exchanged or added between the entries. It cannot find by itself that the newest entries were cut off, nor that who has
// the signing key made a new chain; a [Head] that was kept elsewhere shows both.
//
// Integers are big-endian, times milliseconds since 1970 in UTC. The hash of an entry is SHA-256 over
//
//	size  what
//	  22  "runner/trace/v1 entry" and a zero byte
//	   8  number, from 1
//	   1  kind: 1 complete, 2 cut, 3 erased
//	  16  id of the trace
//	   8  time of the entry
//	   8  time when the trace began
//	   8  size of the blob
//	  32  SHA-256 of the blob
//	 4+n  length and bytes of the principal
//	 4+n  length and bytes of the model's digest
//	  32  hash of the entry before, zeros in the first
//
// where an erasure has zeros and empty strings after its time. What is signed is "runner/trace/v1 head", a zero byte, the entry's number and its hash. A head
// as text is "rthead1-" and base64url of number (8), hash (32), public key (32), signature (64).
//
// # Erasing
//
// Erasing removes the blob, and with its header the only copies of the trace's key. The entry stays as a tombstone, so the chain still holds. The bytes go
// at once: freed pages are overwritten with zeros (secure_delete) and the write-ahead log is brought into the database and cut to nothing
// before Erase returns. SQLite moves rows from page to page but not their overflow pages, so a row begins with padding that fills the part that could move, and
// no copy of a blob is left behind. What a file system or a disk keeps of overwritten and cut files, and backups, are out of reach. The file
// does not shrink; its free pages are used again.
//
// # Rules
//
// A Store may be used by several goroutines, and the folder by several processes of one machine; network file systems will not do. A Writer is for
// one goroutine at a time. The folder holds traces.db with its -wal and -shm files, sign.key and lock; everything is readable by the user only.
// Systems without Unix permissions and flock are not supported.
package store
