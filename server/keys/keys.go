// Package keys is the API keys of a server: which there are, what each may do, and whether a request's key is one
// of them.
//
// A key is shown once, when it is made. What is kept is its SHA-256: keys are 256 random bits, so a slow hash would
// add nothing. Keys that were made elsewhere, and may be guessable, are refused when they are shorter than 16
// bytes.
//
// The file is JSON, {"keys": [{"id", "sha256", "scopes", "reasoning", "models", "requests_per_minute",
// "tokens_per_minute"}]}:
//
//	id                   names the key in logs, limits and sealed values; letters, digits and . _ -, at most 64; "local" is taken
//	sha256               hexadecimal, of the key's bytes
//	scopes               endpoints: generate, embed, models, metrics, trace:read, trace:erase, trace:all; absent is all but trace:all
//	reasoning            none, summary or full: the most of the reasoning that it may see; absent is none
//	models               names; absent is all
//	requests_per_minute  0 or absent is no limit
//	tokens_per_minute    prompt and completion; 0 or absent is no limit
//
// A field that is not listed here is an error, so that a misspelt limit is not taken for none.
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

	"runner/reasoning"
	"runner/server/wire"
)

// Limits of keys and of their file.
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
	// RequestsPerMinute and TokensPerMinute limit what it may ask for; 0 is no limit.
	RequestsPerMinute, TokensPerMinute int

	hash [sha256.Size]byte
}

// Set is the keys of a server. It may be used by several goroutines at once, and changes only as a whole, by Reload.
type Set struct {
	keys atomic.Pointer[[]*Key]
	// file is where they are from; nil for none.
	file *File
}

func newSet(keys ...*Key) *Set {
	s := &Set{}
	s.keys.Store(&keys)
	return s
}

// Error says what is wrong with a key or its file. It holds no key.
type Error struct {
	// ID names the key, where it is known.
	ID     string
	Detail string
	Advice string
	Err    error
}

func (e *Error) Error() string {
	if e.ID == "" {
		return "API keys: " + e.Detail
	}
	return fmt.Sprintf("API key %q: %s", e.ID, e.Detail)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Hint tells the user what to do next.
func (e *Error) Hint() string { return e.Advice }

// One returns a set of a single key that may do everything.
func One(key string) (*Set, error) {
	k, err := everything("key", key)
	if err != nil {
		return nil, err
	}
	return newSet(k), nil
}

func everything(id, key string) (*Key, error) {
	if len(key) < minKey || len(key) > maxKey {
		return nil, &Error{ID: id, Detail: fmt.Sprintf("it has %d bytes; %d to %d are allowed", len(key), minKey, maxKey),
			Advice: "make one with runner apikey new"}
	}
	return &Key{
		Principal: wire.Principal{ID: id, Scopes: slices.Clone(wire.Scopes), Reasoning: reasoning.VisibilityFull},
		hash:      sha256.Sum256([]byte(key)),
	}, nil
}

// Find returns the key whose text a request brought, or nil. It takes as long whichever key it is, and if it is none.
func (s *Set) Find(key string) *Key {
	if len(key) > maxKey {
		return nil
	}
	hash := sha256.Sum256([]byte(key))
	var found *Key
	for _, k := range *s.keys.Load() {
		if subtle.ConstantTimeCompare(hash[:], k.hash[:]) == 1 {
			found = k
		}
	}
	return found
}

// Len returns the number of keys.
func (s *Set) Len() int { return len(*s.keys.Load()) }

// New makes a key: its text, for its owner, and its hash in hexadecimal, for the file.
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

// Load reads a file of keys. On systems with Unix permissions a file that others may write is refused.
func Load(path string) (*Set, error) {
	s := newSet()
	s.file = NewFile(path)
	if _, err := s.Reload(); err != nil {
		return nil, err
	}
	return s, nil
}

// Reload reads the file of a set again if it has changed, and reports whether the keys are new now. When the file
// cannot be used the keys stay as they were; the error is told once for each change. Keys that are gone are refused
// from then on; what they have begun goes on.
func (s *Set) Reload() (changed bool, err error) {
	if s.file == nil {
		return false, nil
	}
	return s.file.Update(func(content []byte) error {
		keys, err := parse(content)
		if err == nil {
			s.keys.Store(&keys)
		}
		return err
	})
}

// Reread is Reload for a file that may look unchanged.
func (s *Set) Reread() (changed bool, err error) {
	if s.file != nil {
		s.file.Forget()
	}
	return s.Reload()
}

func decode(content []byte) ([]Entry, error) {
	d := json.NewDecoder(bytes.NewReader(content))
	d.DisallowUnknownFields()
	var f fileContent
	if err := d.Decode(&f); err != nil {
		return nil, &Error{Detail: "the file is not as it should be: " + err.Error(),
			Advice: "see docs/server.md for its form", Err: err}
	}
	if d.More() {
		return nil, &Error{Detail: "there is something after the keys", Advice: "see docs/server.md for the file's form"}
	}
	if len(f.Keys) > maxKeys {
		return nil, &Error{Detail: fmt.Sprintf("%d keys; at most %d", len(f.Keys), maxKeys), Advice: "remove some"}
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
			return nil, &Error{ID: k.ID, Detail: "it is there twice", Advice: "remove one of them"}
		}
		ids[k.ID], hashes[k.hash] = true, true
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return nil, &Error{Detail: "the file holds none", Advice: "make one with runner apikey new"}
	}
	return keys, nil
}

func (e *Entry) key() (*Key, error) {
	bad := func(advice, format string, args ...any) (*Key, error) {
		return nil, &Error{ID: e.ID, Detail: fmt.Sprintf(format, args...), Advice: advice}
	}
	k := &Key{Principal: wire.Principal{ID: e.ID, Scopes: e.Scopes, Models: e.Models},
		RequestsPerMinute: e.RequestsPerMinute, TokensPerMinute: e.TokensPerMinute}
	if !validID(e.ID) {
		return bad("use letters, digits and . _ -, at most 64, and not local", "its id cannot be used")
	}
	hash, err := hex.DecodeString(e.SHA256)
	if err != nil || copy(k.hash[:], hash) != sha256.Size || len(hash) != sha256.Size {
		return bad("make the key with runner apikey new", "sha256 is not the hexadecimal SHA-256 of a key")
	}
	if e.Scopes == nil {
		k.Scopes = slices.DeleteFunc(slices.Clone(wire.Scopes), func(s wire.Scope) bool { return s == wire.ScopeTraceAll })
	}
	for _, s := range k.Scopes {
		if !slices.Contains(wire.Scopes, s) {
			return bad("use generate, embed, models, metrics, trace:read, trace:erase or trace:all", "there is no scope %q", s)
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

func validID(id string) bool {
	if id == "" || len(id) > maxID || id == wire.Local {
		return false
	}
	return strings.IndexFunc(id, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
	}) < 0
}

// Add makes a key, writes its entry into the file at path, which is made if it is not there, and returns the key's
// text.
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
		return "", &Error{ID: e.ID, Detail: "there is one of this id in " + path,
			Advice: "choose another id, or remove that one from the file"}
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

// Remove takes the entry called id out of the file at path. The last one stays, because a server keeps its keys
// when there are no others.
func Remove(path, id string) error {
	entries, err := List(path)
	if err != nil {
		return err
	}
	rest := slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool { return e.ID == id })
	switch {
	case len(rest) == len(entries):
		return &Error{ID: id, Detail: "there is none of this id in " + path, Advice: "see runner apikey list " + path}
	case len(rest) == 0:
		return &Error{ID: id, Detail: "it is the last one in " + path, Advice: "make another first, with runner apikey new"}
	}
	out, err := json.MarshalIndent(fileContent{Keys: rest}, "", "  ")
	if err != nil {
		return err
	}
	return ReplaceFile(path, append(out, '\n'))
}
