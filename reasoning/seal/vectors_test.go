package seal

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"testing"
)

// The vectors were made by testdata/vectors.py, which shares nothing with this package but the description of the format.
type vectors struct {
	Values []struct {
		Name    string        `json:"name"`
		Key     string        `json:"key"`
		KeyID   string        `json:"key_id"`
		Nonce   string        `json:"nonce"`
		Binding vectorBinding `json:"binding"`
		Text    string        `json:"text"`
		Value   string        `json:"value"`
	} `json:"values"`
	Refused []struct {
		Name    string        `json:"name"`
		Code    string        `json:"code"`
		Keys    []string      `json:"keys"`
		Binding vectorBinding `json:"binding"`
		Value   string        `json:"value"`
	} `json:"refused"`
}

type vectorBinding struct {
	Principal        string   `json:"principal"`
	ConversationID   string   `json:"conversation_id"`
	FirstUserMessage string   `json:"first_user_message"`
	EntityID         string   `json:"entity_id"`
	Preceding        []string `json:"preceding"`
	Model            string   `json:"model"`
}

func (v vectorBinding) binding() Binding {
	b := Binding{Principal: v.Principal, Conversation: ConversationOf(v.FirstUserMessage), Entity: EntityOf(v.Preceding...), Model: v.Model}
	if v.ConversationID != "" {
		b.Conversation = ConversationID(v.ConversationID)
	}
	if v.EntityID != "" {
		b.Entity = EntityID(v.EntityID)
	}
	return b
}

func readVectors(t testing.TB) (v vectors) {
	t.Helper()
	data, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Values) < 10 || len(v.Refused) < 30 {
		t.Fatalf("%d values and %d refused", len(v.Values), len(v.Refused))
	}
	return v
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func ringOf(t testing.TB, secrets ...string) *Keyring {
	t.Helper()
	var keys []key
	for _, s := range secrets {
		keys = append(keys, newKey([keySize]byte(unhex(t, s))))
	}
	r := &Keyring{}
	r.keys.Store(&keys)
	return r
}

func TestVectors(t *testing.T) {
	v := readVectors(t)
	for _, want := range v.Values {
		t.Run(want.Name, func(t *testing.T) {
			r := ringOf(t, want.Key)
			if id := r.IDs()[0]; id != want.KeyID {
				t.Errorf("key id %s, want %s", id, want.KeyID)
			}
			b := want.Binding.binding()
			nonce := [nonceSize]byte(unhex(t, want.Nonce))
			if got := sealWith(&r.held()[0], &nonce, &b, want.Text); got != want.Value {
				t.Errorf("sealed as\n%s, want\n%s", got, want.Value)
			}
			if text, err := r.Open(b, want.Value); err != nil || text != want.Text {
				t.Errorf("opened as %q, %v", text, err)
			}
		})
	}
	for _, bad := range v.Refused {
		t.Run("refused "+bad.Name, func(t *testing.T) {
			text, err := ringOf(t, bad.Keys...).Open(bad.Binding.binding(), bad.Value)
			var e *Error
			if !errors.As(err, &e) || e.Code() != bad.Code || text != "" {
				t.Errorf("opened as %q, %v, want %s", text, err, bad.Code)
			}
		})
	}
}
