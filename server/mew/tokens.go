package mew

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"runner/hint"
	"runner/server/keys"
	"runner/server/mew/envelope"
	"runner/server/mew/space"
)

// Tokens are the participants of a space. Only Reread changes them, as a whole. They may be used by several goroutines
// at once.
//
// Their file is {"participants": [{"id", "sha256", "capabilities"}]}: the participant's id, the hexadecimal SHA-256 of
// its token, and what it may send, for example [{"kind": "chat"}, {"kind": "mcp/request", "payload": {"method":
// "tools/call"}}]. See [envelope.Capability].
type Tokens struct {
	participants atomic.Pointer[[]*participantToken]
	file         *keys.File
}

type participantToken struct {
	space.Identity
	hash [sha256.Size]byte
}

// LocalID is the id of the local model as a participant.
const LocalID = "runner"

const (
	maxToken  = 512
	maxTokens = 1000
)

// TokenError says what is wrong with the token file. It contains no token.
type TokenError struct {
	Detail string
	hint.Advice
	Err error
}

func (e *TokenError) Error() string { return "participants' tokens: " + e.Detail }

// Unwrap returns the cause.
func (e *TokenError) Unwrap() error { return e.Err }

// tokenFile is the JSON of the token file.
type tokenFile struct {
	Participants []tokenEntry `json:"participants"`
}

type tokenEntry struct {
	ID           string          `json:"id"`
	SHA256       string          `json:"sha256"`
	Capabilities json.RawMessage `json:"capabilities"`
}

// LoadTokens reads a token file. On systems with Unix permissions it refuses a file that others may write.
func LoadTokens(path string) (*Tokens, error) {
	t := &Tokens{file: keys.NewFile(path)}
	if _, err := t.Reread(false); err != nil {
		return nil, err
	}
	return t, nil
}

// Reread reads the file again, see [keys.Source].
func (t *Tokens) Reread(unchanged bool) (changed bool, err error) {
	changed, err = t.file.Update(unchanged, func(content []byte) error {
		f, err := decodeTokens(content)
		if err != nil {
			return err
		}
		if len(f.Participants) == 0 {
			return &TokenError{Detail: "the file has none", Advice: "make one with runner mew token"}
		}
		list, err := f.tokens()
		if err == nil {
			t.participants.Store(&list)
		}
		return err
	})
	if own := (*TokenError)(nil); err != nil && !errors.As(err, &own) {
		err = &TokenError{"the file cannot be used", "check its path and permissions; make it with runner mew token", err}
	}
	return changed, err
}

func decodeTokens(content []byte) (*tokenFile, error) {
	d := json.NewDecoder(bytes.NewReader(content))
	d.DisallowUnknownFields()
	var f tokenFile
	if err := d.Decode(&f); err != nil || d.More() {
		return nil, &TokenError{"the file is not valid", "see docs/mew.md for its form", err}
	}
	return &f, nil
}

func (f *tokenFile) tokens() (list []*participantToken, err error) {
	bad := func(id, format string, args ...any) ([]*participantToken, error) {
		return nil, &TokenError{Detail: fmt.Sprintf("%q ", id) + fmt.Sprintf(format, args...),
			Advice: "see docs/mew.md for the form of the file"}
	}
	if len(f.Participants) > maxTokens {
		return bad("participants", "are more than %d", maxTokens)
	}
	for _, e := range f.Participants {
		if !keys.ValidID(e.ID, LocalID) {
			return bad(e.ID, "cannot be a participant: 1 to 64 letters, digits and . _ -, and not %s", LocalID)
		}
		p := &participantToken{Identity: space.Identity{ID: e.ID}}
		hash, err := hex.DecodeString(e.SHA256)
		if err != nil || len(hash) != sha256.Size {
			return bad(e.ID, "has no sha256 of a token")
		}
		copy(p.hash[:], hash)
		if len(e.Capabilities) == 0 {
			return bad(e.ID, "has no capabilities; write [] to allow nothing")
		}
		if p.Capabilities, err = envelope.ParseCapabilities(e.Capabilities); err != nil {
			return bad(e.ID, "has wrong capabilities: %v", err)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, e.Capabilities); err != nil {
			return bad(e.ID, "has wrong capabilities: %v", err)
		}
		p.Grant = sha256.Sum256(append(p.hash[:], compact.Bytes()...))
		for _, other := range list {
			if other.ID == p.ID || other.hash == p.hash {
				return bad(e.ID, "is there twice")
			}
		}
		list = append(list, p)
	}
	return list, nil
}

// Find returns the participant with a token, or nil. It takes the same time for every token, and if there is none.
func (t *Tokens) Find(token string) *space.Identity {
	if len(token) > maxToken {
		return nil
	}
	p := keys.Match(token, *t.participants.Load(), func(p *participantToken) *[sha256.Size]byte { return &p.hash })
	if p == nil {
		return nil
	}
	return &p.Identity
}

// Len returns the number of participants.
func (t *Tokens) Len() int { return len(*t.participants.Load()) }

// check returns an error if a participant may not go on because its entry was removed or changed.
func (t *Tokens) check(who space.Identity) error {
	for _, p := range *t.participants.Load() {
		if p.ID == who.ID && p.Grant == who.Grant {
			return nil
		} else if p.ID == who.ID {
			return space.ErrChanged
		}
	}
	return space.ErrUnauthorized
}

// AddToken makes a token for a participant, adds its hash to the file at path, and returns the token. It creates a
// missing file.
func AddToken(path, id string, capabilities envelope.Capabilities) (token string, err error) {
	f := &tokenFile{}
	content, err := keys.ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return "", &TokenError{"the file cannot be used", "check its path and permissions", err}
	default:
		if f, err = decodeTokens(content); err != nil {
			return "", err
		}
	}
	may, err := envelope.Pack(capabilities)
	if err != nil {
		return "", err
	}
	token, hash := keys.New()
	f.Participants = append(f.Participants, tokenEntry{id, hash, may})
	if _, err := f.tokens(); err != nil {
		return "", err
	}
	out, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return "", err
	}
	return token, keys.ReplaceFile(path, append(out, '\n'))
}
