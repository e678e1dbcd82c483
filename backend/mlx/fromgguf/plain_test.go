package fromgguf

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"runner/backend/gguf"
)

// TestPlainWeights looks up every weight of a plain model where transformers expects it.
func TestPlainWeights(t *testing.T) {
	to := t.TempDir()
	if err := ConvertPlain(demo, to); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(demo)
	if err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(demo)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	b, err := os.ReadFile(filepath.Join(to, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	n := binary.LittleEndian.Uint64(b)
	var header map[string]entry
	if err := json.Unmarshal(b[8:8+n], &header); err != nil {
		t.Fatal(err)
	}
	at := func(name string, index ...int64) float32 {
		e, ok := header[name]
		if !ok || len(e.Shape) != len(index) {
			t.Fatalf("%s has the shape %v", name, e.Shape)
		}
		k := int64(0)
		for i, x := range index {
			if x >= e.Shape[i] {
				t.Fatalf("%s has the shape %v, and %v is asked for", name, e.Shape, index)
			}
			k = k*e.Shape[i] + x
		}
		return math.Float32frombits(binary.LittleEndian.Uint32(b[8+int64(n)+e.Offsets[0]+4*k:]))
	}
	count := int64(0)
	for i := range f.Tensors {
		x := &f.Tensors[i]
		values, err := floats(f, in, x)
		if err != nil {
			t.Fatal(err)
		}
		name, _ := nameOf(x.Name)
		count += int64(len(values))
		for k, want := range values {
			place, index := placeOf(name, x.Dims, int64(k))
			if got := at(place, index...); got != want {
				t.Fatalf("%s: value %d is %v, want %v", x.Name, k, got, want)
			}
		}
	}
	if size := int64(len(b)) - 8 - int64(n); size != 4*count {
		t.Errorf("%d bytes of weights, want %d", size, 4*count)
	}
}

// placeOf returns where transformers has a value of a tensor with dimensions of GGUF, the fastest first.
func placeOf(name string, dims []int64, k int64) (string, []int64) {
	var index []int64
	for _, n := range dims {
		index = append([]int64{k % n}, index...)
		k /= n
	}
	base, part, ok := strings.Cut(name, ".mlp.experts.")
	if !ok {
		return name, index
	}
	base += ".mlp.experts."
	if part, ok := strings.CutPrefix(part, "down_proj."); ok {
		if part == "bias" {
			return base + "down_proj_bias", index
		}
		return base + "down_proj", []int64{index[0], index[2], index[1]}
	}
	row := 2 * index[1]
	if strings.HasPrefix(part, "up_proj.") {
		row++
	}
	if strings.HasSuffix(part, ".bias") {
		return base + "gate_up_proj_bias", []int64{index[0], row}
	}
	return base + "gate_up_proj", []int64{index[0], index[2], row}
}
