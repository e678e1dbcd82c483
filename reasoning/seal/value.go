package seal

import (
	"crypto/sha256"
	"math/bits"

	"golang.org/x/crypto/nacl/secretbox"

	"runner/reasoning/internal/base64url"
)

// MaxText is the length in bytes of the longest text that can be sealed.
const MaxText = 4 << 20

const (
	version = 3

	keySize   = 32
	keyIDSize = 8
	nonceSize = 24
	turnSize  = 16
	// headerSize is the size of version, key id and nonce, which come before the box.
	headerSize = 1 + keyIDSize + nonceSize
	scopeSize  = 4 * sha256.Size
	// textOffset is where the text begins in the plaintext: after version, scope, turn, time, piece, calls, question and
	// the text's length.
	textOffset = 1 + scopeSize + turnSize + 8 + 4 + 1 + sha256.Size + 4
	minClass   = 256
	maxClass   = MaxText * 5 / 4
)

// sealWith makes a value for a scope, which has the form that a value has.
func sealWith(k *key, nonce *[nonceSize]byte, scope []byte, c *content) string {
	size := classOf(textOffset + len(c.text))
	plain := make([]byte, 0, size)
	plain = append(plain, version)
	plain = append(plain, scope...)
	plain = c.appendTo(plain)[:size]

	raw := make([]byte, 0, headerSize+secretbox.Overhead+size)
	raw = append(raw, version)
	raw = append(raw, k.id[:]...)
	raw = append(raw, nonce[:]...)
	return base64url.Encoding.EncodeToString(secretbox.Seal(raw, plain, nonce, &k.secret))
}

// unbox returns the authentic plaintext of a value and its key. Errors: ErrTampered, ErrUnknownKey.
func (r *Keyring) unbox(value string) (*key, []byte, error) {
	raw, ok := decode(value)
	if !ok || raw[0] != version {
		return nil, nil, ErrTampered
	}
	k := r.find(raw[1 : 1+keyIDSize])
	if k == nil {
		return nil, nil, ErrUnknownKey
	}
	nonce := (*[nonceSize]byte)(raw[headerSize-nonceSize:])
	plain, ok := secretbox.Open(nil, raw[headerSize:], nonce, &k.secret)
	if !ok || plain[0] != version {
		return nil, nil, ErrTampered
	}
	return k, plain, nil
}

// decode returns the bytes of a value. It refuses lengths that no value has.
func decode(value string) ([]byte, bool) {
	size := base64url.Encoding.DecodedLen(len(value)) - headerSize - secretbox.Overhead
	if size < minClass || size > maxClass || size != classOf(size) {
		return nil, false
	}
	raw, err := base64url.Decode(value)
	return raw, err == nil
}

// classOf returns the smallest size class that holds n bytes. n is at least 1.
func classOf(n int) int {
	if n <= minClass {
		return minClass
	}
	step := 1 << (bits.Len(uint(n-1)) - 3) // a quarter of the power of two below n
	return (n + step - 1) / step * step
}
