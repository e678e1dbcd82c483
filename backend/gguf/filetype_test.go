package gguf_test

import (
	"testing"

	"runner/backend/gguf"
)

func TestFileType(t *testing.T) {
	tensors := []gguf.Tensor{{Type: gguf.F32, Size: 10}, {Type: gguf.Q8_0, Size: 6}, {Type: gguf.Q8_0, Size: 6}}
	if got := (&gguf.File{Tensors: tensors}).FileType(); got != "Q8_0" {
		t.Errorf("the format with most bytes is %q, want Q8_0", got)
	}
	if got := (&gguf.File{}).FileType(); got != "" {
		t.Errorf("a file without tensors has %q", got)
	}
}
