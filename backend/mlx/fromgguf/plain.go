package fromgguf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"runner/backend/gguf"
)

// ConvertPlain reads the GGUF file from and writes a model to the folder to, in the layout of Hugging Face's
// transformers with all weights as float32. vLLM loads it on processors, which cannot compute MXFP4.
func ConvertPlain(from, to string) error { return convert(from, to, true) }

// tensor is a tensor of the new file.
type tensor struct {
	name   string
	shape  []int64
	values []float32
}

// plainTensors writes the tensors of a GGUF file as safetensors. All are in memory at once.
func plainTensors(f *gguf.File, from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	experts, list := map[string]tensor{}, []tensor(nil)
	for i := range f.Tensors {
		t := &f.Tensors[i]
		name, ok := nameOf(t.Name)
		if !ok {
			return fmt.Errorf("the tensor %q is not part of a gpt-oss model", t.Name)
		}
		values, err := floats(f, in, t)
		if err != nil {
			return err
		}
		shape := slices.Clone(t.Dims)
		slices.Reverse(shape)
		x := tensor{name, shape, values}
		if strings.Contains(name, ".mlp.experts.") {
			experts[name] = x
			continue
		}
		list = append(list, x)
	}
	for name, gate := range experts {
		switch base, kind, _ := strings.Cut(name, "gate_proj."); {
		case strings.Contains(name, ".up_proj."):
		case kind == "weight":
			list = append(list, transposed(base+"gate_up_proj", merged(gate, experts[base+"up_proj.weight"])))
		case kind == "bias":
			b := merged(gate, experts[base+"up_proj.bias"])
			b.name = base + "gate_up_proj_bias"
			list = append(list, b)
		case strings.HasSuffix(name, "down_proj.weight"):
			list = append(list, transposed(strings.TrimSuffix(name, ".weight"), gate))
		default:
			gate.name = strings.TrimSuffix(name, ".bias") + "_bias"
			list = append(list, gate)
		}
	}
	slices.SortFunc(list, func(a, b tensor) int { return strings.Compare(a.name, b.name) })
	return writePlain(list, to)
}

// merged puts the rows of two tensors of experts in turns: gate, up, gate, up. The second dimension is that of rows.
func merged(gate, up tensor) tensor {
	row := int64(1)
	if len(gate.shape) == 3 {
		row = gate.shape[2]
	}
	out := tensor{shape: slices.Clone(gate.shape), values: make([]float32, 0, 2*len(gate.values))}
	out.shape[1] *= 2
	for i := int64(0); i < int64(len(gate.values)) && i+row <= int64(len(up.values)); i += row {
		out.values = append(append(out.values, gate.values[i:i+row]...), up.values[i:i+row]...)
	}
	return out
}

// transposed swaps the rows and columns of each expert.
func transposed(name string, t tensor) tensor {
	count, rows, columns := t.shape[0], t.shape[1], t.shape[2]
	out := tensor{name, []int64{count, columns, rows}, make([]float32, len(t.values))}
	for e := range count {
		at := e * rows * columns
		for r := range rows {
			for c := range columns {
				out.values[at+c*rows+r] = t.values[at+r*columns+c]
			}
		}
	}
	return out
}

// codes are the values of the 16 codes of MXFP4.
var codes = [16]float32{0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6}

// floats reads a tensor.
func floats(f *gguf.File, in io.ReaderAt, t *gguf.Tensor) ([]float32, error) {
	data := make([]byte, t.Size)
	if _, err := in.ReadAt(data, f.DataOffset+t.Offset); err != nil {
		return nil, err
	}
	out := make([]float32, 0, t.Elements())
	if t.Type == gguf.MXFP4 {
		for ; len(data) >= 17; data = data[17:] {
			scale := float32(math.Exp2(float64(data[0]) - 127))
			for shift := 0; shift < 8; shift += 4 {
				for _, q := range data[1:17] {
					out = append(out, scale*codes[q>>shift&15])
				}
			}
		}
		return out, nil
	}
	var b bytes.Buffer
	if err := writeTensor(&b, t.Type, data); err != nil {
		return nil, err
	}
	for le := b.Bytes(); len(le) >= 4; le = le[4:] {
		out = append(out, math.Float32frombits(binary.LittleEndian.Uint32(le)))
	}
	return out, nil
}

// writePlain writes tensors as safetensors.
func writePlain(list []tensor, to string) error {
	header, at := map[string]any{"__metadata__": map[string]string{"format": "pt"}}, int64(0)
	for _, t := range list {
		size := 4 * int64(len(t.values))
		header[t.name] = entry{"F32", t.shape, [2]int64{at, at + size}}
		at += size
	}
	return writeSafetensors(to, header, func(w io.Writer) error {
		for _, t := range list {
			if err := binary.Write(w, binary.LittleEndian, t.values); err != nil {
				return err
			}
		}
		return nil
	})
}
