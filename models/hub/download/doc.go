// Package download fetches one file of the hub into the cache, over many connections, programs and days if need be.
//
// # What holds at all times
//
//  1. A blob in the cache has the content that its name says. The bytes of a file gather in a folder of their own, and
//     only a whole file whose hash is right moves to the place of the blob, in one step. Its bytes and then its name
//     are synced to disk.
//  2. Nothing on disk is trusted. The journal has a SHA-256 for each chunk. A chunk counts as there only while its
//     bytes have that hash, so a torn write, a flipped bit or an invented journal costs the chunks that it concerns and
//     nothing else.
//  3. What was verified is not fetched again. The one exception is below, at "the whole hash".
//  4. A folder of gathered bytes has one owner, and nobody else writes there.
//
// # The folder
//
//	blobs/ETAG.OWNER.partial/data      the bytes, each at its place in the file
//	blobs/ETAG.OWNER.partial/journal   one line for each chunk or beginning of a chunk that was written
//	blobs/ETAG.OWNER.partial/name      the file's path in the repository, for people
//
// The journal begins with a line that names the format, the file's etag, its size and the size of chunks. Lines that do
// not follow the form are skipped. The last line about a chunk counts.
//
//	runner-partial 1 4c1e…9f 13107200 4194304
//	0 4194304 8f43…01
//	2 1048576 77ac…d0
//
// The lines need no order on disk and no sync, because a line without its bytes is noticed, and so are bytes without
// their line.
//
// # From the first byte to the blob
//
// The file is cut into chunks, and runs of chunks go to a few connections. For each chunk, a connection
//
//	reads from disk what the journal says is there, and keeps it if its hash is right,
//	fetches the rest into memory, over as many requests as it takes,
//	writes the chunk at its place and then its line in the journal.
//
// A download that is cancelled writes the beginnings of chunks too, so it loses nothing. One that is killed loses at
// most one chunk for each connection. Meanwhile the hash of the whole follows the chunks in order, reading from disk.
//
// # The whole hash
//
// If it is wrong at the end, some chunk came wrong over the network, and nothing says which. So the file is fetched
// once more and every chunk replaced. If the hash is wrong again, the file is refused by name and what was gathered is
// removed ([ErrWrongContent]).
//
// # A server that ignores ranges
//
// An answer with the whole file instead of a part is never written at the part's place. It is dropped, and after a few
// of them the file is fetched again from its first byte over one connection.
//
// # A file that changes
//
// A commit's files do not change, so what the hub says about a file is compared with its list at each request: another
// hash or size ends the download by name. A storage host may call its version by a new ETag. Then its answers are
// dropped. If it insists, they are taken, and the hash of the whole decides.
//
// # The owner
//
// The cache's lock for the blob (.locks) keeps programs from fetching the same bytes at once, Python's too. On some
// file systems locks grant everything to everybody, so nothing else depends on them. OWNER names the machine, its boot
// and the download. A download takes over a folder only from an owner who is surely gone:
//
//   - one that let go of the folder when it ended, which renames it (OWNER begins with "free"),
//   - one of an earlier boot of this machine,
//   - one of this boot whose lock on the journal is free, if a second descriptor is refused that lock: then locks work.
//
// Taking over is one rename, so it succeeds for one program only. All other folders are left alone, and the file is
// fetched into a new one. Two programs that fetch the same file at once both end right.
package download
