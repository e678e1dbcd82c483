package delegation

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"testing"
)

// Models are trained on these texts, so a new wording is a new constant. The functions have no version in their names;
// if they change, a model that was trained on them must be trained again.
func TestPromptsKeepTheirWording(t *testing.T) {
	for name, pinned := range map[string][2]string{
		"SquashV1": {SquashV1, "0fc21ee1eba584f8"},
		"rankV1":   {rankV1, "3c776340aa953e29"},
		"workV1":   {workV1, "e1e97282453839de"},
		"Tools":    {functions(t), "d31aff31b3613598"},
	} {
		sum := sha256.Sum256([]byte(pinned[0]))
		if got := hex.EncodeToString(sum[:8]); got != pinned[1] {
			t.Errorf("%s has another wording, of the digest %s", name, got)
		}
	}
}

func functions(t *testing.T) string {
	t.Helper()
	type tool struct { // without the tags, so that the digest does not depend on them
		Name, Description string
		Parameters        json.RawMessage
		Strict            bool
	}
	var list []tool
	for _, of := range Tools(100) {
		list = append(list, tool{of.Name, of.Description, of.Parameters, of.Strict})
	}
	b, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
