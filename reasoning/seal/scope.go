package seal

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"fmt"
	"io"
)

// Scope says whose values these are and which conversation they belong to. Strings are compared byte for byte.
type Scope struct {
	// Principal is the API key's id, never the key itself. It is required.
	Principal string
	// Model is the model. It is required.
	Model Model
	// Conversation is zero if the format has no conversation ids.
	Conversation Conversation
}

// Model says which weights a model has. One of the fields may be empty.
type Model struct {
	// Key identifies the model's files as they lie on the disk. It is known at once.
	Key string
	// Digest is the digest of what the files hold. It is empty while it is unknown.
	Digest string
}

// Same reports whether two models have the same weights: by their digests if both have one, else by their keys.
func (m Model) Same(other Model) bool {
	if m.Digest != "" && other.Digest != "" {
		return m.Digest == other.Digest
	}
	return m.Key != "" && m.Key == other.Key
}

// Conversation is a conversation that has an id; the zero value stands for those without one. Conversations can be
// compared with ==.
type Conversation struct{ place }

// ConversationID returns the conversation with an id, and zero for an empty id. kind separates the ids of different
// formats.
func ConversationID(kind, id string) Conversation {
	if id == "" {
		return Conversation{}
	}
	return Conversation{place{digest("conversation", kind, id)}}
}

// Question is the nearest user message before a reply. The zero value stands for a reply without one.
type Question struct{ place }

// QuestionOf returns the Question for a user message, which may be empty.
func QuestionOf(message string) Question {
	return Question{place{digest("question", message)}}
}

// place is the digest of a conversation or a question; zero stands for none.
type place struct{ digest [sha256.Size]byte }

// Format hides the digest, because short messages can be guessed from it.
func (place) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "(digest)") }

func (s *Scope) complete() bool { return s.Principal != "" && s.Model != Model{} }

// appendTo appends the scope in the form that a value has, scopeSize bytes.
func (s *Scope) appendTo(dst []byte) []byte {
	principal := digest("principal", s.Principal)
	key, contents := digestUnlessEmpty("model key", s.Model.Key), digestUnlessEmpty("model", s.Model.Digest)
	dst = append(dst, principal[:]...)
	dst = append(dst, s.Conversation.digest[:]...)
	dst = append(dst, key[:]...)
	return append(dst, contents[:]...)
}

// fits reports whether two scopes are the same, in the form that a value has. It takes the same time whether they are.
func fits(sealed, own []byte) bool {
	part := func(of []byte, n int) []byte { return of[n*sha256.Size : (n+1)*sha256.Size] }
	same := func(n int) int { return subtle.ConstantTimeCompare(part(sealed, n), part(own, n)) }
	known := func(n int) int {
		var zero [sha256.Size]byte
		return 1 ^ (subtle.ConstantTimeCompare(part(sealed, n), zero[:]) | subtle.ConstantTimeCompare(part(own, n), zero[:]))
	}
	const principal, conversation, key, contents = 0, 1, 2, 3
	model := subtle.ConstantTimeSelect(known(contents), same(contents), known(key)&same(key))
	return same(principal)&same(conversation)&model == 1
}

func digestUnlessEmpty(name, text string) (sum [sha256.Size]byte) {
	if text != "" {
		sum = digest(name, text)
	}
	return sum
}

// domain is the prefix of the name of every digest of this version.
const domain = "runner/seal/v3 "

// digest is SHA-256 over a name and the parts, each preceded by its length.
func digest(name string, parts ...string) [sha256.Size]byte { return digestOf(domain+name, parts...) }

func digestOf(name string, parts ...string) (sum [sha256.Size]byte) {
	h := sha256.New()
	write := func(s string) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(s))))
		h.Write([]byte(s))
	}
	write(name)
	for _, p := range parts {
		write(p)
	}
	h.Sum(sum[:0])
	return sum
}
