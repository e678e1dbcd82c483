// Package keys holds the API keys of a server. It says which keys exist, what each may do, and whether a request's
// key is one of them.
//
// A key is shown once, when it is made. Only its SHA-256 is kept. Keys are 256 random bits, so a slow hash would add
// nothing. Keys made elsewhere may be guessable; those shorter than 16 bytes are refused.
//
// The file is JSON, {"keys": [{"id", "sha256", "scopes", "reasoning", "models", "requests_per_minute",
// "tokens_per_minute"}]}:
//
//	id                   names the key in logs, limits and sealed values; letters, digits and . _ -, at most 64;
//	                     "local" is reserved
//	sha256               SHA-256 of the key's bytes, hexadecimal
//	scopes               endpoints, as package wire and the formats declare them; absent means all that need no entry
//	                     to name them
//	reasoning            none, summary or full: the most reasoning that it may see; absent means none
//	models               names; absent means all
//	requests_per_minute  0 or absent means no limit
//	tokens_per_minute    prompt and completion; 0 or absent means no limit
//
// An unknown field is an error, so that a misspelt limit is not ignored.
//
// The package of a format declares its scopes, see [wire.Declare]. The routes that need them name them, and so does
// x-permission in the format's description. docs/server.md lists them. Keys without scopes have a new scope from then
// on, unless it has to be named.
package keys

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"runner/hint"
	"runner/reasoning"
	"runner/server/wire"
)

// The limits of keys and of their file.
const (
	minKey  = 16
	maxKey  = 512
	maxFile = 4 << 20
	maxKeys = 10_000
	maxID   = 64
)

// Key is one API key, without the key itself.
type Key struct {
	wire.Principal
	// RequestsPerMinute and TokensPerMinute limit what it may ask for; 0 means no limit.
	RequestsPerMinute, TokensPerMinute int

	hash [sha256.Size]byte
}

// Set is the keys of a server. It may be used by several goroutines at once. Only Reload changes it, as a whole.
type Set struct {
	keys atomic.Pointer[[]*Key]
	// file is the file that the keys come from; nil if there is none.
	file *File
}

func newSet(keys ...*Key) *Set {
	s := &Set{}
	s.keys.Store(&keys)
	return s
}

// problem returns an error about the key with an id, or about the file if id is empty. It may not contain a key.
func problem(id string, advice hint.Advice, format string, args ...any) error {
	about := "API keys"
	if id != "" {
		about = fmt.Sprintf("API key %q", id)
	}
	err := fmt.Errorf(format, args...)
	return &hint.Error{Text: about + ": " + err.Error(), Advice: advice, Err: err}
}

// One returns a set with a single key that may do everything. What a flag has to grant it may do if it is granted.
func One(key string, granted ...wire.Scope) (*Set, error) {
	if len(key) < minKey || len(key) > maxKey {
		return nil, problem("key", "make one with runner serve apikey new", "it has %d bytes; %d to %d are allowed", len(key),
			minKey, maxKey)
	}
	return newSet(&Key{
		Principal: wire.Principal{ID: "key", Scopes: wire.Granted(granted, false), Reasoning: reasoning.VisibilityFull},
		hash:      sha256.Sum256([]byte(key)),
	}), nil
}

// Find returns the key with a text, or nil. It takes the same time for every key, and if there is none.
func (s *Set) Find(key string) *Key {
	if len(key) > maxKey {
		return nil
	}
	return Match(key, *s.keys.Load(), func(k *Key) *[sha256.Size]byte { return &k.hash })
}

// Match returns the entry of a list with the hash of a secret, or nil. It takes the same time for every secret, and if
// there is none.
func Match[T any](secret string, list []*T, hashOf func(*T) *[sha256.Size]byte) (found *T) {
	hash := sha256.Sum256([]byte(secret))
	for _, entry := range list {
		if subtle.ConstantTimeCompare(hash[:], hashOf(entry)[:]) == 1 {
			found = entry
		}
	}
	return found
}

// Len returns the number of keys.
func (s *Set) Len() int { return len(*s.keys.Load()) }

// New makes a key. It returns the text, for the owner, and the hash in hexadecimal, for the file.
func New() (key, hash string) {
	var random [32]byte
	rand.Read(random[:])
	key = "rk-" + base64.RawURLEncoding.EncodeToString(random[:])
	sum := sha256.Sum256([]byte(key))
	return key, hex.EncodeToString(sum[:])
}

// Entry is a key in the file.
type Entry struct {
	ID                string       `json:"id"`
	SHA256            string       `json:"sha256"`
	Scopes            []wire.Scope `json:"scopes,omitzero"`
	Reasoning         string       `json:"reasoning,omitempty"`
	Models            []string     `json:"models,omitzero"`
	RequestsPerMinute int          `json:"requests_per_minute,omitempty"`
	TokensPerMinute   int          `json:"tokens_per_minute,omitempty"`
}

type fileContent struct {
	Keys []Entry `json:"keys"`
}

// Load reads a key file. On systems with Unix permissions it refuses a file that others may write.
func Load(path string) (*Set, error) {
	s := newSet()
	s.file = NewFile(path)
	if _, err := s.Reread(false); err != nil {
		return nil, err
	}
	return s, nil
}

// Source returns the set as a source.
func (s *Set) Source() Source { return Source{"the API keys", s.Reread, s.Len} }

// Reread reads the file of a set again, see [Source]. Removed keys are refused from then on, but their running requests
// go on.
func (s *Set) Reread(unchanged bool) (changed bool, err error) {
	if s.file == nil {
		return false, nil
	}
	return s.file.Update(unchanged, func(content []byte) error {
		keys, err := parse(content)
		if err == nil {
			s.keys.Store(&keys)
		}
		return err
	})
}

func decode(content []byte) ([]Entry, error) {
	d := json.NewDecoder(bytes.NewReader(content))
	d.DisallowUnknownFields()
	var f fileContent
	if err := d.Decode(&f); err != nil {
		return nil, problem("", "see docs/server.md for its form", "the file is not valid: %w", err)
	}
	if d.More() {
		return nil, problem("", "see docs/server.md for the file's form", "the file has text after the keys")
	}
	if len(f.Keys) > maxKeys {
		return nil, problem("", "remove some", "the file has %d keys; at most %d are allowed", len(f.Keys), maxKeys)
	}
	return f.Keys, nil
}

func parse(content []byte) (keys []*Key, err error) {
	entries, err := decode(content)
	if err != nil {
		return nil, err
	}
	ids, hashes := map[string]bool{}, map[[sha256.Size]byte]bool{}
	for _, e := range entries {
		k, err := e.key()
		if err != nil {
			return nil, err
		}
		if ids[k.ID] || hashes[k.hash] {
			return nil, problem(k.ID, "remove one of them", "it is there twice")
		}
		ids[k.ID], hashes[k.hash] = true, true
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return nil, problem("", "make one with runner serve apikey new", "the file has none")
	}
	return keys, nil
}

func (e *Entry) key() (*Key, error) {
	bad := func(advice hint.Advice, format string, args ...any) (*Key, error) {
		return nil, problem(e.ID, advice, format, args...)
	}
	k := &Key{Principal: wire.Principal{ID: e.ID, Scopes: e.Scopes, Models: e.Models},
		RequestsPerMinute: e.RequestsPerMinute, TokensPerMinute: e.TokensPerMinute}
	if !ValidID(e.ID, wire.Local) {
		return bad("use at most 64 letters, digits and . _ -, and not local", "its id cannot be used")
	}
	hash, err := hex.DecodeString(e.SHA256)
	if err != nil || copy(k.hash[:], hash) != sha256.Size || len(hash) != sha256.Size {
		return bad("make the key with runner serve apikey new", "sha256 is not the hexadecimal SHA-256 of a key")
	}
	if e.Scopes == nil {
		k.Scopes = wire.Scopes(func(p *wire.Permission) bool { return !p.Named })
	}
	known := wire.Scopes(nil)
	for _, s := range k.Scopes {
		if !slices.Contains(known, s) {
			return bad(hint.Advice("use some of "+strings.Trim(fmt.Sprint(known), "[]")), "there is no scope %q", s)
		}
	}
	if e.Reasoning != "" {
		if err := k.Reasoning.UnmarshalText([]byte(e.Reasoning)); err != nil {
			return bad("use none, summary or full", "reasoning cannot be %q", e.Reasoning)
		}
	}
	if e.RequestsPerMinute < 0 || e.TokensPerMinute < 0 {
		return bad("use 0 for no limit", "a limit is negative")
	}
	return k, nil
}

// ValidID reports whether an id can be that of an entry in a file: letters, digits and . _ -, at most 64, and not the
// reserved one.
func ValidID(id, reserved string) bool {
	return id != "" && len(id) <= maxID && id != reserved && strings.IndexFunc(id, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
	}) < 0
}

// Add makes a key, adds its entry to the file at path, and returns the key's text. It creates a missing file.
func Add(path string, e Entry) (key string, err error) {
	var entries []Entry
	content, err := ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return "", err
	default:
		if entries, err = decode(content); err != nil {
			return "", err
		}
	}
	if slices.ContainsFunc(entries, func(other Entry) bool { return other.ID == e.ID }) {
		return "", problem(e.ID, "choose another id, or remove that one from the file",
			"there is already a key with this id in %s", path)
	}
	key, e.SHA256 = New()
	out, err := json.MarshalIndent(fileContent{Keys: append(entries, e)}, "", "  ")
	if err != nil {
		return "", err
	}
	if _, err := parse(out); err != nil {
		return "", err
	}
	return key, ReplaceFile(path, append(out, '\n'))
}

// List returns the entries of the file at path, in its order.
func List(path string) ([]Entry, error) {
	content, err := ReadFile(path)
	if err != nil {
		return nil, err
	}
	if _, err := parse(content); err != nil {
		return nil, err
	}
	return decode(content)
}

// Remove removes the entry with an id from the file at path. It refuses to remove the last one, because a server keeps
// its old keys if the file has none.
func Remove(path, id string) error {
	entries, err := List(path)
	if err != nil {
		return err
	}
	rest := slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool { return e.ID == id })
	switch {
	case len(rest) == len(entries):
		return problem(id, hint.Advice("see runner serve apikey list "+path), "there is no key with this id in %s", path)
	case len(rest) == 0:
		return problem(id, "make another first, with runner serve apikey new", "it is the last one in %s", path)
	}
	out, err := json.MarshalIndent(fileContent{Keys: rest}, "", "  ")
	if err != nil {
		return err
	}
	return ReplaceFile(path, append(out, '\n'))
}
