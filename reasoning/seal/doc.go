// Package seal wraps reasoning in values that clients carry from one turn to the next without being able to read or
// change them. The server keeps nothing but its keys.
//
// A [Keyring] begins a [Turn] for each reply. The turn names the reply's tool calls and seals its reasoning. A
// [History] opens the values of a conversation that came back.
//
// # Where a value opens
//
// Clients edit conversations: they cut the beginning off, change early messages, and drop or merge others. So a
// value is bound to little, and to nothing that an edit far away could change:
//
//   - the [Scope]: principal, model, and the conversation where the format has an id for it
//   - its turn, a random id. The ids of the turn's calls are an HMAC of it, so the calls in the message show that the value belongs there.
//   - where the turn has no calls: the [Question], which is the nearest user message before the reply
//
// All calls of the message have to be the turn's; some may be missing. A turn opens in one message of a
// conversation only, and never after a turn that began later. Whether a value that does not open ends a request is
// for the caller to decide. Every refusal is one of these errors:
//
//   - [ErrTampered], sealed_tampered: not a value as it was handed out: altered, cut, not base64url, of an unknown version
//   - [ErrOutdated], sealed_outdated: of version 1, which was bound to other things
//   - [ErrUnknownKey], sealed_unknown_key: sealed under a key that the keyring does not hold, or no longer holds
//   - [ErrForeign], sealed_foreign: authentic, but it belongs to another principal, model, conversation or message
//   - [ErrRepeated], sealed_repeated: in its place, but its turn was opened before, or one that began later was
//
// # What it protects, and what not
//
// Clients cannot read the text, change it, make values or ids of calls of their own, or use a value for another
// principal, model or conversation with an id. A value shows the size class of its text, which key sealed it, and
// nothing else. Two values of one text have nothing in common but these.
//
// A client may use its own value again in its place, as often as it likes and as long as the key is held; that is
// what values are for. It may take an assistant's message with its calls and its value into another conversation,
// where conversations have no ids. Two turns without calls after equal user messages share a place. Whoever has the
// keys, the server's operator first of all, can read every value sealed under them: there is no forward secrecy.
// The order of turns follows the server's clock: if it is set back, values that were sealed before do not open
// after those that are sealed then. The package does not say whether a text may be sealed, stored or put into a
// prompt. It is not for traces, which the server itself must not be able to read.
//
// # No oracle
//
// The order of the checks decides which error it is, and each step tells an attacker only what he has already:
//
//  1. Length, spelling and version are public. A mistake there is sealed_tampered; version 1 is sealed_outdated.
//  2. The key's id is public, since it is in the clear. An id that is not held is sealed_unknown_key. It is not authenticated: an altered
//     id is an unknown key, or, where it names another key of the ring, fails the next step.
//  3. The box is opened. Whatever does not authenticate is sealed_tampered, with no word about where or why.
//  4. The scope is compared, in constant time and all of it at once, then calls or question, then the order. Only authentic values come this far. The
//     error does not say which part differs.
//  5. Only in its own place are a value's length and padding looked at, so that no timing shows them elsewhere.
//
// The errors carry no detail, and the text never appears in one.
//
// # Format
//
// A value is the base64url spelling (RFC 4648, section 5) without padding of these bytes. There is one accepted
// spelling: no line breaks, and the unused bits of the last character are zero. Integers are big-endian.
//
//	offset  size  what
//	     0     1  version, 2
//	     1     8  key id: the first bytes of SHA-256 as in digest, over "runner/seal/v1 key id" and the key
//	     9    24  nonce, random
//	    33    16  authenticator, Poly1305
//	    49     P  plaintext, encrypted with XSalsa20
//
// Bytes 33 to the end are a NaCl secretbox (crypto_secretbox_xsalsa20poly1305,
// https://nacl.cr.yp.to/secretbox.html) under the 32-byte key and the nonce. Its plaintext is
//
//	offset  size  what
//	     0     1  version, 2 (the one at the front is not authenticated)
//	     1    32  digest("principal", principal)
//	    33    32  digest("model", model)
//	    65    32  digest("conversation", kind, id); zeros without an id
//	    97    16  turn, random
//	   113     8  when the turn began, in microseconds since 1970
//	   121     4  number of the value within its turn, from 0
//	   125     1  calls: 0 not known when it was sealed, 1 none, 2 some
//	   126    32  digest("question", user message); zeros without one
//	   158     4  length of the text in bytes, n, at most [MaxText]
//	   162     n  text
//	 162+n        zeros up to P, the smallest size class that holds what is before them
//
// Size classes are 256 bytes, and above that the powers of two and the three quarter steps between each and the
// next: 320, 384, 448, 512, 640, and so on to 5 MiB. Padding is thus under a fifth of P above the first class.
//
// digest(name, part...) is SHA-256 over the strings "runner/seal/v2 " + name and the parts, each after its length
// as 8 bytes. Every part has a place of its own and its length before it, so that no two places meet in the same
// bytes.
//
// The id of a turn's call number i is "call_", the first 12 bytes of HMAC-SHA-256 in hexadecimal, and i in decimal
// with two digits at least. The HMAC's key is digest("call ids", key), its message the turn's 16 bytes and i as 8
// bytes.
//
// testdata/vectors.json holds values that another implementation made and that every implementation must open or
// refuse alike.
//
// # Rules
//
// A Keyring may be used by any number of goroutines, also while it is rotated. No memory is taken in proportion to
// what a value claims, only to the bytes that came, of which there are at most [MaxValue].
package seal
