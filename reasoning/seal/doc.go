// Package seal wraps reasoning in values that clients carry from one turn to the next without being able to read, change or
// move it. The server keeps nothing but its keys.
//
// A value belongs to one place, its [Binding]: principal, conversation, entity and model. A [Keyring] seals a text for a place and
// opens it again for the same place only. Every refusal is one of three errors whose codes formats put into a 400:
//
//   - [ErrTampered], sealed_tampered: not a value as it was handed out: altered, cut, not base64url, of another version
//   - [ErrUnknownKey], sealed_unknown_key: sealed under a key that the keyring does not hold, or no longer holds
//   - [ErrForeign], sealed_foreign: authentic, but it belongs to another principal, conversation, entity or model
//
// # What it protects, and what not
//
// Clients cannot read the text, change it, make values of their own, or use one in another place. A value shows the size class
// of its text, which key sealed it, and nothing else; two values of one text have nothing in common but these.
//
// A client may use its own value again in its place, as often as it likes and as long as the key is held; that is what values
// are for. Whoever has the keys, the server's operator first of all, can read every value sealed under them: there is no
// forward secrecy. A value is bound to what its place is made of and to nothing more, so two replies after equal messages of one
// conversation share a place where the client drops ids ([EntityOf]). The package does not say whether a text may be sealed, stored
// or put into a prompt. It is not for traces, which the server itself must not be able to read.
//
// # No oracle
//
// The order of the checks decides which error it is, and each step tells an attacker only what he has already:
//
//  1. Length, spelling and version are public. A mistake there is sealed_tampered.
//  2. The key's id is public, since it is in the clear. An id that is not held is sealed_unknown_key. It is not authenticated: an altered
//     id is an unknown key, or, where it names another key of the ring, fails the next step.
//  3. The box is opened. Whatever does not authenticate is sealed_tampered, with no word about where or why.
//  4. The binding is compared, in constant time and all four parts at once. Only authentic values come this far, so only they can be
//     sealed_foreign. The error does not say which part differs.
//  5. Only in its own place are a value's length and padding looked at, so that no timing shows them elsewhere.
//
// The errors carry no detail, and the text never appears in one.
//
// # Format
//
// A value is the base64url spelling (RFC 4648, section 5) without padding of these bytes. There is one accepted spelling: no line
// breaks, and the unused bits of the last character are zero. Integers are big-endian.
//
//	offset  size  what
//	     0     1  version, 1
//	     1     8  key id: the first bytes of digest("key id", key)
//	     9    24  nonce, random
//	    33    16  authenticator, Poly1305
//	    49     P  plaintext, encrypted with XSalsa20
//
// Bytes 33 to the end are a NaCl secretbox (crypto_secretbox_xsalsa20poly1305, https://nacl.cr.yp.to/secretbox.html) under the
// 32-byte key and the nonce. Its plaintext is
//
//	offset  size  what
//	     0     1  version, 1 (the one at the front is not authenticated)
//	     1    32  digest("principal", principal)
//	    33    32  digest("conversation id", id) or digest("conversation message", first user message)
//	    65    32  digest("entity id", id) or digest("entity messages", preceding message...)
//	    97    32  digest("model", model)
//	   129     4  length of the text in bytes, n, at most [MaxText]
//	   133     n  text
//	 133+n        zeros up to P, the smallest size class that holds what is before them
//
// Size classes are 256 bytes, and above that the powers of two and the three quarter steps between each and the next: 320, 384, 448,
// 512, 640, and so on to 5 MiB. Padding is thus under a fifth of P above the first class.
//
// digest(name, part...) is SHA-256 over the strings "runner/seal/v1 " + name and the parts, each after its length as 8 bytes. Every
// part has a place of its own and its length before it, so that no two bindings meet in the same bytes.
//
// testdata/vectors.json holds values that another implementation made and that every implementation must open or refuse alike.
//
// # Rules
//
// A Keyring may be used by any number of goroutines, also while it is rotated. Everything else is a value. No memory is taken in
// proportion to what a value claims, only to the bytes that came, of which there are at most [MaxValue].
package seal
