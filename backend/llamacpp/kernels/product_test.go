//go:build peer

package kernels_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"runner/backend/gguf"
	"runner/backend/llamacpp/kernels"
	"runner/backend/llamacpp/kernels/kernelstest"
	"runner/testenv"
)

// productFormats are the formats that the kernels read.
var productFormats = []gguf.TensorType{gguf.F32, gguf.F16, gguf.BF16, gguf.MXFP4, gguf.Q8_0, 2, 20, gguf.Q4_K, 13,
	gguf.Q6_K, 23}

const (
	productRows   = 256
	productLength = 4096
	// productTurns is how often a product is measured, and productTime how long at least.
	productTurns = 7
	productTime  = 20 * time.Millisecond
)

// normals returns normally distributed numbers. One in outliers is 20 times as large; 0 makes none so.
func normals(seed uint64, n, outliers int) []float32 {
	r := rand.New(rand.NewPCG(seed, 1))
	list := make([]float32, n)
	for i := range list {
		list[i] = float32(r.NormFloat64())
		if outliers > 0 && r.IntN(outliers) == 0 {
			list[i] *= 20
		}
	}
	return list
}

// product is a product with its sizes.
type product struct {
	*kernels.Product
	rows, n, columns int
}

func newProduct(instructions string, format gguf.TensorType, weights []float32, n int,
	activations []float32) (*product, error) {
	p, err := kernels.NewProduct(instructions, uint32(format), weights, n, activations)
	return &product{p, len(weights) / n, n, len(activations) / n}, err
}

// relativeError returns the root mean square of the differences of a product's results from sums in double precision,
// relative to that of the sums. activations are those before rounding.
func (p *product) relativeError(activations []float32) float64 {
	p.Run()
	weights, results := p.Weights(), p.Results()
	off, all := 0.0, 0.0
	for c := range p.columns {
		for r := range p.rows {
			sum := 0.0
			column := activations[c*p.n:][:p.n]
			for i, w := range weights[r*p.n:][:p.n] {
				sum += float64(w) * float64(column[i])
			}
			difference := float64(results[c*p.rows+r]) - sum
			off += difference * difference
			all += sum * sum
		}
	}
	return math.Sqrt(off / all)
}

// speed measures once how many billions of operations a second of its processor's time the thread computes.
func (p *product) speed() float64 {
	calls, began := 0, testenv.ThreadTime()
	for {
		p.Run()
		calls++
		if took := testenv.ThreadTime() - began; took >= productTime {
			return 2 * float64(calls*p.rows*p.n*p.columns) / took.Seconds() / 1e9
		}
	}
}

// BenchmarkProducts prints the speed of products of one thread, by its processor time, and their error, of each format,
// with the kernels and with the engine's function for a row and a column. They take turns.
// docs/benchmarks.md has some of the figures.
func BenchmarkProducts(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	type cell struct {
		instructions string
		columns      int // 0 for the error
	}
	var cells []cell
	var names []string
	for _, instructions := range append(kernelstest.Names(), "") {
		for _, columns := range []int{1, 8, 512, 0} {
			switch {
			case instructions == "" && columns == 8: // no other speed than with one
				continue
			case columns == 0:
				names = append(names, "error")
			case columns == 1 && instructions == "":
				names = append(names, "engine: 1 column")
			case columns == 1:
				names = append(names, instructions+": 1 column")
			default:
				names = append(names, fmt.Sprint(columns))
			}
			cells = append(cells, cell{instructions, columns})
		}
	}
	fmt.Printf("| | %s |\n|---%s|\n", strings.Join(names, " | "), strings.Repeat("|---", len(names)))
	weights := normals(1, productRows*productLength, 0)
	activations := normals(2, 512*productLength, 100)
	for _, format := range productFormats {
		line := []string{format.String()}
		products := map[cell]*product{}
		for _, c := range cells {
			columns := c.columns
			if columns == 0 {
				columns = 64
			}
			p, err := newProduct(c.instructions, format, weights, productLength, activations[:columns*productLength])
			if err != nil {
				b.Fatalf("%v, %q: %v", format, c.instructions, err)
			}
			products[c] = p
		}
		speeds := map[cell][]float64{}
		for turn := range productTurns {
			order := slices.Clone(cells)
			if turn%2 == 1 {
				slices.Reverse(order)
			}
			for _, c := range order {
				if c.columns > 0 {
					speeds[c] = append(speeds[c], products[c].speed())
				}
			}
		}
		for _, c := range cells {
			p := products[c]
			if c.columns > 0 {
				line = append(line, fmt.Sprintf("%.0f", slices.Sorted(slices.Values(speeds[c]))[productTurns/2]))
			} else {
				line = append(line, fmt.Sprintf("%.2e", p.relativeError(activations)))
			}
			p.Close()
		}
		fmt.Printf("| %s |\n", strings.Join(line, " | "))
	}
}

// TestProducts checks the products that the benchmark measures, with every kind of kernels: they are near those in
// double precision, whether many columns or one were multiplied, and the weights are stored in the format.
func TestProducts(t *testing.T) {
	const rows, length, columns = 40, 512, 20
	weights, activations := normals(1, rows*length, 0), normals(2, columns*length, 100)
	for _, instructions := range append(kernelstest.Names(), "") {
		for _, format := range productFormats {
			for _, columns := range []int{1, columns} {
				p, err := newProduct(instructions, format, weights, length, activations[:columns*length])
				if err != nil {
					t.Fatalf("%v, %q: %v", format, instructions, err)
				}
				if e := p.relativeError(activations); !(e < 0.05) || e == 0 {
					t.Errorf("%v, %q, %d columns: an error of %.3g", format, instructions, columns, e)
				}
				if stored := p.Weights(); slices.Equal(stored, weights) != (format == gguf.F32) {
					t.Errorf("%v, %q: the weights were not stored in the format", format, instructions)
				}
				p.Close()
			}
		}
	}
	if _, err := newProduct("AVX-1024", gguf.Q8_0, weights, length, activations); err == nil {
		t.Error("there are kernels for instructions that no processor has")
	}
}
