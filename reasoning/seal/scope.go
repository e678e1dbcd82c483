package seal

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
)

// Local is the principal of servers without API keys. No API key may have this id.
const Local = "local"

// Scope says whose values these are and which conversation they belong to. Strings are compared byte for byte.
type Scope struct {
	// Principal is the API key's id, never the key itself, or Local. It is required.
	Principal string
	// Model is the digest of the model's files. It is required.
	Model string
	// Conversation is zero if the format has no conversation ids.
	Conversation Conversation
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

func (s *Scope) complete() bool { return s.Principal != "" && s.Model != "" }

// appendTo appends the scope in the form that a value has, scopeSize bytes.
func (s *Scope) appendTo(dst []byte) []byte {
	principal, model := digest("principal", s.Principal), digest("model", s.Model)
	dst = append(dst, principal[:]...)
	dst = append(dst, model[:]...)
	return append(dst, s.Conversation.digest[:]...)
}

// domain is the prefix of the name of every digest of this version.
const domain = "runner/seal/v2 "

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
