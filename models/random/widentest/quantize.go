// Package widentest converts the weights of GGUF files for tests: between float32 and other formats, and a whole file
// to float32.
package widentest

import (
	"encoding/binary"
	"fmt"
	"math"

	"runner/backend/gguf"
)

// Append quantizes values to format t and appends the data to dst. The number of values must be a multiple of the
// format's block. It supports F32, F16, BF16, Q8_0 and MXFP4. The layouts and the rounding are those of ggml
// (ggml-common.h and ggml-quants.c). MXFP4 is from the OCP Microscaling Formats specification 1.0.
func Append(dst []byte, t gguf.TensorType, values []float32) ([]byte, error) {
	if elements, _ := t.Block(); elements == 0 || len(values)%int(elements) != 0 {
		return nil, fmt.Errorf("widentest: %d values are not a multiple of the %d that %v needs", len(values), elements, t)
	}
	switch t {
	case gguf.F32:
		for _, x := range values {
			dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(x))
		}
	case gguf.F16:
		for _, x := range values {
			dst = binary.LittleEndian.AppendUint16(dst, halfBits(x))
		}
	case gguf.BF16:
		for _, x := range values {
			dst = binary.LittleEndian.AppendUint16(dst, brainBits(x))
		}
	case gguf.Q8_0:
		for ; len(values) > 0; values = values[32:] {
			dst = appendQ8(dst, values[:32])
		}
	case gguf.MXFP4:
		for ; len(values) > 0; values = values[32:] {
			dst = appendMXFP4(dst, values[:32])
		}
	default:
		return nil, fmt.Errorf("widentest: %v is not written", t)
	}
	return dst, nil
}

// Values is the inverse of [Append]. It appends the values of data to dst.
func Values(dst []float32, t gguf.TensorType, data []byte) ([]float32, error) {
	_, size := t.Block()
	if size == 0 || len(data)%int(size) != 0 {
		return nil, fmt.Errorf("widentest: %d bytes are not a multiple of the %d of a block of %v", len(data), size, t)
	}
	for ; len(data) > 0; data = data[size:] {
		switch t {
		case gguf.F32:
			dst = append(dst, math.Float32frombits(binary.LittleEndian.Uint32(data)))
		case gguf.F16:
			dst = append(dst, fromHalf(binary.LittleEndian.Uint16(data)))
		case gguf.BF16:
			dst = append(dst, math.Float32frombits(uint32(binary.LittleEndian.Uint16(data))<<16))
		case gguf.Q8_0:
			scale := fromHalf(binary.LittleEndian.Uint16(data))
			for _, q := range data[2:34] {
				dst = append(dst, float32(int8(q))*scale)
			}
		case gguf.MXFP4:
			scale := halfScale(data[0])
			for _, q := range data[1:17] {
				dst = append(dst, float32(e2m1[q&15])*scale)
			}
			for _, q := range data[1:17] {
				dst = append(dst, float32(e2m1[q>>4])*scale)
			}
		default:
			return nil, fmt.Errorf("widentest: cannot read tensors of type %v", t)
		}
	}
	return dst, nil
}

// appendQ8 writes one block: a half-precision scale and 32 signed bytes, rounded half away from zero. NaN becomes 0.
func appendQ8(dst []byte, x []float32) []byte {
	most := largest(x)
	scale := most / 127
	inverse := float32(0)
	if scale != 0 {
		inverse = 1 / scale
	}
	dst = binary.LittleEndian.AppendUint16(dst, halfBits(scale))
	for _, v := range x {
		q := math.Round(float64(v * inverse))
		if math.IsNaN(q) {
			q = 0
		}
		q = max(-127, min(q, 127)) // the inverse of a tiny scale can be infinite
		dst = append(dst, uint8(int8(q)))
	}
	return dst
}

// e2m1 holds twice the values of the 4-bit floats.
var e2m1 = [16]int8{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

// appendMXFP4 writes one block: a power of two as its biased exponent, then 16 bytes. Byte i has value i in its low
// half and value i+16 in its high half. Values are rounded to the nearest float, ties to the smaller magnitude. The
// scale allows values up to a third above the largest float; they become the largest float.
func appendMXFP4(dst []byte, x []float32) []byte {
	exponent := 0
	if most := largest(x); most > 0 {
		_, e := math.Frexp(float64(most))                    // most is in [2^(e-1), 2^e)
		exponent = min(max((e-1)-2+127, 0), math.MaxUint8-1) // 255 stands for NaN
	}
	inverse := math.Ldexp(1, 128-exponent)
	dst = append(dst, uint8(exponent))
	for i := range 16 {
		dst = append(dst, nearestE2M1(x[i], inverse)|nearestE2M1(x[i+16], inverse)<<4)
	}
	return dst
}

// nearestE2M1 returns the code of the float nearest to x. The bounds are half-way between the entries of e2m1.
func nearestE2M1(x float32, inverse float64) uint8 {
	magnitude, code := math.Abs(float64(x))*inverse, uint8(0)
	for _, bound := range [7]float64{0.5, 1.5, 2.5, 3.5, 5, 7, 10} {
		if magnitude > bound {
			code++
		}
	}
	if x < 0 && code > 0 {
		code |= 8
	}
	return code
}

// halfScale returns 2^(e-127)/2, because e2m1 holds doubled values.
func halfScale(e uint8) float32 { return float32(math.Ldexp(1, int(e)-128)) }

// largest returns the largest magnitude in x. It ignores NaN.
func largest(x []float32) float32 {
	most := float32(0)
	for _, v := range x {
		if v < 0 {
			v = -v
		}
		if v > most {
			most = v
		}
	}
	return most
}

// halfBits rounds x to IEEE 754 half precision, to nearest with ties to even.
func halfBits(x float32) uint16 {
	b := math.Float32bits(x)
	sign := uint16(b >> 16 & 0x8000)
	exponent := int(b>>23&0xff) - 127
	fraction := b & 0x7fffff
	switch {
	case exponent == 128 && fraction != 0:
		return sign | 0x7e00
	case exponent > 15:
		return sign | 0x7c00
	case exponent < -25:
		return sign
	}
	// value has the implied bit. drop is the number of low bits that do not fit. A carry out of the fraction correctly
	// increments the exponent, up to infinity.
	value, drop, base := fraction|0x800000, 13, uint32(exponent+14)<<10
	if exponent < -14 {
		drop, base = -1-exponent, 0
	}
	rounded := value >> drop
	rest, half := value&(1<<drop-1), uint32(1)<<(drop-1)
	if rest > half || rest == half && rounded&1 != 0 {
		rounded++
	}
	return sign | uint16(base+rounded)
}

func fromHalf(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exponent, fraction := uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch exponent {
	case 0:
		f := float32(fraction) * (1.0 / (1 << 24))
		return math.Float32frombits(math.Float32bits(f) | sign)
	case 31:
		return math.Float32frombits(sign | 0x7f800000 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
}

// brainBits rounds x to bfloat16, to nearest with ties to even. NaN stays NaN.
func brainBits(x float32) uint16 {
	b := math.Float32bits(x)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}
