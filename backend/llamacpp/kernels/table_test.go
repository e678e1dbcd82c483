package kernels_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"runner/backend/llamacpp/kernels"
	"runner/backend/llamacpp/kernels/kernelstest"
)

// documented is the table of the package's documentation: for each format and instructions, which files multiply.
func documented(t *testing.T) (formats, instructions []string, cells map[[2]string]string) {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	gap := regexp.MustCompile(`  +`)
	cells = map[[2]string]string{}
	for line := range strings.Lines(string(text)) {
		line, ok := strings.CutPrefix(strings.TrimSpace(line), "//\t")
		fields := gap.Split(line, -1)
		switch {
		case !ok:
		case instructions == nil:
			instructions = fields[1:]
		case len(fields) != len(instructions)+1:
			t.Fatalf("the row %q has other columns than %q", line, instructions)
		default:
			formats = append(formats, fields[0])
			for i, name := range instructions {
				cells[[2]string{fields[0], name}] = fields[i+1]
			}
		}
	}
	return formats, instructions, cells
}

// column is the column of the table for instructions.
func column(instructions string) string {
	if strings.HasPrefix(instructions, "NEON ") {
		return "NEON"
	}
	return instructions
}

// definitions returns the file that defines each set of kernels, by its instructions.
func definitions(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("*.cpp")
	if err != nil {
		t.Fatal(err)
	}
	sets, list := regexp.MustCompile(`(?m)^const kernels::set kernels::\w+ = \{"([^"]+)"`), map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range sets.FindAllStringSubmatch(string(text), -1) {
			list[m[1]] = file
		}
	}
	return list
}

// TestTable compares the table in the package's documentation with the formats and sets that there are, and with the
// products that the sets take which can run here, tiles emulated.
func TestTable(t *testing.T) {
	formats, instructions, cells := documented(t)
	if !slices.Equal(formats, kernels.Formats()) {
		t.Errorf("the table has the formats %q, the kernels read %q", formats, kernels.Formats())
	}
	files := definitions(t)
	for name, file := range files {
		if !slices.Contains(instructions, column(name)) {
			t.Errorf("the table lacks %s", name)
		}
		for _, format := range formats {
			if cell := cells[[2]string{format, column(name)}]; !strings.Contains(cell, file) {
				t.Errorf("%s, %s: the table has %q, without %s", format, name, cell, file)
			}
		}
	}
	if len(files) < 6 {
		t.Errorf("found only the kernels %v", files)
	}
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" || kernels.Offer() == "" {
		t.Skip(kernelstest.Lacking + " for x86-64")
	}
	var wrapped []string
	for _, function := range []string{"4vbmi8multiplyERKNS_4rowsEllPKPKNS_5blockEPKPfl",
		"8streamed8multiplyERKNS_4rowsEllPKPKNS_5blockEPKPfl", "5tiles8multiplyERKNS_4rowsEllPKcPKPKNS_5blockEPKPfl"} {
		wrapped = append(wrapped, "-Wl,--wrap=_ZN7kernels"+function)
	}
	out := output(t, kernelProgram(t, "table.cpp", quickFlags, wrapped...))
	taken := map[[2]string][]string{} // the file for each number of columns
	for line := range strings.Lines(out) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		key := [2]string{fields[1], fields[0]}
		if fields[3] == "own" {
			fields[3] = files[fields[0]]
		}
		taken[key] = append(taken[key], fields[3])
		if fields[2] != fmt.Sprint(len(taken[key])) {
			t.Fatalf("the line %q", line)
		}
	}
	for key, list := range taken {
		if got, want := ranges(list), cells[key]; got != want {
			t.Errorf("%s with %s: the table has %q instead of %q", key[0], key[1], want, got)
		}
	}
	if len(taken) < len(formats)*len(kernelstest.Names()) {
		t.Errorf("products of %d cells were tried", len(taken))
	}
}

// ranges writes which file multiplies how many columns, as the table does: list has the file for each number from 1 on.
func ranges(list []string) string {
	if !slices.ContainsFunc(list, func(file string) bool { return file != list[0] }) {
		return list[0]
	}
	var parts []string
	for first := 0; first < len(list); {
		last := first
		for last+1 < len(list) && list[last+1] == list[first] {
			last++
		}
		part := fmt.Sprintf("%s %d-", list[first], first+1)
		if last+1 < len(list) {
			part += fmt.Sprint(last + 1)
		}
		parts, first = append(parts, part), last+1
	}
	return strings.Join(parts, ", ")
}
