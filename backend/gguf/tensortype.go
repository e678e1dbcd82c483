package gguf

import (
	"fmt"
	"math"
)

// TensorType is the format of a tensor's data, with ggml's numbers.
type TensorType uint32

// The formats that need a name. The table below has all formats.
const (
	F32   TensorType = 0
	F16   TensorType = 1
	Q8_0  TensorType = 8
	Q4_K  TensorType = 12
	Q6_K  TensorType = 14
	BF16  TensorType = 30
	MXFP4 TensorType = 39
	// OllamaMXFP4 is MXFP4 in Ollama's own gpt-oss files, with the 4-bit values in another order. ggml once used
	// the number for a format that it has since dropped.
	OllamaMXFP4 TensorType = 4
)

type blockFormat struct {
	name     string
	elements int64 // values in a block
	bytes    int64 // bytes of a block
}

// ggml's formats, from ggml.h and the static assertions of ggml-common.h. ggml has removed the formats of the
// missing numbers.
var blockFormats = map[TensorType]blockFormat{
	F32: {"F32", 1, 4}, F16: {"F16", 1, 2}, BF16: {"BF16", 1, 2}, 28: {"F64", 1, 8},
	24: {"I8", 1, 1}, 25: {"I16", 1, 2}, 26: {"I32", 1, 4}, 27: {"I64", 1, 8},
	2: {"Q4_0", 32, 18}, 3: {"Q4_1", 32, 20}, 6: {"Q5_0", 32, 22}, 7: {"Q5_1", 32, 24},
	Q8_0: {"Q8_0", 32, 34}, 9: {"Q8_1", 32, 36},
	10: {"Q2_K", 256, 84}, 11: {"Q3_K", 256, 110}, Q4_K: {"Q4_K", 256, 144}, 13: {"Q5_K", 256, 176},
	Q6_K: {"Q6_K", 256, 210}, 15: {"Q8_K", 256, 292},
	16: {"IQ2_XXS", 256, 66}, 17: {"IQ2_XS", 256, 74}, 18: {"IQ3_XXS", 256, 98}, 19: {"IQ1_S", 256, 50},
	20: {"IQ4_NL", 32, 18}, 21: {"IQ3_S", 256, 110}, 22: {"IQ2_S", 256, 82}, 23: {"IQ4_XS", 256, 136},
	29: {"IQ1_M", 256, 56}, 34: {"TQ1_0", 256, 54}, 35: {"TQ2_0", 256, 66},
	40: {"NVFP4", 64, 36}, 41: {"Q1_0", 128, 18}, 42: {"Q2_0", 64, 18},
	MXFP4: {"MXFP4", 32, 17}, OllamaMXFP4: {"MXFP4 (Ollama)", 32, 17},
}

// Known reports whether the format is in ggml's table.
func (t TensorType) Known() bool { _, ok := blockFormats[t]; return ok }

func (t TensorType) String() string {
	if b, ok := blockFormats[t]; ok {
		return b.name
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// Block returns the number of values and bytes in a block; 0, 0 for unknown formats.
func (t TensorType) Block() (elements, bytes int64) {
	b := blockFormats[t]
	return b.elements, b.bytes
}

const maxDims = 4

// ByteSize returns the size of a tensor in bytes. The error says what is wrong with its shape.
func ByteSize(t TensorType, dims []int64) (int64, error) {
	elements, bytes := t.Block()
	switch {
	case elements == 0:
		return 0, fmt.Errorf("has unknown format %d", uint32(t))
	case len(dims) == 0 || len(dims) > maxDims:
		return 0, fmt.Errorf("has %d dimensions, not 1 to %d", len(dims), maxDims)
	case dims[0]%elements != 0:
		return 0, fmt.Errorf("has rows of %d values, not a multiple of the %d that %v needs", dims[0], elements, t)
	}
	count := int64(1)
	for _, d := range dims {
		if d <= 0 {
			return 0, fmt.Errorf("has a dimension of %d", d)
		}
		if count > math.MaxInt64/d {
			return 0, fmt.Errorf("has too many values")
		}
		count *= d
	}
	if count/elements > math.MaxInt64/bytes {
		return 0, fmt.Errorf("is too large")
	}
	return count / elements * bytes, nil
}
