// Command benchtables runs the benchmarks that a document names and puts their tables into it.
//
//	go run ./scripts/benchtables docs/benchmarks.md
//
// A benchmark is a comment with the arguments of runner bench. Its table follows, up to the comment that ends it:
//
//	<!-- runner bench -p 512 -n 128 -->
//	| model | ...
//	<!-- end of runner bench -->
//
// With --plot FILE among the arguments, which runner bench does not have, the results are drawn into that SVG file,
// too.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"runner/bench/results"
	"runner/scripts/benchplot/plot"
)

const (
	begin = "<!-- runner bench"
	stop  = "-->"
	end   = "<!-- end of runner bench -->"
)

func main() {
	runner := flag.String("runner", "bin/runner", "the program")
	flag.Parse()
	if err := update(flag.Args(), func(args []string) (string, error) {
		fmt.Fprintln(os.Stderr, "runner bench", strings.Join(args, " "))
		return measure(args, func(args []string) ([]byte, error) {
			cmd := exec.Command(*runner, append([]string{"bench"}, args...)...)
			cmd.Stderr = os.Stderr
			return cmd.Output()
		})
	}); err != nil {
		fmt.Fprintln(os.Stderr, "benchtables:", err)
		os.Exit(1)
	}
}

// measure returns the table of a benchmark, and draws its picture if the arguments name one.
func measure(args []string, run func(args []string) ([]byte, error)) (string, error) {
	at := slices.Index(args, "--plot")
	if at < 0 || at+1 == len(args) {
		table, err := run(args)
		return string(table), err
	}
	out, err := run(append(slices.Delete(slices.Clone(args), at, at+2), "-o", "json"))
	if err != nil {
		return "", err
	}
	rows, err := results.Read(bytes.NewReader(out))
	if err != nil {
		return "", err
	}
	var picture, table bytes.Buffer
	if err := plot.SVG(&picture, rows); err != nil {
		return "", err
	}
	if err := results.Write(&table, "md", rows, 0); err != nil {
		return "", err
	}
	if differences := results.Within(rows); len(differences) > 0 {
		table.WriteString("\n")
		if err := results.WriteDifferences(&table, differences, 0); err != nil {
			return "", err
		}
	}
	return table.String(), os.WriteFile(args[at+1], picture.Bytes(), 0o644)
}

// update renews the tables of documents.
func update(paths []string, bench func(args []string) (string, error)) error {
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		renewed, err := renew(string(text), bench)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if err := os.WriteFile(path, []byte(renewed), 0o644); err != nil {
			return err
		}
	}
	return nil
}

var errEnd = errors.New("a benchmark has no " + end)

// renew returns a document with new tables.
func renew(text string, bench func(args []string) (string, error)) (string, error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, begin)
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		args, rest, ok := strings.Cut(rest, stop)
		if !ok {
			return "", errors.New("a comment is not closed")
		}
		_, rest, ok = strings.Cut(rest, end)
		if !ok {
			return "", errEnd
		}
		table, err := bench(strings.Fields(args))
		if err != nil {
			return "", err
		}
		b.WriteString(begin + args + stop + "\n\n" + strings.TrimSpace(table) + "\n\n" + end)
		text = rest
	}
}
