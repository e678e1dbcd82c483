package seal

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// MaxKeys is the maximum number of keys in a keyring.
const MaxKeys = 64

// Keyring seals under its current key and opens under the current and older keys. Each key has a public id of 16
// hexadecimal digits, which is computed from the key. A Keyring never prints its keys. It may be used by several
// goroutines at once and must not be copied. The zero Keyring holds no key.
//
// To rotate the keys of a file in use, Load the file, Rotate the loaded keyring, Save it, and only then Replace the
// keys in use. In this order a crash never loses a key that has sealed a value.
type Keyring struct {
	// keys is never changed in place; the current key is the first. It is read without a lock. writers is held while
	// it is replaced.
	keys    atomic.Pointer[[]key]
	writers sync.Mutex
	// last is the time when the last turn began, in microseconds since 1970.
	last atomic.Uint64
}

// A key must not be printed.
type key struct {
	id     [keyIDSize]byte
	secret [keySize]byte
}

func newKey(secret [keySize]byte) key {
	// The domain stays at v1 although the format is v2, because people write ids down.
	sum := digestOf("runner/seal/v1 key id", string(secret[:]))
	return key{id: [keyIDSize]byte(sum[:keyIDSize]), secret: secret}
}

func randomKey() key {
	var secret [keySize]byte
	_, _ = rand.Read(secret[:]) // never fails, by its contract
	return newKey(secret)
}

// NewKeyring returns a keyring with one new random key.
func NewKeyring() *Keyring {
	r := &Keyring{}
	r.keys.Store(&[]key{randomKey()})
	return r
}

func (r *Keyring) held() []key {
	if keys := r.keys.Load(); keys != nil {
		return *keys
	}
	return nil
}

// now returns the time in microseconds. Unlike the clock, it never repeats a time and never goes back.
func (r *Keyring) now() uint64 {
	for {
		last := r.last.Load()
		now := max(uint64(time.Now().UnixMicro()), last+1)
		if r.last.CompareAndSwap(last, now) {
			return now
		}
	}
}

// find returns the key with an id, or nil.
func (r *Keyring) find(id []byte) *key {
	keys := r.held()
	for i := range keys {
		if bytes.Equal(keys[i].id[:], id) {
			return &keys[i]
		}
	}
	return nil
}

// IDs returns the ids of all keys, the current one first, then from newer to older.
func (r *Keyring) IDs() []string {
	keys := r.held()
	ids := make([]string, len(keys))
	for i := range keys {
		ids[i] = hex.EncodeToString(keys[i].id[:])
	}
	return ids
}

// Rotate makes a new random key the current one and returns its id. Of the older keys the newest are kept for opening,
// as many as keep says and at most MaxKeys-1. The others are dropped.
func (r *Keyring) Rotate(keep int) string {
	fresh := randomKey()
	r.writers.Lock()
	defer r.writers.Unlock()
	before := r.held()
	keep = max(0, min(keep, len(before), MaxKeys-1))
	keys := append([]key{fresh}, before[:keep]...)
	r.keys.Store(&keys)
	return hex.EncodeToString(fresh.id[:])
}

// Drop removes an older key. Its values are then refused with ErrUnknownKey. The current key cannot be dropped; Rotate
// first.
func (r *Keyring) Drop(id string) error {
	r.writers.Lock()
	defer r.writers.Unlock()
	switch i := slices.Index(r.IDs(), id); i {
	case -1:
		return fmt.Errorf("sealing keys: there is no key %q", id)
	case 0:
		return fmt.Errorf("sealing keys: %s is the current key; rotate first", id)
	default:
		keys := slices.Delete(slices.Clone(r.held()), i, i+1)
		r.keys.Store(&keys)
		return nil
	}
}

// Replace replaces the keys of r with those of from.
func (r *Keyring) Replace(from *Keyring) {
	keys := from.keys.Load()
	r.writers.Lock()
	defer r.writers.Unlock()
	r.keys.Store(keys)
}

// String returns the number of keys and the id of the current one.
func (r *Keyring) String() string {
	ids := r.IDs()
	if len(ids) == 0 {
		return "sealing keys: none"
	}
	return fmt.Sprintf("sealing keys: %d, current %s", len(ids), ids[0])
}

// GoString returns String.
func (r *Keyring) GoString() string { return r.String() }

// Format writes String for every verb.
func (r *Keyring) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, r.String()) }

// MarshalText returns String, for logs. It cannot be read back; Save writes the keys.
func (r *Keyring) MarshalText() ([]byte, error) { return []byte(r.String()), nil }
