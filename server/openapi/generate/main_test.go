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
	got, err := os.ReadFile("../spec/generated.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("spec/generated.json is not what the Go types say; run go generate ./server/openapi")
	}
}
