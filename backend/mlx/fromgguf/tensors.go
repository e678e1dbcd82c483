package fromgguf

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"runner/backend/gguf"
)

// names maps the parts of GGUF's tensor names to those of mlx-lm. Layers have the number between the two parts.
var names = map[string]string{
	"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head", "attn_norm": "input_layernorm",
	"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
	"attn_output": "self_attn.o_proj", "attn_sinks": "self_attn.sinks", "attn_sinks.weight": "self_attn.sinks",
	"post_attention_norm": "post_attention_layernorm", "ffn_norm": "post_attention_layernorm",
	"ffn_gate_inp": "mlp.router", "ffn_gate_exps": "mlp.experts.gate_proj", "ffn_up_exps": "mlp.experts.up_proj",
	"ffn_down_exps": "mlp.experts.down_proj",
}

// nameOf returns mlx-lm's name of a tensor.
func nameOf(name string) (string, bool) {
	prefix := ""
	if rest, ok := strings.CutPrefix(name, "blk."); ok {
		number, part, _ := strings.Cut(rest, ".")
		prefix, name = "model.layers."+number+".", part
	}
	if whole, ok := names[name]; ok {
		return prefix + whole, true
	}
	base, kind, _ := strings.Cut(name, ".")
	to, ok := names[base]
	return prefix + to + "." + kind, ok && (kind == "weight" || kind == "bias")
}

// entry describes a tensor in the header of a safetensors file.
type entry struct {
	Type    string   `json:"dtype"`
	Shape   []int64  `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"`
}

// writeTensors writes the tensors of a GGUF file as safetensors.
func writeTensors(f *gguf.File, from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	header, at := map[string]any{"__metadata__": map[string]string{"format": "mlx"}}, int64(0)
	add := func(name, kind string, shape []int64, size int64) {
		header[name] = entry{kind, shape, [2]int64{at, at + size}}
		at += size
	}
	for i := range f.Tensors {
		t := &f.Tensors[i]
		name, ok := nameOf(t.Name)
		if !ok {
			return fmt.Errorf("the tensor %q is not part of a gpt-oss model", t.Name)
		}
		shape := slices.Clone(t.Dims)
		slices.Reverse(shape)
		if t.Type != gguf.MXFP4 {
			add(name, "F32", shape, 4*t.Elements())
			continue
		}
		last := len(shape) - 1
		packed, scales := slices.Clone(shape), slices.Clone(shape)
		packed[last], scales[last] = shape[last]/8, shape[last]/32
		add(name, "U32", packed, t.Elements()/2)
		add(strings.TrimSuffix(name, "weight")+"scales", "U8", scales, t.Elements()/32)
	}
	return writeSafetensors(to, header, func(w io.Writer) error {
		for i := range f.Tensors {
			t := &f.Tensors[i]
			data := make([]byte, t.Size)
			if _, err := in.ReadAt(data, f.DataOffset+t.Offset); err != nil {
				return err
			}
			if err := writeTensor(w, t.Type, data); err != nil {
				return err
			}
		}
		return nil
	})
}

// writeSafetensors writes a safetensors file. data writes what comes after the header.
func writeSafetensors(to string, header map[string]any, data func(io.Writer) error) error {
	b, err := json.Marshal(header)
	if err != nil {
		return err
	}
	b = append(b, strings.Repeat(" ", (8-len(b)%8)%8)...)
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(out, 1<<20)
	if _, err = w.Write(append(binary.LittleEndian.AppendUint64(nil, uint64(len(b))), b...)); err == nil {
		err = data(w)
	}
	if err == nil {
		err = w.Flush()
	}
	if e := out.Close(); err == nil {
		err = e
	}
	return err
}

// writeTensor writes a tensor's data in the new format.
func writeTensor(w io.Writer, t gguf.TensorType, data []byte) error {
	le, out := binary.LittleEndian, make([]byte, 0, 4*len(data))
	switch t {
	case gguf.F32:
		out = data
	case gguf.F16:
		for i := 0; i < len(data); i += 2 {
			out = le.AppendUint32(out, math.Float32bits(half(le.Uint16(data[i:]))))
		}
	case gguf.BF16:
		for i := 0; i < len(data); i += 2 {
			out = le.AppendUint32(out, uint32(le.Uint16(data[i:]))<<16)
		}
	case gguf.Q8_0:
		for i := 0; i < len(data); i += 34 {
			scale := half(le.Uint16(data[i:]))
			for _, q := range data[i+2 : i+34] {
				out = le.AppendUint32(out, math.Float32bits(scale*float32(int8(q))))
			}
		}
	case gguf.MXFP4:
		packed, scales := mxfp4(data)
		out = append(packed, scales...)
	default:
		return fmt.Errorf("tensors of format %v cannot be converted", t)
	}
	_, err := w.Write(out)
	return err
}

// mxfp4 splits blocks of 32 values into the values and their scales. In GGUF byte i of a block has the values i and
// i+16. MLX wants the values in order, two in a byte, the first one in the low bits.
func mxfp4(data []byte) (packed, scales []byte) {
	for i := 0; i < len(data); i += 17 {
		scales = append(scales, data[i])
		q := data[i+1 : i+17]
		for k := 0; k < 16; k += 2 {
			packed = append(packed, q[k]&15|q[k+1]&15<<4)
		}
		for k := 0; k < 16; k += 2 {
			packed = append(packed, q[k]>>4|q[k+1]&0xf0)
		}
	}
	return packed, scales
}

// half converts an IEEE 754 binary16 number.
func half(h uint16) float32 {
	sign, exponent, fraction := uint32(h>>15)<<31, uint32(h>>10&31), uint32(h&1023)
	switch exponent {
	case 0:
		v := float32(fraction) / (1 << 24)
		return math.Float32frombits(sign | math.Float32bits(v))
	case 31:
		return math.Float32frombits(sign | 255<<23 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
}
