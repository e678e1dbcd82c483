package widentest

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"runner/backend/gguf"
)

// TestHalf converts every half to float32 and back without change, and checks that midpoints round to even.
func TestHalf(t *testing.T) {
	for h := range 1 << 16 {
		x := fromHalf(uint16(h))
		got := halfBits(x)
		if x != x {
			if got&0x7c00 != 0x7c00 || got&0x3ff == 0 {
				t.Fatalf("NaN %04x became %04x", h, got)
			}
			continue
		}
		if got != uint16(h) {
			t.Fatalf("%04x is %v is %04x", h, x, got)
		}
		if h&0x7fff >= 0x7bff {
			continue // infinity, and the largest half, whose neighbour is infinity
		}
		next := fromHalf(uint16(h + 1))
		middle := float32((float64(x) + float64(next)) / 2)
		if want := uint16(h + h&1); halfBits(middle) != want {
			t.Fatalf("between %04x and its neighbour: %04x, want %04x", h, halfBits(middle), want)
		}
		if got := halfBits(math.Nextafter32(middle, x)); got != uint16(h) {
			t.Fatalf("just before the middle above %04x: %04x", h, got)
		}
		if got := halfBits(math.Nextafter32(middle, next)); got != uint16(h+1) {
			t.Fatalf("just after the middle above %04x: %04x", h, got)
		}
	}
	for x, want := range map[float32]uint16{65519.996: 0x7bff, 65520: 0x7c00, 1e10: 0x7c00, -1e10: 0xfc00, 1e-10: 0} {
		if got := halfBits(x); got != want {
			t.Errorf("%v is %04x, want %04x", x, got, want)
		}
	}
}

func TestBrain(t *testing.T) {
	for bits, want := range map[uint32]uint16{
		0x3f800000: 0x3f80, 0x3f808000: 0x3f80, 0x3f818000: 0x3f82, 0x3f808001: 0x3f81, 0x7f7fffff: 0x7f80,
		0x7f800001: 0x7fc0, 0xff800000: 0xff80,
	} {
		if got := brainBits(math.Float32frombits(bits)); got != want {
			t.Errorf("%08x is %04x, want %04x", bits, got, want)
		}
	}
}

// TestMXFP4Golden has the block of the values 0, ±0.5, ±1, ... ±6, written by hand.
func TestMXFP4Golden(t *testing.T) {
	magnitudes := []float32{0, 0.5, 1, 1.5, 2, 3, 4, 6}
	x := make([]float32, 32)
	want := []byte{127} // 6 = 1.5 * 2^2, the largest float of the format at scale 1
	for i := range 16 {
		m := magnitudes[i%8]
		x[i], x[i+16] = m, -m
		low, high := byte(i%8), byte(i%8+8)
		if m == 0 {
			high = 0
		}
		want = append(want, low|high<<4)
	}
	got, err := Append(nil, gguf.MXFP4, x)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("got %x, %v, want %x", got, err, want)
	}
	back, err := Values(nil, gguf.MXFP4, got)
	if err != nil {
		t.Fatal(err)
	}
	for i := range x {
		if back[i] != x[i] {
			t.Errorf("value %d is %v, was %v", i, back[i], x[i])
		}
	}
}

// TestQuantizeError bounds the error of every format by its step, at many scales.
func TestQuantizeError(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, format := range []struct {
		t     gguf.TensorType
		bound float64 // of the error, as a part of the block's largest magnitude
	}{{gguf.F32, 0}, {gguf.F16, 1.0 / 2048}, {gguf.BF16, 1.0 / 256}, {gguf.Q8_0, 0.57 / 127}, {gguf.MXFP4, 0.2501}} {
		for range 200 {
			scale := math.Exp(r.Float64()*10 - 2) // above the subnormal halves
			x := make([]float32, 96)
			for i := range x {
				x[i] = float32(r.NormFloat64() * scale)
			}
			data, err := Append([]byte{1}, format.t, x)
			if err != nil {
				t.Fatal(err)
			}
			if want, _ := gguf.ByteSize(format.t, []int64{96}); int64(len(data)) != want+1 {
				t.Fatalf("%v: %d bytes", format.t, len(data))
			}
			back, err := Values(nil, format.t, data[1:])
			if err != nil {
				t.Fatal(err)
			}
			for i := range x {
				block := x[i/32*32:][:32]
				most := float64(largest(block))
				if e := math.Abs(float64(back[i]) - float64(x[i])); e > format.bound*most+6e-8 {
					t.Fatalf("%v: %v became %v in a block up to %v", format.t, x[i], back[i], most)
				}
			}
		}
	}
}

// TestQuantizeExtremes checks that no extreme value causes a panic or a NaN in the block formats.
func TestQuantizeExtremes(t *testing.T) {
	odd := []float32{0, float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), math.MaxFloat32,
		math.SmallestNonzeroFloat32, -1e-40, 1}
	for _, a := range odd {
		for _, b := range odd {
			x := make([]float32, 32)
			x[3], x[20] = a, b
			for _, typ := range []gguf.TensorType{gguf.Q8_0, gguf.MXFP4} {
				data, err := Append(nil, typ, x)
				if err != nil {
					t.Fatal(err)
				}
				if back, err := Values(nil, typ, data); err != nil || typ == gguf.MXFP4 && back[0] != 0 {
					t.Errorf("%v of %v and %v: %v %v", typ, a, b, back, err)
				}
			}
		}
	}
	if _, err := Append(nil, gguf.Q8_0, make([]float32, 31)); err == nil {
		t.Error("a ragged block was written")
	}
	if _, err := Append(nil, 12, make([]float32, 256)); err == nil {
		t.Error("Q4_K was written")
	}
	if _, err := Values(nil, 12, make([]byte, 144)); err == nil {
		t.Error("Q4_K was read")
	}
}

func BenchmarkAppendMXFP4(b *testing.B) {
	x := make([]float32, 1<<15)
	for i := range x {
		x[i] = float32(math.Sin(float64(i)))
	}
	var dst []byte
	b.SetBytes(int64(len(x) * 4))
	for b.Loop() {
		dst, _ = Append(dst[:0], gguf.MXFP4, x)
	}
}
