package seal

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"testing"
)

// The vectors were made by testdata/vectors.py, which shares only the description of the format with this package.
type vectors struct {
	Calls []struct {
		Key    string `json:"key"`
		Turn   string `json:"turn"`
		Number int    `json:"number"`
		ID     string `json:"id"`
	} `json:"calls"`
	Values []struct {
		Name  string      `json:"name"`
		Key   string      `json:"key"`
		KeyID string      `json:"key_id"`
		Nonce string      `json:"nonce"`
		Place vectorPlace `json:"place"`
		// QuestionSealed is the question that the value was sealed after. It may differ from the place's.
		QuestionSealed *string `json:"question_sealed"`
		// KeySealed and ModelSealed are what was known of the model when the value was sealed.
		KeySealed   string     `json:"key_sealed"`
		ModelSealed string     `json:"model_sealed"`
		Turn        vectorTurn `json:"turn"`
		Text        string     `json:"text"`
		Value       string     `json:"value"`
	} `json:"values"`
	Refused []struct {
		Name  string      `json:"name"`
		Code  string      `json:"code"`
		Keys  []string    `json:"keys"`
		Place vectorPlace `json:"place"`
		Value string      `json:"value"`
	} `json:"refused"`
}

type vectorPlace struct {
	Principal    string   `json:"principal"`
	Key          string   `json:"key"`
	Model        string   `json:"model"`
	Conversation []string `json:"conversation"`
	Question     *string  `json:"question"`
	Calls        []string `json:"calls"`
}

type vectorTurn struct {
	Turn  string `json:"turn"`
	Begun uint64 `json:"begun"`
	Piece uint32 `json:"piece"`
	Calls Calls  `json:"calls"`
}

func question(message *string) Question {
	if message == nil {
		return Question{}
	}
	return QuestionOf(*message)
}

func (v vectorPlace) scope() Scope {
	s := Scope{Principal: v.Principal, Model: Model{Key: v.Key, Digest: v.Model}}
	if v.Conversation != nil {
		s.Conversation = ConversationID(v.Conversation[0], v.Conversation[1])
	}
	return s
}

// open opens a value in its place, as the only value of a conversation.
func (v vectorPlace) open(r *Keyring, value string) (string, error) {
	text, errs := r.History(v.scope()).Open(Place{Question: question(v.Question), Calls: v.Calls},
		[]Value{{Sealed: value}})
	return text, errs[0]
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
	if len(v.Calls) < 5 || len(v.Values) < 15 || len(v.Refused) < 45 {
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
			nonce, scope := [nonceSize]byte(unhex(t, want.Nonce)), want.Place.scope()
			scope.Model = Model{Key: want.KeySealed, Digest: want.ModelSealed}
			c := content{
				turn: [turnSize]byte(unhex(t, want.Turn.Turn)), begun: want.Turn.Begun, piece: want.Turn.Piece,
				calls:    want.Turn.Calls,
				question: question(want.QuestionSealed), text: want.Text,
			}
			if got := sealWith(&r.held()[0], &nonce, scope.appendTo(nil), &c); got != want.Value {
				t.Errorf("sealed as\n%s, want\n%s", got, want.Value)
			}
			if text, err := want.Place.open(r, want.Value); err != nil || text != want.Text {
				t.Errorf("opened as %q, %v", text, err)
			}
		})
	}
	for _, want := range v.Calls {
		r, turn := ringOf(t, want.Key), [turnSize]byte(unhex(t, want.Turn))
		if id := callID(&r.held()[0], &turn, want.Number); id != want.ID {
			t.Errorf("call %d is %s, want %s", want.Number, id, want.ID)
		}
	}
	for _, bad := range v.Refused {
		t.Run("refused "+bad.Name, func(t *testing.T) {
			text, err := bad.Place.open(ringOf(t, bad.Keys...), bad.Value)
			var e *Error
			if !errors.As(err, &e) || e.Code != bad.Code || text != "" {
				t.Errorf("opened as %q, %v, want %s", text, err, bad.Code)
			}
		})
	}
}
