// Package trace seals the full trace of a run while the run goes on. Only holders of a recipient's private key can
// read it. The server that stores it cannot, nor can anyone who steals its disk.
//
// A [Writer] takes records, which are lines of JSON, and seals them in chunks. It is given public keys ([Recipient]).
// It keeps the key of the trace in memory until it is closed. A [Reader] needs the private key of one recipient
// ([Identity]) and returns the records. A [Recorder] writes the records of a run: a [Begin], then one record for
// each event. A changed blob is refused with one of these errors:
//
//   - [ErrTampered], trace_tampered: altered, reordered, or mixed with bytes from elsewhere
//   - [ErrTruncated], trace_truncated: the end is missing; the records before it are authentic
//   - [ErrNotRecipient], trace_not_recipient: sealed to other keys than those given
//   - [ErrVersion], trace_version: of an unknown version
//
// The package does not store traces; see package store. It does not seal values that clients carry; see package seal.
//
// # What it protects
//
// Without a recipient's private key, the blob reveals its id, the public keys that it was sealed to, and the number
// and size classes of its chunks, and nothing else. A reader notices if a chunk was altered, reordered, dropped, cut or
// added, and if a chunk or the recipients come from another trace. A cut at the end looks the same as a crash; both
// are ErrTruncated.
//
// # What it does not protect
//
// Nothing proves who sealed a trace. Anyone can seal one for a public key, and a recipient who has opened a trace can
// make another with the same recipients. The chain of package store proves that a server stored a trace. Recipients
// have no forward secrecy: whoever gets a private key can read every trace that was sealed to it.
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
// recipient's). The private key of the box is discarded at once, because a box opens with either of its two private
// keys. So the server keeps nothing that opens the traces it stored.
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
// so every chunk authenticates the header with its id and its recipients. The nonce is 15 zero bytes, the number of
// the chunk from 0 as 8 bytes, and the byte that marks the last chunk. Every trace has its own key, so no nonce is
// used twice. The plaintext is
//
//	offset  size  plaintext
//	     0     4  length of the payload, n
//	     4     n  payload; empty in the last chunk only
//	   4+n        zeros up to P, the smallest size class that holds the bytes before them
//
// Size classes are 1, 2, 4, 8 and 16 KiB. The joined payloads are the records, each followed by a line feed. A
// record contains no line feed and has at most [MaxRecord] bytes. It may span chunks. Nothing follows the last chunk.
//
// testdata/vectors.json holds blobs from another implementation. Every implementation must open or refuse the same
// ones.
//
// # Rules
//
// A Writer, Reader or Recorder is for one goroutine at a time. A Writer calls the underlying Write once for the header
// and once for each chunk, so that they can be stored one by one. Errors never quote a record. A Reader takes memory
// for one chunk and one record, never for a length that the blob claims.
package trace
