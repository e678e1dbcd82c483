package random

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"math/rand/v2"

	"runner/backend/gguf"
)

// format is how the blocks of a format are made: of random whole numbers and scales that are always the same.
type format struct {
	// spread is the standard deviation of the numbers, times the inner scales. least is what the format subtracts from
	// all numbers, so that their mean is 0.
	spread, least float64
	// before and after are the inner scales, which stand before or after the numbers.
	before []byte
	// words is how many times eight bytes the numbers take.
	words int
	after []byte
	// last says that the scale of the block is at its end.
	last bool
}

// formats are those with numbers that may have any bits. All inner scales of a block are equal.
var formats = map[gguf.TensorType]format{
	quants["Q4_0"]: {spread: 4.610, words: 2},              // numbers from -8 to 7
	quants["Q4_1"]: {spread: 4.610, least: -7.5, words: 2}, // from 0 to 15, and the least value is added
	gguf.Q4_K:      {spread: 32 * 4.610, least: 7.5, before: scales32, words: 16},
	quants["Q5_K"]: {spread: 32 * 9.233, least: 15.5, before: scales32, words: 20},
	gguf.Q6_K:      {spread: 64 * 18.47, words: 24, after: bytes.Repeat([]byte{64}, 16), last: true}, // from -32 to 31
	quants["Q2_K"]: {spread: 10 * 1.118, least: 1.5, before: bytes.Repeat([]byte{10 | 10<<4}, 16), words: 8, last: true},
	// The numbers of these stand for the 16 values of a table. A scale of IQ4_XS has 32 added to it. First come the upper
	// two bits of the eight, and then the lower four: all are 1.
	quants["IQ4_NL"]: {spread: 69.5, words: 2},
	quants["IQ4_XS"]: {spread: 69.5, before: []byte{0xaa, 0xaa, 0x11, 0x11, 0x11, 0x11}, words: 16},
}

// scales32 is eight scales and minimums of 32, as Q4_K and Q5_K store them. The first eight bytes have six bits of a
// scale or minimum, and the upper two of another. The other four have the lower four bits of two of those.
var scales32 = []byte{0xa0, 0xa0, 0xa0, 0xa0, 0xa0, 0xa0, 0xa0, 0xa0, 0, 0, 0, 0}

// draw appends a block whose values have a deviation.
func (f *format) draw(b []byte, r *rand.Rand, deviation float64) []byte {
	scale := binary.LittleEndian.AppendUint16(nil, half(deviation/f.spread))
	if f.least != 0 {
		scale = binary.LittleEndian.AppendUint16(scale, half(f.least*deviation/f.spread))
	}
	if !f.last {
		b = append(b, scale...)
	}
	b = append(b, f.before...)
	for range f.words {
		b = binary.LittleEndian.AppendUint64(b, r.Uint64())
	}
	b = append(b, f.after...)
	if f.last {
		b = append(b, scale...)
	}
	return b
}

// fill writes the tensor's data. It draws blocks in their stored form, so that gigabytes take seconds.
func (t *tensor) fill(w io.Writer, r *rand.Rand) error {
	elements, _ := t.Type.Block()
	f, drawn := formats[t.Type]
	var block []byte
	for n := t.Elements() / elements; n > 0; n-- {
		switch {
		case drawn:
			block = f.draw(block[:0], r, t.deviation)
		case t.Type == gguf.Q8_0:
			block = q8Block(block[:0], r, t.deviation)
		case t.Type == gguf.MXFP4:
			block = fp4Block(block[:0], r, t.deviation)
		case t.Type == gguf.BF16:
			x := math.Float32bits(float32(r.NormFloat64() * t.deviation))
			block = binary.LittleEndian.AppendUint16(block[:0], uint16(x>>16))
		case t.Type == gguf.F16:
			block = binary.LittleEndian.AppendUint16(block[:0], half(r.NormFloat64()*t.deviation))
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

// half converts a number, whose size is in the normal range of IEEE 754 binary16. It truncates.
func half(x float64) uint16 {
	bits := math.Float32bits(float32(x))
	sign := uint16(bits >> 16 & (1 << 15))
	exponent := int(bits>>23&0xff) - 127 + 15
	if exponent <= 0 {
		return sign | 1<<10 // the smallest normal number
	}
	return sign | uint16(exponent)<<10 | uint16(bits>>13&0x3ff)
}
