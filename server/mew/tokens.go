package mew

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"runner/server/keys"
	"runner/server/mew/envelope"
	"runner/server/mew/space"
)

// Tokens are the participants of a space. They do not change, and may be used by several goroutines at once.
//
// They are kept in a file, {"participants": [{"id", "sha256", "capabilities"}]}: who the participant is, the hexadecimal SHA-256 of its token, and what it
// may send, as in [{"kind": "chat"}, {"kind": "mcp/request", "payload": {"method": "tools/call"}}] (see [envelope.Capability]).
type Tokens struct{ participants []participantToken }

type participantToken struct {
	space.Identity
	hash [sha256.Size]byte
}

// LocalID is the participant that the local model is.
const LocalID = "runner"

const (
	maxToken  = 512
	maxTokens = 1000
)

// TokenError says what is wrong with the file of tokens. It holds no token.
type TokenError struct {
	Detail, Advice string
	Err            error
}

func (e *TokenError) Error() string { return "participants' tokens: " + e.Detail }

// Unwrap returns the cause.
func (e *TokenError) Unwrap() error { return e.Err }

// Hint tells the user what to do next.
func (e *TokenError) Hint() string { return e.Advice }

// tokenFile is the form of the file.
type tokenFile struct {
	Participants []tokenEntry `json:"participants"`
}

type tokenEntry struct {
	ID           string          `json:"id"`
	SHA256       string          `json:"sha256"`
	Capabilities json.RawMessage `json:"capabilities"`
}

// LoadTokens reads a file. On systems with Unix permissions one that others may write is refused.
func LoadTokens(path string) (*Tokens, error) {
	content, err := keys.ReadFile(path)
	if err != nil {
		return nil, &TokenError{"the file cannot be used", "check its path and permissions; make it with runner mew token", err}
	}
	f, err := decodeTokens(content)
	if err != nil {
		return nil, err
	}
	if len(f.Participants) == 0 {
		return nil, &TokenError{Detail: "the file has none", Advice: "make one with runner mew token"}
	}
	return f.tokens()
}

func decodeTokens(content []byte) (*tokenFile, error) {
	d := json.NewDecoder(bytes.NewReader(content))
	d.DisallowUnknownFields()
	var f tokenFile
	if err := d.Decode(&f); err != nil || d.More() {
		return nil, &TokenError{"the file is not as it should be", "see docs/mew.md for its form", err}
	}
	return &f, nil
}

func (f *tokenFile) tokens() (*Tokens, error) {
	bad := func(id, format string, args ...any) (*Tokens, error) {
		return nil, &TokenError{Detail: fmt.Sprintf("%q ", id) + fmt.Sprintf(format, args...), Advice: "see docs/mew.md for the form of the file"}
	}
	if len(f.Participants) > maxTokens {
		return bad("participants", "are more than %d", maxTokens)
	}
	t := &Tokens{}
	for _, e := range f.Participants {
		if !validParticipant(e.ID) {
			return bad(e.ID, "cannot be a participant: 1 to 64 letters, digits and . _ -, and not %s", LocalID)
		}
		p := participantToken{Identity: space.Identity{ID: e.ID}}
		hash, err := hex.DecodeString(e.SHA256)
		if err != nil || len(hash) != sha256.Size {
			return bad(e.ID, "has no sha256 of a token")
		}
		copy(p.hash[:], hash)
		if len(e.Capabilities) == 0 {
			return bad(e.ID, "has no capabilities; [] is none")
		}
		if p.Capabilities, err = envelope.ParseCapabilities(e.Capabilities); err != nil {
			return bad(e.ID, "has wrong capabilities: %v", err)
		}
		for _, other := range t.participants {
			if other.ID == p.ID || other.hash == p.hash {
				return bad(e.ID, "is there twice")
			}
		}
		t.participants = append(t.participants, p)
	}
	return t, nil
}

func validParticipant(id string) bool {
	return id != "" && len(id) <= 64 && id != LocalID && strings.IndexFunc(id, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
	}) < 0
}

// Find returns who has a token, or nil. It takes as long whichever it is, and if it is none.
func (t *Tokens) Find(token string) *space.Identity {
	if len(token) > maxToken {
		return nil
	}
	hash := sha256.Sum256([]byte(token))
	var found *space.Identity
	for i := range t.participants {
		if subtle.ConstantTimeCompare(hash[:], t.participants[i].hash[:]) == 1 {
			found = &t.participants[i].Identity
		}
	}
	return found
}

// AddToken makes a token for a participant, adds its hash to the file at path, which is made if it is not there, and returns the token.
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
