package random

import (
	"encoding/binary"
	"io"
	"math"
	"math/rand/v2"

	"runner/backend/gguf"
)

// fill writes the tensor's data. It draws blocks in their stored form, so that gigabytes take seconds.
func (t *tensor) fill(w io.Writer, r *rand.Rand) error {
	elements, _ := t.Type.Block()
	var block []byte
	for n := t.Elements() / elements; n > 0; n-- {
		switch t.Type {
		case gguf.Q8_0:
			block = q8Block(block[:0], r, t.deviation)
		case gguf.MXFP4:
			block = fp4Block(block[:0], r, t.deviation)
		case gguf.Q4_K:
			block = q4KBlock(block[:0], r, t.deviation)
		case gguf.Q6_K:
			block = q6KBlock(block[:0], r, t.deviation)
		case quants["Q4_0"]:
			block = fourBits(block[:0], r, t.deviation/4.610) // deviation of the integers from -8 to 7
		case quants["IQ4_NL"]:
			block = fourBits(block[:0], r, t.deviation/69.5) // deviation of the 16 values of the format's table
		case quants["Q4_1"]:
			block = q41Block(block[:0], r, t.deviation)
		case quants["Q2_K"]:
			block = q2KBlock(block[:0], r, t.deviation)
		case quants["Q5_K"]:
			block = q5KBlock(block[:0], r, t.deviation)
		case quants["IQ4_XS"]:
			block = iq4XSBlock(block[:0], r, t.deviation)
		case gguf.BF16:
			x := math.Float32bits(float32(r.NormFloat64() * t.deviation))
			block = binary.LittleEndian.AppendUint16(block[:0], uint16(x>>16))
		case gguf.F16:
			x := r.NormFloat64() * t.deviation
			bits := half(math.Abs(x))
			if x < 0 {
				bits |= 1 << 15
			}
			block = binary.LittleEndian.AppendUint16(block[:0], bits)
		default:
			x := 1.0
			switch {
			case t.deviation > 0:
				x = r.NormFloat64() * t.deviation
			case t.deviation < 0:
				x = t.deviation
			}
			block = binary.LittleEndian.AppendUint32(block[:0], math.Float32bits(float32(x)))
		}
		if _, err := w.Write(block); err != nil {
			return err
		}
	}
	return nil
}

// q8Block draws 32 bytes uniformly from -127 to 127, with a scale.
func q8Block(b []byte, r *rand.Rand, deviation float64) []byte {
	const even = 73.6 // deviation of the integers from -127 to 127
	b = binary.LittleEndian.AppendUint16(b, half(deviation/even))
	for range 4 {
		x := r.Uint64()
		for range 8 {
			v := int8(x)
			if v == -128 {
				v = 127
			}
			b = append(b, byte(v))
			x >>= 8
		}
	}
	return b
}

// fp4Block draws 32 four-bit floats uniformly from their 16 codes, with a scale that is a power of two.
func fp4Block(b []byte, r *rand.Rand, deviation float64) []byte {
	const even = 2.915 // deviation of 0, 0.5, 1, 1.5, 2, 3, 4, 6 with both signs
	b = append(b, byte(127+int(math.Round(math.Log2(deviation/even)))))
	b = binary.LittleEndian.AppendUint64(b, r.Uint64())
	return binary.LittleEndian.AppendUint64(b, r.Uint64())
}

// q4KBlock draws 256 four-bit integers uniformly. All eight scales and minimums of the block are 32, so that its values
// are 32 times its scale times -7.5 to 7.5.
func q4KBlock(b []byte, r *rand.Rand, deviation float64) []byte {
	const even = 4.610 // deviation of the integers from 0 to 15
	scale := deviation / (32 * even)
	b = binary.LittleEndian.AppendUint16(b, half(scale))
	b = binary.LittleEndian.AppendUint16(b, half(7.5*scale))
	b = append(b, scales32...)
	return drawn(b, r, 16)
}

// scales32 is eight scales and minimums of 32, as Q4_K and Q5_K store them. The first eight bytes have six bits of a
// scale or minimum, and the upper two of another. The other four have the lower four bits of two of those.
var scales32 = []byte{0xa0, 0xa0, 0xa0, 0xa0, 0xa0, 0xa0, 0xa0, 0xa0, 0, 0, 0, 0}

// q5KBlock draws 256 five-bit integers uniformly, like q4KBlock.
func q5KBlock(b []byte, r *rand.Rand, deviation float64) []byte {
	const even = 9.233 // deviation of the integers from 0 to 31
	scale := deviation / (32 * even)
	b = binary.LittleEndian.AppendUint16(b, half(scale))
	b = binary.LittleEndian.AppendUint16(b, half(15.5*scale))
	b = append(b, scales32...)
	return drawn(b, r, 20)
}

// fourBits draws 32 four-bit numbers uniformly, with a scale.
func fourBits(b []byte, r *rand.Rand, scale float64) []byte {
	return drawn(binary.LittleEndian.AppendUint16(b, half(scale)), r, 2)
}

// q41Block draws 32 four-bit numbers uniformly, with a scale and the least value.
func q41Block(b []byte, r *rand.Rand, deviation float64) []byte {
	const even = 4.610 // deviation of the integers from 0 to 15
	b = binary.LittleEndian.AppendUint16(b, half(deviation/even))
	b = binary.LittleEndian.AppendUint16(b, half(7.5*deviation/even)|1<<15)
	return drawn(b, r, 2)
}

// q2KBlock draws 256 two-bit integers uniformly. All scales and minimums of the block are 10, so that its values are 10
// times its scale times -1.5 to 1.5.
func q2KBlock(b []byte, r *rand.Rand, deviation float64) []byte {
	const even = 1.118 // deviation of the integers from 0 to 3
	for range 16 {
		b = append(b, 10|10<<4)
	}
	b = drawn(b, r, 8)
	scale := deviation / (10 * even)
	b = binary.LittleEndian.AppendUint16(b, half(scale))
	return binary.LittleEndian.AppendUint16(b, half(1.5*scale))
}

// iq4XSBlock draws 256 four-bit numbers uniformly. All eight scales of the block are 1.
func iq4XSBlock(b []byte, r *rand.Rand, deviation float64) []byte {
	const even = 69.5 // deviation of the 16 values of the format's table
	b = binary.LittleEndian.AppendUint16(b, half(deviation/even))
	// A scale has 32 added to it. First come the upper two bits of the eight, and then the lower four.
	b = append(b, 0xaa, 0xaa, 0x11, 0x11, 0x11, 0x11)
	return drawn(b, r, 16)
}

// q6KBlock draws 256 six-bit integers uniformly, all with the scale 64.
func q6KBlock(b []byte, r *rand.Rand, deviation float64) []byte {
	const even = 18.47 // deviation of the integers from -32 to 31
	b = drawn(b, r, 24)
	for range 16 {
		b = append(b, 64)
	}
	return binary.LittleEndian.AppendUint16(b, half(deviation/(64*even)))
}

// drawn appends eight random bytes a number of times.
func drawn(b []byte, r *rand.Rand, n int) []byte {
	for range n {
		b = binary.LittleEndian.AppendUint64(b, r.Uint64())
	}
	return b
}

// half converts a positive number in the normal range of IEEE 754 binary16. It truncates.
func half(x float64) uint16 {
	bits := math.Float32bits(float32(x))
	exponent := int(bits>>23&0xff) - 127 + 15
	if exponent <= 0 {
		return 1 << 10 // the smallest normal number
	}
	return uint16(exponent)<<10 | uint16(bits>>13&0x3ff)
}
