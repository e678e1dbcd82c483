package gguf

import "testing"

func TestBlockTableIsConsistent(t *testing.T) {
	names := map[string]bool{}
	for typ, b := range blockFormats {
		if names[b.name] || b.elements <= 0 || b.bytes <= 0 || !typ.Known() || typ.String() != b.name {
			t.Errorf("%d: %+v", uint32(typ), b)
		}
		names[b.name] = true
	}
	if TensorType(99).Known() || TensorType(99).String() != "type 99" {
		t.Error("type 99 is known")
	}
}
