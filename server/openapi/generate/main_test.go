package main

import (
	"bytes"
	"os"
	"testing"
)

func TestSchemasAreGenerated(t *testing.T) {
	want, err := generate("../..")
	if err != nil {
		t.Fatal(err)
	}
	if len(want) < 5 {
		t.Errorf("only %d files have schemas", len(want))
	}
	for name, text := range want {
		got, err := os.ReadFile(name)
		if err != nil || !bytes.Equal(got, text) {
			t.Errorf("%s is not what the Go types say; run go generate ./server/openapi: %v", name, err)
		}
	}
}
