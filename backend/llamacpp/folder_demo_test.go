package llamacpp

import (
	"os"
	"path/filepath"
	"testing"

	"runner/backend"
	"runner/backend/backendtest"
	"runner/backend/gguf"
	"runner/models/demo"
	"runner/models/random/ggufwriter"
	"runner/testenv"
)

// TestFolderDemoConformance runs the suite on the bundled model as `runner serve --engine` runs it: with an engine in
// shared libraries, in a process of its own. The weights are the bundled ones as F32, because the engine's kernels for
// other formats round activations by what else is in the batch.
func TestFolderDemoConformance(t *testing.T) {
	e := isolatedEngine()
	e.Program.Env = append(e.Program.Env, folderVariable+"="+testenv.EngineFolder(t))
	path := exactDemo(t)
	backendtest.Run(t, func(t *testing.T, cfg backend.Config) backend.Model {
		cfg.CacheType, cfg.FlashAttention, cfg.Threads = "f32", "off", 1
		m, err := e.Open(t.Context(), path, cfg)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}, rounding(true))
}

// exactDemo writes the bundled model with all its weights as F32.
func exactDemo(t *testing.T) (path string) {
	t.Helper()
	from, err := demo.Path(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	var metadata []ggufwriter.Pair
	for _, kv := range f.Metadata {
		metadata = append(metadata, ggufwriter.Pair{Key: kv.Key, Value: pairValue(kv.Value)})
	}
	tensors := make([]gguf.Tensor, len(f.Tensors))
	for i, x := range f.Tensors {
		tensors[i] = gguf.Tensor{Name: x.Name, Dims: x.Dims, Type: gguf.F32}
	}
	path = filepath.Join(t.TempDir(), "exact.gguf")
	to, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	w, err := ggufwriter.New(to, metadata, tensors)
	for i := 0; err == nil && i < len(tensors); i++ {
		x := &f.Tensors[i]
		var values []float32
		if values, err = ggufwriter.Values(nil, x.Type, data[f.DataOffset+x.Offset:][:x.Size]); err != nil {
			break
		}
		var b []byte
		if b, err = ggufwriter.Append(nil, gguf.F32, values); err == nil {
			_, err = w.Write(b)
		}
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// pairValue returns a value of the bundled model's metadata as the writer takes it. The writer refuses nil.
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
			n, _ := a.Int(i)
			list[i] = int32(n)
		}
		return list
	}
	return nil
}
