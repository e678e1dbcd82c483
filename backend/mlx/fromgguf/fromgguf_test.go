package fromgguf

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"runner/backend/gguf"
)

const demo = "../../../models/demo/demo.gguf"

// fp4 are the values of the 16 codes of MXFP4.
var fp4 = [16]float32{0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6}

// TestExactWeights compares every weight of the converted model with the original.
func TestExactWeights(t *testing.T) {
	to := t.TempDir()
	if err := Convert(demo, to); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(demo)
	if err != nil {
		t.Fatal(err)
	}
	old, err := os.ReadFile(demo)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(to, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	n := binary.LittleEndian.Uint64(b)
	var header map[string]entry
	if err := json.Unmarshal(b[8:8+n], &header); err != nil { // __metadata__ has no field of an entry
		t.Fatal(err)
	}
	data := func(name string) []byte {
		e, ok := header[name]
		if !ok {
			t.Fatalf("no tensor %s", name)
		}
		return b[8+int64(n)+e.Offsets[0] : 8+int64(n)+e.Offsets[1]]
	}
	for i := range f.Tensors {
		x := &f.Tensors[i]
		name, _ := nameOf(x.Name)
		from := old[f.DataOffset+x.Offset : f.DataOffset+x.Offset+x.Size]
		for k := range x.Elements() {
			var want, got float32
			switch x.Type {
			case gguf.F32:
				want = math.Float32frombits(binary.LittleEndian.Uint32(from[4*k:]))
			case gguf.F16:
				want = half(binary.LittleEndian.Uint16(from[2*k:]))
			case gguf.MXFP4:
				block := from[k/32*17:]
				code := block[1+k%16] >> (k % 32 / 16 * 4) & 15
				want = fp4[code] * float32(math.Exp2(float64(block[0])-127))
			}
			if x.Type == gguf.MXFP4 {
				packed := binary.LittleEndian.Uint32(data(name)[k/8*4:])
				scale := data(name[:len(name)-len("weight")] + "scales")[k/32]
				got = fp4[packed>>(k%8*4)&15] * float32(math.Exp2(float64(scale)-127))
			} else {
				got = math.Float32frombits(binary.LittleEndian.Uint32(data(name)[4*k:]))
			}
			if got != want {
				t.Fatalf("%s: value %d is %v, want %v", x.Name, k, got, want)
			}
		}
	}
}

func TestHalf(t *testing.T) {
	for h, want := range map[uint16]float32{0: 0, 1: 1.0 / (1 << 24), 0x3c00: 1, 0xc000: -2, 0x7bff: 65504,
		0x0400: 1.0 / (1 << 14), 0x7c00: float32(math.Inf(1))} {
		if got := half(h); got != want {
			t.Errorf("%#x is %v, want %v", h, got, want)
		}
	}
}
