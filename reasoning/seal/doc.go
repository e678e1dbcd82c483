// Package seal wraps reasoning in values that a client carries from one turn to the next. The client cannot read or
// change them. The server keeps only its keys.
//
// A [Keyring] begins a [Turn] for each reply. The turn names the reply's tool calls and seals its reasoning. A
// [History] opens the values of a conversation that comes back.
//
// The package does not decide whether a text may be sealed, stored or put into a prompt. Traces are not sealed here,
// because the server must not be able to read them; see package trace.
//
// # Where a value opens
//
// Clients edit conversations: they cut off the beginning, change early messages, and drop or merge others. So a
// value is bound to few things, and to nothing that a distant edit could change:
//
//   - the [Scope]: principal, the model's weights, and the conversation if the format has an id for it
//   - its turn, a random id. The ids of the turn's calls are an HMAC of it, so the calls in the message show that the
//     value belongs there.
//   - the [Question] if the turn has no calls: the nearest user message before the reply
//
// All calls of the message must belong to the turn; some may be missing. A value opens in only one message of a
// conversation, and never after a later one of its turn or of a turn that began later. So a turn whose reasoning was
// sealed in several values may be divided into several messages. The caller decides whether a value that does not open
// ends the request. Every refusal is one of these errors:
//
//   - [ErrTampered], sealed_tampered: altered, cut, not base64url, or of an unknown version
//   - [ErrUnknownKey], sealed_unknown_key: the keyring does not hold its key, or no longer holds it
//   - [ErrForeign], sealed_foreign: authentic, but of another principal, model, conversation or message
//   - [ErrRepeated], sealed_repeated: in its place, but it or a later one was already opened
//
// # What is protected
//
// Clients cannot read or change the text. They cannot make values or call ids. They cannot use a value for another
// principal, for another model, or for another conversation that has an id. A value reveals the size class of its text
// and the key that sealed it, and nothing else. Two values of the same text share only these.
//
// # What is not protected
//
//   - A client may use its own value again in the same place, any number of times, while the key is held. Values are
//     made for that.
//   - If conversations have no ids, a client may move an assistant message with its calls and its value to another
//     conversation.
//   - Two turns that follow equal user messages share a place, if they have no calls or these are left out.
//   - Anyone who has the keys can read every value sealed under them, first of all the server's operator. There is no
//     forward secrecy.
//   - The order of turns follows the server's clock. If the clock is set back, older values do not open after values
//     that are sealed then.
//
// # No oracle
//
// The order of the checks decides which error is returned. Each step tells an attacker only what he already knows:
//
//  1. Length, spelling and version are public. A mistake there is sealed_tampered.
//  2. The key's id is in the clear and so public. An id that is not held is sealed_unknown_key. The id is not
//     authenticated: an altered id is an unknown key, or, if it names another key of the ring, fails the next step.
//  3. The box is opened. If it does not authenticate, it is sealed_tampered, without saying where or why.
//  4. The whole scope is compared at once, in constant time, then the calls or the question, then the order. Only
//     authentic values get this far. The error does not say which part differs.
//  5. The length and the padding are read only if the value is in its own place, so that timing reveals nothing
//     about them elsewhere.
//
// The errors carry no detail, and never the text.
//
// # Format
//
// A value is the base64url spelling (RFC 4648, section 5) without padding of these bytes. Only one spelling is
// accepted: no line breaks, and the unused bits of the last character are zero. Integers are big-endian.
//
//	offset  size  what
//	     0     1  version, 3
//	     1     8  key id: the first bytes of SHA-256 as in digest, over "runner/seal/v1 key id" and the key
//	     9    24  nonce, random
//	    33    16  authenticator, Poly1305
//	    49     P  plaintext, encrypted with XSalsa20
//
// Bytes 33 to the end are a NaCl secretbox (crypto_secretbox_xsalsa20poly1305,
// https://nacl.cr.yp.to/secretbox.html) under the 32-byte key and the nonce. Its plaintext is
//
//	offset  size  what
//	     0     1  version, 3 (the one at the front is not authenticated)
//	     1    32  digest("principal", principal)
//	    33    32  digest("conversation", kind, id); zeros without an id
//	    65    32  digest("model key", key); zeros without one
//	    97    32  digest("model", digest of the contents); zeros while that is unknown
//	   129    16  turn, random
//	   145     8  when the turn began, in microseconds since 1970
//	   153     4  number of the value within its turn, from 0
//	   157     1  calls: 0 not known when it was sealed, 1 none, 2 some
//	   158    32  digest("question", user message); zeros without one
//	   190     4  length of the text in bytes, n, at most [MaxText]
//	   194     n  text
//	 194+n        zeros up to P, the smallest size class that holds what is before them
//
// If both the value and whoever opens it have a digest of the model's contents, these must be the same. Else the keys
// of its files must be the same.
//
// The size classes are 256 bytes, then the powers of two with three steps between each and the next: 320, 384, 448,
// 512, 640, and so on up to 5 MiB. Above the first class, padding is less than a fifth of P.
//
// digest(name, part...) is SHA-256 over the string "runner/seal/v3 " + name and the parts. Each is preceded by its
// length as 8 bytes, so that different parts never give the same bytes.
//
// The id of a turn's call number i is "call_", the first 12 bytes of HMAC-SHA-256 in hexadecimal, and i in decimal
// with at least two digits. The HMAC's key is digest("call ids", key). Its message is the turn's 16 bytes and i as 8
// bytes.
//
// testdata/vectors.json holds values from another implementation. Every implementation must open or refuse the same
// ones.
//
// # Rules
//
// A Keyring may be used by several goroutines, even while it is rotated. Memory grows with the bytes that arrive, at
// most a value of [MaxText], never with a length that a value claims.
package seal
