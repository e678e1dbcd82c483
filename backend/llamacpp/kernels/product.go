//go:build peer

package kernels

// #cgo CPPFLAGS: -DRUNNER_PEER
// #include <stdlib.h>
// #include "kernels.h"
import "C"

import (
	"errors"
	"unsafe"
)

// Product is one product of a matrix with columns outside of a model, by the kernels or by the engine's function for a
// row and a column. Benchmarks compare them. The build tag peer keeps it out of the program.
//
// It is not safe for concurrent use.
type Product struct {
	c                *C.struct_kernels_product
	rows, n, columns int
}

// NewProduct stores rows of n weights in a format, by the engine's number of it, and prepares columns of n activations.
// instructions names the kernels, as kernelstest.Use has them.
func NewProduct(instructions string, format uint32, weights []float32, n int, activations []float32) (*Product, error) {
	if n <= 0 || len(weights) == 0 || len(activations) == 0 || len(weights)%n != 0 || len(activations)%n != 0 {
		return nil, errors.New("the numbers make no whole rows and columns")
	}
	Offer()
	var name *C.char
	if instructions != "" {
		name = C.CString(instructions)
		defer C.free(unsafe.Pointer(name))
	}
	p := &Product{rows: len(weights) / n, n: n, columns: len(activations) / n}
	p.c = C.kernels_product_new(name, C.int(format), (*C.float)(&weights[0]), C.int64_t(p.rows), C.int64_t(n),
		(*C.float)(&activations[0]), C.int64_t(p.columns))
	if p.c == nil {
		return nil, errors.New("the kernels do not read such weights, or the processor cannot run them")
	}
	return p, nil
}

// Run multiplies once, on this thread.
func (p *Product) Run() { C.kernels_product_run(p.c) }

// Weights returns the weights as they are stored, row by row.
func (p *Product) Weights() []float32 {
	list := make([]float32, p.rows*p.n)
	C.kernels_product_weights(p.c, (*C.float)(&list[0]))
	return list
}

// Results returns the results of the last run, column by column.
func (p *Product) Results() []float32 {
	list := make([]float32, p.rows*p.columns)
	C.kernels_product_results(p.c, (*C.float)(&list[0]))
	return list
}

// Close frees the product.
func (p *Product) Close() {
	C.kernels_product_free(p.c)
	p.c = nil
}
