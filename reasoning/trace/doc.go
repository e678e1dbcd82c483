// Package trace seals the full trace of a run while it is produced, so that only the holders of certain private
// keys can read it: not the server that stored it, and not who steals its disk.
//
// A [Writer] takes records, each a line of JSON, and seals them in chunks. It is given public keys, [Recipient],
// and keeps what it seals with in memory until it is closed. A [Reader] needs an [Identity], the private key of one
// recipient, and returns the records again. [Recorder] writes what a run is made of: first a [Begin], then one
// record for each event. Whatever was altered is refused with one of these errors:
//
//   - [ErrTampered], trace_tampered: not as it was sealed: altered, reordered, or with bytes from elsewhere
//   - [ErrTruncated], trace_truncated: the end is missing; the records before were authentic
//   - [ErrNotRecipient], trace_not_recipient: sealed to other keys than those given
//   - [ErrVersion], trace_version: of a version that is not known here
//
// # What it protects, and what not
//
// Who has the blob but no recipient's private key learns its id, for which public keys it was sealed, how many
// chunks of which size class it has, and nothing else. He cannot alter, reorder, drop, cut or add a chunk, or put
// another trace's chunk or recipients in their place, without a reader's noticing. A cut at the end cannot be told
// from a crash; both are ErrTruncated.
//
// The package does not prove who sealed a trace: anyone may seal one for a public key, and each recipient, once he
// has opened a trace, has what it takes to make another with the same recipients. That a trace is the one that a
// server stored is what the chain of package store is for. There is no forward secrecy for recipients: who gets a
// private key reads all that was sealed for it. Values that clients carry are package seal's, not this one's.
//
// # Format
//
// A blob is a header and one or more chunks. Integers are big-endian.
//
//	offset  size  header
//	     0     8  "rtrace\r\n"
//	     8     1  version, 1
//	     9     1  number of recipients, r, 1 to 32
//	    10    16  id of the trace, random
//	    26  112r  recipients, no two alike
//
//	offset  size  recipient
//	     0    32  public key, X25519
//	    32    80  the trace's key, sealed to it
//
// The trace's key is 32 random bytes. It is sealed with an anonymous box (crypto_box_seal: an X25519 key of its
// own, 32 bytes, then 48 bytes of XSalsa20-Poly1305 under a nonce that is BLAKE2b-192 of that key and the
// recipient's). The key of that box is thrown away at once, so the server keeps nothing that opens what it stored;
// a lasting sender's key would be just that, since a box opens with either of its two private keys.
//
//	offset  size  chunk
//	     0     4  length of the box, 16 + P
//	     4     1  1 for the last chunk, else 0
//	     5    16  authenticator, Poly1305
//	    21     P  plaintext, encrypted with XSalsa20
//
// The box is a NaCl secretbox (crypto_secretbox_xsalsa20poly1305) under the key
//
//	HMAC-SHA-256(trace's key, "runner/trace/v1 chunks" and a zero byte, then the whole header)
//
// so every chunk authenticates the header with its id and its recipients. Its nonce is 15 zero bytes, the number of
// the chunk from 0 as 8 bytes, and the byte that says whether it is the last. No key serves two traces, so no nonce
// serves twice. The plaintext is
//
//	offset  size  plaintext
//	     0     4  length of the payload, n
//	     4     n  payload; empty in the last chunk only
//	   4+n        zeros up to P, the smallest size class that holds what is before them
//
// Size classes are 1, 2, 4, 8 and 16 KiB. The payloads one after the other are the records, each followed by a line
// feed. A record holds no line feed and is at most [MaxRecord] long; it may span chunks. Nothing follows the last
// chunk.
//
// testdata/vectors.json holds blobs that another implementation made and that every implementation must open or
// refuse alike.
//
// # Rules
//
// A Writer or Reader is for one goroutine at a time; everything else is a value. A Writer calls the Write of what
// is under it once for the header and once for each chunk, so that these can be stored one by one. Errors hold
// nothing of a record. A Reader takes memory for one chunk and for one record, never for what a length claims.
package trace
