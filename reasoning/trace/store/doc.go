// Package store keeps sealed traces in an SQLite database, with a signed chain that shows what was removed or
// changed.
//
// A [Store] writes, and a [Reader] reads: it lists, opens and checks without writing, signing or needing a key. Both
// hold blobs of package trace and what may be known of them without a key: id, times, size, whose run it was, the
// model's digest. Neither holds a key that opens a blob.
//
// A [Writer] signs the beginning of a trace and commits each chunk as it is sealed. A crash loses what was not sealed
// yet and leaves a trace without an end, which the next Store that is opened notes as cut. A trace's id is returned
// by Writer.Close alone, after the commit that makes it durable.
//
// # The chain
//
// Every trace that begins, every trace that ends, and every erasure is an entry. An entry holds the hash of the entry
// before it; its own hash, the head of that moment, is signed with a NaCl signature (Ed25519). [Reader.Verify]
// follows the chain and compares every blob. It finds what was removed, changed, exchanged or added. It cannot find
// by itself that the newest entries were cut off, nor that who has the signing key made a new chain. A [Head] that
// was kept elsewhere shows both.
//
// Integers are big-endian, times milliseconds since 1970 in UTC. The hash of an entry is SHA-256 over
//
//	size  what
//	  22  "runner/trace/v1 entry" and a zero byte
//	   8  number, from 1
//	   1  kind: 1 complete, 2 cut, 3 erased, 4 begun
//	  16  id of the trace
//	   8  time of the entry
//	   8  time when the trace began
//	   8  size of the blob; of its header where the kind is begun
//	  32  SHA-256 of the blob, or of its header
//	 4+n  length and bytes of the principal
//	 4+n  length and bytes of the model's digest
//	  32  hash of the entry before, zeros in the first
//
// where an erasure has zeros and empty strings after its time. What is signed is "runner/trace/v1 head", a zero byte,
// the entry's number and its hash. A head as text is "rthead1-" and base64url of number (8), hash (32), public key
// (32), signature (64).
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
// So nobody without the signing key can begin a trace, add to one or put a piece elsewhere, also while it is open.
// When a Store notes a trace as cut, it takes the pieces up to the first that is not authentic. Verify reports the
// others.
//
// # Who signs, and who checks
//
// sign.key is the signing key, and sign.pub its public half: "rtsign1-" and base64url of the key (32) and the first 4
// bytes of SHA-256 over "runner/trace/v1 signer", a zero byte and the key. A Reader needs sign.pub at most. Where
// only a kept head is there, Verify uses the public key in it. Without either, traces can still be read, and all are
// unattested. A Store adds nothing to a chain whose last entry is not its own, nor to one that has lost an entry
// which this process has seen.
//
// # Version 1
//
// Version 1 had no entries of kind 4 and no signatures of pieces. Who could write the file could have a trace of his
// own noted as cut. Such stores can be read. A Store converts them when it is opened. Traces that version 1 closed
// count as any other. Those that it cut or left open are [Entry.Unattested] for good: a cut trace without an entry
// that began it.
//
// # Reading without writing
//
// A Reader opens the files for reading only, so the folder may be read-only or a copy. SQLite's log is read together
// with the database. Without a log nobody has the database open, and it is read as it is; where somebody writes to it
// meanwhile, the answer is [ErrBusy]. A log without its index, which a crash or a copy leaves, is copied with the
// database to a temporary folder.
//
// # Erasing
//
// Erasing removes the blob, and with its header the only copies of the trace's key. The entries stay as tombstones,
// so the chain still holds. The bytes go at once: freed pages are overwritten with zeros (secure_delete) and the
// write-ahead log is brought into the database and cut to nothing before Erase returns. SQLite moves rows from page
// to page but not their overflow pages, so a row begins with padding that fills the part that could move, and no copy
// of a blob is left behind. What a file system or a disk keeps of overwritten and cut files, and backups, are out of
// reach. The file does not shrink; its free pages are used again.
//
// To overwrite takes room in the log. The file reserve takes up 1 MiB of the disk, which erasing on a full disk uses.
// No trace begins while there is no room for it. A file system that never overwrites in place may need more.
//
// # Rules
//
// A Store may be used by several goroutines, and the folder by several processes of one machine; network file systems
// will not do. A Writer is for one goroutine at a time. The folder holds traces.db with its -wal and -shm files,
// sign.key, sign.pub, reserve and lock; everything is readable by the user only. Systems without Unix permissions and
// flock are not supported.
//
// testdata/vectors.json holds a chain, pieces and their signatures that another implementation made.
package store
