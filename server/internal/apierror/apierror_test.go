package apierror

import (
	"encoding/json"
	"testing"

	"runner/server/wire"
)

func TestErrorShape(t *testing.T) {
	body, err := json.Marshal(New(wire.Invalid("input[0].type", "no")))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"error":{"message":"input[0].type: no","type":"invalid_request_error","param":"input[0].type",` +
		`"code":"invalid_value"}}`
	if string(body) != want {
		t.Errorf("%s, want %s", body, want)
	}
	body, _ = json.Marshal(New(&wire.Error{Status: 429, Code: wire.CodeQueue, Message: "m"}))
	const full = `{"error":{"message":"m","type":"rate_limit_error","param":null,"code":"queue_full"}}`
	if string(body) != full {
		t.Errorf("%s, want %s", body, full)
	}
}
