package seal

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
)

// Local is the principal where there are no API keys. No API key may have this id.
const Local = "local"

// Scope says whose values these are, and in which conversation. Strings are compared byte for byte.
type Scope struct {
	// Principal is the API key's id, never the key itself, or Local. It is required.
	Principal string
	// Model is the digest of the model's files. It is required.
	Model string
	// Conversation is zero where the format has no id for conversations.
	Conversation Conversation
}

// Conversation is a conversation that has an id. The zero value stands for conversations without one. Conversations
// can be compared with ==.
type Conversation struct{ place }

// ConversationID returns the conversation that has an id. Kind keeps the ids of different formats apart. Without an
// id it is zero.
func ConversationID(kind, id string) Conversation {
	if id == "" {
		return Conversation{}
	}
	return Conversation{place{digest("conversation", kind, id)}}
}

// Question is the user message nearest to a reply, before it. The zero value is that of a reply without one.
type Question struct{ place }

// QuestionOf returns the question that a user message asks. The message may be empty.
func QuestionOf(message string) Question {
	return Question{place{digest("question", message)}}
}

// place is a part of a place as it stands in a value. Zero is no part.
type place struct{ digest [sha256.Size]byte }

// Format hides the digest, because a short message can be guessed from it.
func (place) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "(digest)") }

func (s *Scope) complete() bool { return s.Principal != "" && s.Model != "" }

// appendTo appends the scope as it stands in a value, scopeSize bytes.
func (s *Scope) appendTo(dst []byte) []byte {
	principal, model := digest("principal", s.Principal), digest("model", s.Model)
	dst = append(dst, principal[:]...)
	dst = append(dst, model[:]...)
	return append(dst, s.Conversation.digest[:]...)
}

// domain begins the name of every digest of this version.
const domain = "runner/seal/v2 "

// digest is SHA-256 over what it is a digest of and the parts, each after its length.
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
