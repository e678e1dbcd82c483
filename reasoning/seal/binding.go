package seal

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
)

// Local is the principal where there are no API keys. No API key may have this id.
const Local = "local"

// Binding is the place that a value belongs to. All parts must be given, else Seal and Open answer ErrBinding. Strings are compared
// byte for byte.
type Binding struct {
	// Principal is the API key's id, never the key itself, or Local.
	Principal string
	// Conversation and Entity say where in whose conversation.
	Conversation Conversation
	Entity       Entity
	// Model is the digest of the model's files.
	Model string
}

// Conversation says which conversation a value belongs to. Ids and messages are apart: no id that a client chooses equals a
// message's digest. Conversations can be compared with ==, and print as nothing that could be searched for a message.
type Conversation struct{ place }

// Entity says which item, message or call of a conversation a value belongs to. What holds for Conversation holds for it.
type Entity struct{ place }

// ConversationID is the conversation with an id: AG-UI's threadId, or the root of a chain of previous_response_id. An empty id is no
// conversation.
func ConversationID(id string) Conversation {
	return Conversation{named("conversation id", id)}
}

// ConversationOf is the conversation that begins with a user message, for clients that send no id. The message may be empty. Conversations
// of one principal that begin alike are the same.
func ConversationOf(firstUserMessage string) Conversation {
	return Conversation{place{digest("conversation message", firstUserMessage)}}
}

// EntityID is the item, message or tool call with an id. An empty id is no entity.
func EntityID(id string) Entity {
	return Entity{named("entity id", id)}
}

// EntityOf is the reply to the user or tool messages that precede it, for clients that drop ids. Where the messages begin and end
// matters, and so does their order. Replies after equal messages are the same, unless the caller takes more messages in.
func EntityOf(preceding ...string) Entity {
	return Entity{place{digest("entity messages", preceding...)}}
}

// place is a part of a binding as it stands in a value; zero is none.
type place struct{ digest [sha256.Size]byte }

func named(kind, id string) place {
	if id == "" {
		return place{}
	}
	return place{digest(kind, id)}
}

// Format hides the digest, because a short message can be guessed from it.
func (place) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "(digest)") }

func (b *Binding) complete() bool {
	return b.Principal != "" && b.Conversation != Conversation{} && b.Entity != Entity{} && b.Model != ""
}

// appendTo appends the binding as it stands in a value, bindingSize bytes.
func (b *Binding) appendTo(dst []byte) []byte {
	principal, model := digest("principal", b.Principal), digest("model", b.Model)
	dst = append(dst, principal[:]...)
	dst = append(dst, b.Conversation.digest[:]...)
	dst = append(dst, b.Entity.digest[:]...)
	return append(dst, model[:]...)
}

// digest is SHA-256 over what it is a digest of and the parts, each after its length.
func digest(name string, parts ...string) (sum [sha256.Size]byte) {
	h := sha256.New()
	write := func(s string) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(s))))
		h.Write([]byte(s))
	}
	write("runner/seal/v1 " + name)
	for _, p := range parts {
		write(p)
	}
	h.Sum(sum[:0])
	return sum
}
