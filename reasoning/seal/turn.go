package seal

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"
)

// Calls says whether a turn made tool calls whose ids the client received.
type Calls byte

const (
	// Undecided is for values that are sealed before that is known. They open like values of either kind below.
	Undecided Calls = iota
	// NoCalls is for values that open only in a message without calls, after the same question.
	NoCalls
	// WithCalls is for values that open only in a message with calls of their turn.
	WithCalls
)

// Turn is a reply that is being generated. It names the reply's tool calls and seals its reasoning. Its methods may be
// called by several goroutines at once.
type Turn struct {
	key      *key // nil if the keyring holds none
	random   key  // names calls if key is nil
	scope    Scope
	question Question
	id       [turnSize]byte
	begun    uint64
	pieces   atomic.Uint32
}

// Format hides the turn's key.
func (*Turn) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "(turn)") }

// Begin begins a turn, which is the reply to a question within a scope.
func (r *Keyring) Begin(s Scope, q Question) *Turn {
	t := &Turn{scope: s, question: q, begun: r.now()}
	_, _ = rand.Read(t.id[:]) // never fails, by its contract
	if keys := r.held(); len(keys) > 0 {
		t.key = &keys[0]
	} else {
		t.random = randomKey()
	}
	return t
}

// CallID returns the id of one of the turn's calls. Numbers count from 0. Only the holder of the key can make the id,
// and it reveals only the number.
func (t *Turn) CallID(number int) string {
	k := t.key
	if k == nil {
		k = &t.random
	}
	return callID(k, &t.id, number)
}

// Seal returns a value that holds a piece of the turn's reasoning. The text may hold any bytes. History joins a turn's
// pieces in the order in which they were sealed. Errors: ErrScope, ErrTooLong, ErrNoKey.
func (t *Turn) Seal(text string, calls Calls) (string, error) {
	switch {
	case !t.scope.complete():
		return "", ErrScope
	case len(text) > MaxText:
		return "", ErrTooLong
	case t.key == nil:
		return "", ErrNoKey
	}
	var nonce [nonceSize]byte
	_, _ = rand.Read(nonce[:]) // never fails, by its contract
	c := content{turn: t.id, begun: t.begun, piece: t.pieces.Add(1) - 1, calls: calls, question: t.question, text: text}
	return sealWith(t.key, &nonce, t.scope.appendTo(nil), &c), nil
}

// Seal seals a text within a scope, outside of any conversation. Open opens it.
func (r *Keyring) Seal(s Scope, text string) (string, error) {
	return r.Begin(s, Question{}).Seal(text, NoCalls)
}

// Ids of calls are callPrefix, the first callSize bytes of an HMAC in hexadecimal, and the call's number.
const (
	callPrefix = "call_"
	callSize   = 12
)

// callID returns the id of a turn's call. The HMAC has a key of its own, derived from the sealing key.
func callID(k *key, turn *[turnSize]byte, number int) string {
	secret := digest("call ids", string(k.secret[:]))
	h := hmac.New(sha256.New, secret[:])
	h.Write(turn[:])
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(number)))
	return fmt.Sprintf("%s%s%02d", callPrefix, hex.EncodeToString(h.Sum(nil)[:callSize]), number)
}

// isCall reports whether an id belongs to one of a turn's calls.
func isCall(k *key, turn *[turnSize]byte, id string) bool {
	const digits = len(callPrefix) + 2*callSize
	if len(id) <= digits {
		return false
	}
	number, err := strconv.ParseUint(id[digits:], 10, 31)
	return err == nil && hmac.Equal([]byte(callID(k, turn, int(number))), []byte(id))
}
