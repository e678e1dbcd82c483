// Package keys is a keyring of recipients: key pairs that traces are sealed to, the private keys under a passphrase.
//
// Public keys can be read without the passphrase, so a server can seal with nothing but them; private keys are
// needed to read traces only. The newest key is the current one, which new traces are sealed to. Older ones open
// what was sealed to them; no rotation drops them, since traces sealed to a key that is gone can be read by nobody.
//
// # The file
//
// JSON, mode 0600, replaced at once:
//
//	version  1
//	kdf      {name: "argon2id", time, memory_kib, threads, salt}: the passphrase's key, 32 bytes; salt is 16 bytes
//	keys     [{public, private, created}], the current one first; public is the text of a trace.Recipient, created RFC 3339
//
// private is base64url of a random nonce of 24 bytes and a NaCl secretbox, under the passphrase's key, of the 32
// bytes of the X25519 private key. The public key has to be the one that follows from it. Numbers of the kdf above
// 16 passes, 1 GiB and 16 threads are refused, so that a file from elsewhere cannot take the machine's memory.
//
// # What it protects, and what not
//
// Who reads the file learns the public keys, and can try passphrases, at about a tenth of a second and 64 MiB each.
// Who can write it can put public keys of his own there, so that new traces are sealed to him; the file has to stay
// the user's own. A passphrase that is lost cannot be recovered, and nor can the traces.
//
// A Keyring may be read by several goroutines; it must not be changed meanwhile. Programs that change one file must
// not do so at the same time.
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
	// MaxKeys is the most keys of a keyring.
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
	// ErrPassphrase says that a passphrase does not open the keyring.
	ErrPassphrase = errors.New("the passphrase is wrong, or the keyring was altered")
	// ErrWeak says that a new passphrase is too short or too long.
	ErrWeak = errors.New("a passphrase has 8 to 1,024 bytes")
	// ErrFull says that a keyring holds MaxKeys keys.
	ErrFull = errors.New("the keyring holds 64 keys already")
	// ErrExposed says that the file can be read by others.
	ErrExposed = private.ErrExposed
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

// Key is what may be known of a key without the passphrase.
type Key struct {
	Recipient trace.Recipient
	Created   time.Time
}

type sealedKey struct {
	Key
	private []byte // nonce and box
}

// Keyring is a list of keys, the current one first. Private keys are in it only as the passphrase seals them.
type Keyring struct {
	kdf  kdf
	salt []byte
	keys []sealedKey
}

// New returns a keyring with one new key. now is the time that it is noted with. Error: ErrWeak.
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

// Load reads a file. A file that belongs to another user or gives any permission to others is refused with
// ErrExposed; a missing one is fs.ErrNotExist. No error quotes the file.
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

// parse reads a file. Its errors hold nothing of the data, unlike those of package json.
func parse(data []byte) (*Keyring, error) {
	var file keyFile
	if !private.Parse(data, &file) {
		return nil, errors.New("it is not a keyring")
	}
	k := file.KDF
	salt, err := base64url.Decode(k.Salt)
	switch {
	case file.Version != version:
		return nil, fmt.Errorf("its version is %d, and %d is known", file.Version, version)
	case k.Name != "argon2id" || err != nil || len(salt) != saltSize:
		return nil, errors.New("its kdf is not known")
	case k.Time < 1 || k.Time > maxTime || k.MemoryKiB > maxMemory || k.Threads < 1 || k.Threads > maxThreads:
		return nil, errors.New("its kdf takes more than it may")
	case len(file.Keys) < 1 || len(file.Keys) > MaxKeys:
		return nil, fmt.Errorf("it holds %d keys, and 1 to %d are possible", len(file.Keys), MaxKeys)
	}
	r := &Keyring{kdf: k, salt: salt}
	seen := map[trace.Recipient]bool{}
	for i, f := range file.Keys {
		recipient, err := trace.ParseRecipient(f.Public)
		box, err2 := base64url.Decode(f.Private)
		if err != nil || err2 != nil || len(box) != nonceSize+secretbox.Overhead+keySize || seen[recipient] {
			return nil, fmt.Errorf("key %d is not a key", i+1)
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

// Current returns whom new traces are sealed to.
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

// Rotate makes a new key the current one. The passphrase has to be the keyring's. Errors: ErrPassphrase, ErrFull.
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

// Create writes the keyring to a file that is not there yet; one that is stays, and the error is fs.ErrExist.
func (r *Keyring) Create(path string) error { return r.write(path, private.Create) }

// Save writes the keyring in place of a file. Whatever happens, the file holds the old keyring or this one.
func (r *Keyring) Save(path string) error { return r.write(path, private.Replace) }

func (r *Keyring) write(path string, put func(string, []byte) error) error {
	file := keyFile{Version: version, KDF: r.kdf}
	for _, k := range r.keys {
		file.Keys = append(file.Keys, fileKey{k.Recipient.String(), base64url.Encoding.EncodeToString(k.private), k.Created.UTC()})
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
