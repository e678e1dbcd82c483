package llamaserver

import (
	"encoding/json"
	"testing"
)

// FuzzQuick checks that what quick reads of an event is what decoding it as a whole gives.
func FuzzQuick(f *testing.F) {
	for _, s := range []string{
		`{"index":0,"content":"stand","tokens":[1397],"stop":false,"id_slot":-1,"tokens_predicted":1,"tokens_evaluated":3}`,
		`{"index":0,"content":"\"\\","tokens":[7],"stop":false,"id_slot":-1,"tokens_predicted":12,"tokens_evaluated":3}`,
		`{"index":0,"content":"","tokens":[],"id_slot":7,"stop":true,"tokens_predicted":5,"tokens_evaluated":3}`,
		`{"tokens":[1],"tokens":[2],"tokens_predicted":1}`, `{"tokens":[1],"tokens_predicted":01}`, `{}`, `{"tokens":[1]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		token, predicted, ok := quick(data)
		var e event
		if err := json.Unmarshal(data, &e); !ok || err != nil {
			return // quick does not check what it skips
		}
		if len(e.Tokens) != 1 || e.Tokens[0] != token || e.Predicted != predicted || e.Stop {
			t.Errorf("%q: token %d of %d, but it is %+v", data, token, predicted, e)
		}
	})
}

func TestQuickReadsTheCommonEvent(t *testing.T) {
	data := []byte(`{"index":0,"content":"st\"nd","tokens":[1397],"stop":false,"id_slot":-1,"tokens_predicted":21,` +
		`"tokens_evaluated":3}`)
	if token, n, ok := quick(data); !ok || token != 1397 || n != 21 {
		t.Errorf("%d, %d, %v", token, n, ok)
	}
	if n := testing.AllocsPerRun(100, func() { quick(data) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
