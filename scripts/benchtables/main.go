// Command benchtables runs the benchmarks that a document names and puts their tables into it.
//
//	go run ./scripts/benchtables docs/benchmarks.md
//
// A benchmark is a comment with the arguments of runner bench. Its table follows, up to the comment that ends it:
//
//	<!-- runner bench -p 512 -n 128 -->
//	| model | ...
//	<!-- end of runner bench -->
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
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
		cmd := exec.Command(*runner, append([]string{"bench"}, args...)...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		return string(out), err
	}); err != nil {
		fmt.Fprintln(os.Stderr, "benchtables:", err)
		os.Exit(1)
	}
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
