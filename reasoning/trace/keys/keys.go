// Package keys is a keyring of recipients: key pairs that traces are sealed to, with the private keys encrypted under a
// passphrase.
//
// Public keys can be read without the passphrase, so a server needs only them to seal. Private keys are needed only to
// read traces. The newest key is the current one; new traces are sealed to it. Older keys open older traces. Rotation
// never drops a key, because nobody can read the traces of a lost key.
//
// # The file
//
// The file is JSON with mode 0600 and is replaced atomically:
//
//	version  1
//	kdf      {name: "argon2id", time, memory_kib, threads, salt}: derives the 32-byte key from the passphrase;
//	         salt is 16 bytes
//	keys     [{public, private, created}], the current one first; public is the text of a trace.Recipient,
//	         created is RFC 3339
//
// private is base64url of a random nonce of 24 bytes and a NaCl secretbox. The box holds the 32 bytes of the X25519
// private key under the passphrase's key. The public key must match it. A kdf with more than 16 passes, 1 GiB or
// 16 threads is refused, so that a foreign file cannot exhaust the machine's memory.
//
// # What it protects
//
// Someone who can read the file learns the public keys and can try passphrases, each of which takes about a tenth of a
// second and 64 MiB. Someone who can write the file can add his own public keys, so that new traces are sealed to him;
// the file must belong to the user. A lost passphrase cannot be recovered, and neither can the traces.
//
// A Keyring may be read by several goroutines, but not while it is changed. Only one program may change a file at a
// time.
package keys

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/nacl/secretbox"

	"runner/reasoning/internal/base64url"
	"runner/reasoning/internal/private"
	"runner/reasoning/trace"
)

// The limits.
const (
	// MaxKeys is the maximum number of keys in a keyring.
	MaxKeys = 64
	// minPassphrase and maxPassphrase bound a passphrase's length in bytes.
	minPassphrase = 8
	maxPassphrase = 1024

	maxFile    = 64 << 10
	version    = 1
	keySize    = 32
	nonceSize  = 24
	saltSize   = 16
	maxTime    = 16
	maxMemory  = 1 << 20 // KiB
	maxThreads = 16
)

// Errors, compared with errors.Is.
var (
	// ErrPassphrase means that the passphrase does not open the keyring.
	ErrPassphrase = errors.New("the passphrase is wrong, or the keyring was altered")
	// ErrWeak means that a new passphrase is too short or too long.
	ErrWeak = errors.New("a passphrase has 8 to 1,024 bytes")
	// ErrFull means that the keyring holds MaxKeys keys.
	ErrFull = errors.New("the keyring already holds 64 keys, the maximum")
)

type keyFile struct {
	Version int       `json:"version"`
	KDF     kdf       `json:"kdf"`
	Keys    []fileKey `json:"keys"`
}

type kdf struct {
	Name      string `json:"name"`
	Time      uint32 `json:"time"`
	MemoryKiB uint32 `json:"memory_kib"`
	Threads   uint8  `json:"threads"`
	Salt      string `json:"salt"`
}

type fileKey struct {
	Public  string    `json:"public"`
	Private string    `json:"private"`
	Created time.Time `json:"created"`
}

// Key is what is known of a key without the passphrase.
type Key struct {
	Recipient trace.Recipient
	Created   time.Time
}

type sealedKey struct {
	Key
	private []byte // nonce and box
}

// Keyring is a list of keys, the current one first. It holds private keys only in encrypted form.
type Keyring struct {
	kdf  kdf
	salt []byte
	keys []sealedKey
}

// New returns a keyring with one new key, created at now. Error: ErrWeak.
func New(passphrase []byte, now time.Time) (*Keyring, error) {
	// The second recommendation of RFC 9106.
	return newKeyring(passphrase, now, kdf{Name: "argon2id", Time: 3, MemoryKiB: 64 << 10, Threads: 4})
}

func newKeyring(passphrase []byte, now time.Time, k kdf) (*Keyring, error) {
	if len(passphrase) < minPassphrase || len(passphrase) > maxPassphrase {
		return nil, ErrWeak
	}
	r := &Keyring{kdf: k, salt: make([]byte, saltSize)}
	_, _ = rand.Read(r.salt) // never fails, by its contract
	r.kdf.Salt = base64url.Encoding.EncodeToString(r.salt)
	key := r.derive(passphrase)
	defer clear(key[:])
	r.add(key, now)
	return r, nil
}

// Load reads a file. It refuses a file that belongs to another user or gives any permission to others. A
// missing file is fs.ErrNotExist. No error quotes the file.
func Load(path string) (*Keyring, error) {
	data, err := private.Read(path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("keyring: %w", err)
	}
	r, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("keyring: %w", err)
	}
	return r, nil
}

// parse reads a file. Its errors do not quote the data.
func parse(data []byte) (*Keyring, error) {
	var file keyFile
	if !private.Parse(data, &file) {
		return nil, errors.New("not a keyring")
	}
	k := file.KDF
	salt, err := base64url.Decode(k.Salt)
	switch {
	case file.Version != version:
		return nil, fmt.Errorf("its version is %d; only %d is known", file.Version, version)
	case k.Name != "argon2id" || err != nil || len(salt) != saltSize:
		return nil, errors.New("its kdf is unknown")
	case k.Time < 1 || k.Time > maxTime || k.MemoryKiB > maxMemory || k.Threads < 1 || k.Threads > maxThreads:
		return nil, errors.New("its kdf exceeds the limits of time, memory or threads")
	case len(file.Keys) < 1 || len(file.Keys) > MaxKeys:
		return nil, fmt.Errorf("it holds %d keys; 1 to %d are allowed", len(file.Keys), MaxKeys)
	}
	r := &Keyring{kdf: k, salt: salt}
	seen := map[trace.Recipient]bool{}
	for i, f := range file.Keys {
		recipient, err := trace.ParseRecipient(f.Public)
		box, err2 := base64url.Decode(f.Private)
		if err != nil || err2 != nil || len(box) != nonceSize+secretbox.Overhead+keySize || seen[recipient] {
			return nil, fmt.Errorf("key %d is not valid", i+1)
		}
		seen[recipient] = true
		r.keys = append(r.keys, sealedKey{Key{recipient, f.Created}, box})
	}
	return r, nil
}

// Keys returns the keys, the current one first.
func (r *Keyring) Keys() []Key {
	list := make([]Key, len(r.keys))
	for i, k := range r.keys {
		list[i] = k.Key
	}
	return list
}

// Current returns the recipient that new traces are sealed to.
func (r *Keyring) Current() trace.Recipient { return r.keys[0].Recipient }

// Unlock returns all private keys, the current one first. It takes about a tenth of a second. Error: ErrPassphrase.
func (r *Keyring) Unlock(passphrase []byte) ([]*trace.Identity, error) {
	key := r.derive(passphrase)
	defer clear(key[:])
	return r.unlock(key)
}

func (r *Keyring) unlock(key *[keySize]byte) (list []*trace.Identity, err error) {
	for _, k := range r.keys {
		secret, ok := secretbox.Open(nil, k.private[nonceSize:], (*[nonceSize]byte)(k.private), key)
		if !ok {
			return nil, ErrPassphrase
		}
		identity, err := trace.IdentityOf(secret)
		clear(secret)
		if err != nil || identity.Recipient() != k.Recipient {
			return nil, ErrPassphrase
		}
		list = append(list, identity)
	}
	return list, nil
}

// Rotate makes a new key the current one. It needs the keyring's passphrase. Errors: ErrPassphrase, ErrFull.
func (r *Keyring) Rotate(passphrase []byte, now time.Time) error {
	if len(r.keys) == MaxKeys {
		return ErrFull
	}
	key := r.derive(passphrase)
	defer clear(key[:])
	if _, err := r.unlock(key); err != nil {
		return err
	}
	r.add(key, now)
	return nil
}

// Create writes the keyring to a new file. If the file exists it stays unchanged, and the error is fs.ErrExist.
func (r *Keyring) Create(path string) error { return r.write(path, private.Create) }

// Save replaces a file with the keyring. After a crash the file holds either the old keyring or this one.
func (r *Keyring) Save(path string) error { return r.write(path, private.Replace) }

func (r *Keyring) write(path string, put func(string, []byte) error) error {
	file := keyFile{Version: version, KDF: r.kdf}
	for _, k := range r.keys {
		file.Keys = append(file.Keys, fileKey{k.Recipient.String(), base64url.Encoding.EncodeToString(k.private),
			k.Created.UTC()})
	}
	data, err := json.MarshalIndent(file, "", "  ")
	if err == nil {
		err = put(path, append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("keyring: %w", err)
	}
	return nil
}

func (r *Keyring) derive(passphrase []byte) *[keySize]byte {
	return (*[keySize]byte)(argon2.IDKey(passphrase, r.salt, r.kdf.Time, r.kdf.MemoryKiB, r.kdf.Threads, keySize))
}

// add puts a new key before the others.
func (r *Keyring) add(key *[keySize]byte, now time.Time) {
	identity := trace.NewIdentity()
	secret := identity.Secret()
	defer clear(secret)
	var nonce [nonceSize]byte
	_, _ = rand.Read(nonce[:]) // never fails, by its contract
	sealed := sealedKey{Key{identity.Recipient(), now.UTC().Truncate(time.Second)},
		secretbox.Seal(nonce[:], secret, &nonce, key)}
	r.keys = append([]sealedKey{sealed}, r.keys...)
}
