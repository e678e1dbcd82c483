package widentest

import (
	"os"
	"slices"

	"runner/backend/gguf"
	"runner/models/random/ggufwriter"
)

// Widen writes a copy of a model's file with all weights as float32, whose values stay the same. It knows the formats
// that [Append] knows, and metadata of these types: numbers of 32 bits, texts, booleans, and
// lists of integers or texts.
func Widen(from, to string) error {
	f, err := gguf.Open(from)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	var metadata []ggufwriter.Pair
	for _, kv := range f.Metadata {
		metadata = append(metadata, ggufwriter.Pair{Key: kv.Key, Value: pairValue(kv.Value)})
	}
	tensors := slices.Clone(f.Tensors)
	for i := range tensors {
		tensors[i].Type = gguf.F32
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer out.Close()
	w, err := ggufwriter.New(out, metadata, tensors)
	if err != nil {
		return err
	}
	for _, x := range f.Tensors {
		values, err := Values(nil, x.Type, data[f.DataOffset+x.Offset:][:x.Size])
		if err != nil {
			return err
		}
		b, err := Append(nil, gguf.F32, values)
		if err != nil {
			return err
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return out.Close()
}

// pairValue returns a value of a file's metadata as a [ggufwriter.Pair] takes it. It is nil, which ggufwriter.New
// refuses, for a type that Widen does not know.
func pairValue(v gguf.Value) any {
	switch v.Type() {
	case gguf.String:
		s, _ := v.String()
		return s
	case gguf.Bool:
		b, _ := v.Bool()
		return b
	case gguf.Uint32:
		n, _ := v.Int()
		return uint32(n)
	case gguf.Float32:
		x, _ := v.Float()
		return float32(x)
	case gguf.ArrayOf:
		a, _ := v.Array()
		if a.Type() == gguf.String {
			return a.Strings()
		}
		list := make([]int32, a.Len())
		for i := range list {
			n, ok := a.Int(i)
			if !ok || int64(int32(n)) != n {
				return nil
			}
			list[i] = int32(n)
		}
		return list
	}
	return nil
}
