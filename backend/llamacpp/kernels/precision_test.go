package kernels_test

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"runner/backend/llamacpp/kernels"
	"runner/backend/llamacpp/kernels/kernelstest"
)

// mostErrors bounds the errors of the kernels, as testdata/precision.cpp measures them: the root mean square of the
// differences from results in double precision, relative to that of the results. They are a few hundredths above what
// the kernels have. Products are named after the format of the weights. Rounding to eight bits makes nearly all of the
// error of those with quantized weights.
var mostErrors = map[string]float64{
	"F32": 4.5e-7, "F16": 4.5e-7, "BF16": 4.5e-7, "MXFP4": 1.2e-2, "Q8_0": 1.15e-2, "Q4_0": 1.17e-2, "IQ4_NL": 1.18e-2,
	"Q4_K": 1.21e-2, "Q5_K": 1.15e-2, "Q6_K": 1.15e-2, "IQ4_XS": 1.17e-2,
	"attention": 3.7e-7, "long attention": 5e-7, "even attention": 4.1e-8,
	"gate": 6.1e-8, "swiglu": 4.6e-8, "softmax": 1.03e-7,
	"normalize": 6e-8, "rotate": 3.8e-8, "add": 2.3e-8, "scale": 2.4e-8,
}

// lowerErrors has the bounds of kernels that are more precise than the others: those with longer vectors add more sums
// of fewer products.
var lowerErrors = map[string]map[string]float64{
	"AVX-512 VBMI": {"F32": 3.1e-7, "F16": 3.1e-7, "BF16": 3.1e-7},
	"AVX-512 VNNI": {"F32": 3.1e-7, "F16": 3.1e-7, "BF16": 3.1e-7},
	"AMX":          {"F32": 3.1e-7, "F16": 3.1e-7, "BF16": 3.1e-7, "MXFP4": 9e-3},
	"AVX2":         {"attention": 3.1e-7},
	"NEON I8MM":    {"attention": 3.1e-7},
	"NEON DotProd": {"attention": 3.1e-7},
}

// TestPrecision bounds the error of each kernel that can run here, tiles emulated, of plain C++ with the same rounding,
// and of the kernels for arm64 on an emulated processor. An error that is far below its bound fails too: then the bound
// would not notice a loss.
func TestPrecision(t *testing.T) {
	if len(kernelstest.Names()) == 0 {
		t.Skip(kernelstest.Lacking)
	}
	want := append([]string{"plain C++"}, kernelstest.Names()...)
	flags := []string{"-O1", "-DRUNNER_KERNELS_CALLED"}
	t.Run("emulated tiles", func(t *testing.T) {
		want := want
		if slices.Contains(want, "AVX-512 VNNI") && !slices.Contains(want, "AMX") {
			want = slices.Insert(slices.Clone(want), 1, "AMX")
		}
		binary := kernelProgram(t, "precision.cpp", quickFlags)
		boundErrors(t, output(t, binary), want)
	})
	t.Run("tiles", func(t *testing.T) {
		if !slices.Contains(want, "AMX") {
			t.Skip(kernelstest.LackingTiles)
		}
		boundErrors(t, output(t, kernelProgram(t, "precision.cpp", flags), "AMX"), []string{"AMX"})
	})
	t.Run("arm64", func(t *testing.T) {
		if os.Getenv("RUNNER_LONG") == "" {
			t.Skip("another test compares these kernels' bits with those of AVX2; RUNNER_LONG=1 measures them too")
		}
		qemu, binary := arm64Program(t, "precision.cpp", flags...)
		boundErrors(t, output(t, qemu, "-cpu", "max", binary), []string{"plain C++", "NEON I8MM", "NEON DotProd"})
	})
}

// boundErrors checks the output of testdata/precision.cpp, which has all kernels of these instructions.
func boundErrors(t *testing.T, out string, instructions []string) {
	t.Helper()
	measured := map[string][]string{}
	var order []string
	for line := range strings.Lines(out) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		if len(fields) != 3 {
			t.Fatalf("the line %q", line)
		}
		set, kernel := fields[0], fields[1]
		if !slices.Contains(order, set) {
			order = append(order, set)
		}
		measured[set] = append(measured[set], kernel)
		bound, ok := lowerErrors[set][kernel]
		if !ok {
			bound = mostErrors[kernel]
		}
		got, err := strconv.ParseFloat(fields[2], 64)
		if err != nil || !(got <= bound) || got < bound*0.8 {
			t.Errorf("%s: the error of %s is %s, which should be at most and near %.3g", set, kernel, fields[2], bound)
		}
	}
	if !slices.Equal(order, instructions) {
		t.Fatalf("measured %q instead of %q", order, instructions)
	}
	for _, set := range instructions {
		want := slices.Sorted(maps.Keys(mostErrors))
		if set == "plain C++" {
			want = slices.DeleteFunc(want, func(kernel string) bool {
				return kernel == "F32" || kernel == "F16" || kernel == "BF16" || !slices.Contains(kernels.Formats(), kernel)
			})
		}
		if got := slices.Sorted(slices.Values(measured[set])); !slices.Equal(got, want) {
			t.Errorf("%s: measured %q instead of %q", set, got, want)
		}
	}
}
