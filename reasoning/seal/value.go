package seal

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"math/bits"

	"golang.org/x/crypto/nacl/secretbox"
)

// The limits, in bytes.
const (
	// MaxText is the longest text that is sealed.
	MaxText = 4 << 20
	// MaxValue is the length of the longest value.
	MaxValue = ((headerSize+secretbox.Overhead+maxClass)*8 + 5) / 6
)

const (
	version   = 1
	keySize   = 32
	keyIDSize = 8
	nonceSize = 24
	// headerSize is what stands before the box: version, key id, nonce.
	headerSize  = 1 + keyIDSize + nonceSize
	bindingSize = 4 * sha256.Size
	// textOffset is where the text begins in the plaintext, after version, binding and the text's length.
	textOffset = 1 + bindingSize + 4
	minClass   = 256
	maxClass   = MaxText * 5 / 4
)

var encoding = base64.RawURLEncoding.Strict()

// Seal returns a value that holds text, which is opened for the same binding only. The text may hold any bytes. Errors: ErrBinding,
// ErrTooLong, ErrNoKey.
func (r *Keyring) Seal(b Binding, text string) (string, error) {
	keys := r.held()
	switch {
	case !b.complete():
		return "", ErrBinding
	case len(text) > MaxText:
		return "", ErrTooLong
	case len(keys) == 0:
		return "", ErrNoKey
	}
	var nonce [nonceSize]byte
	_, _ = rand.Read(nonce[:]) // never fails, by its contract
	return sealWith(&keys[0], &nonce, &b, text), nil
}

func sealWith(k *key, nonce *[nonceSize]byte, b *Binding, text string) string {
	size := classOf(textOffset + len(text))
	plain := make([]byte, 0, size)
	plain = append(plain, version)
	plain = b.appendTo(plain)
	plain = binary.BigEndian.AppendUint32(plain, uint32(len(text)))
	plain = append(plain, text...)[:size]

	raw := make([]byte, 0, headerSize+secretbox.Overhead+size)
	raw = append(raw, version)
	raw = append(raw, k.id[:]...)
	raw = append(raw, nonce[:]...)
	return encoding.EncodeToString(secretbox.Seal(raw, plain, nonce, &k.secret))
}

// Open returns the text of a value. Errors: ErrTampered, ErrUnknownKey, ErrForeign, and ErrBinding if the caller forgot a part of b.
func (r *Keyring) Open(b Binding, value string) (string, error) {
	if !b.complete() {
		return "", ErrBinding
	}
	raw, ok := decode(value)
	if !ok || raw[0] != version {
		return "", ErrTampered
	}
	k := r.find(raw[1 : 1+keyIDSize])
	if k == nil {
		return "", ErrUnknownKey
	}
	nonce := (*[nonceSize]byte)(raw[headerSize-nonceSize:])
	plain, ok := secretbox.Open(nil, raw[headerSize:], nonce, &k.secret)
	if !ok || plain[0] != version {
		return "", ErrTampered
	}
	// Nothing after the binding is looked at before it is known to be this one: the time would show the text's length.
	want := b.appendTo(make([]byte, 0, bindingSize))
	if subtle.ConstantTimeCompare(plain[1:1+bindingSize], want) != 1 {
		return "", ErrForeign
	}
	text, ok := unpad(plain)
	if !ok {
		return "", ErrTampered
	}
	return text, nil
}

// decode returns the bytes of a value, whose length is that of some value.
func decode(value string) ([]byte, bool) {
	n := encoding.DecodedLen(len(value))
	size := n - headerSize - secretbox.Overhead
	if size < minClass || size > maxClass || size != classOf(size) || encoding.EncodedLen(n) != len(value) {
		return nil, false
	}
	// The decoder passes over line breaks, and then returns too little.
	raw, err := encoding.DecodeString(value)
	return raw, err == nil && len(raw) == n
}

// unpad returns the text of an authentic plaintext. What sealWith would not have written is refused.
func unpad(plain []byte) (string, bool) {
	n := binary.BigEndian.Uint32(plain[textOffset-4:])
	if n > MaxText || classOf(textOffset+int(n)) != len(plain) {
		return "", false
	}
	text, padding := plain[textOffset:textOffset+n], plain[textOffset+n:]
	var filled byte
	for _, c := range padding {
		filled |= c
	}
	return string(text), filled == 0
}

// classOf returns the smallest size class that holds n bytes, at least 1.
func classOf(n int) int {
	if n <= minClass {
		return minClass
	}
	step := 1 << (bits.Len(uint(n-1)) - 3) // a quarter of the power of two below n
	return (n + step - 1) / step * step
}
