// Command benchplot draws results of runner bench as an SVG, with bars for the medians, their intervals, and the
// roofline as a dashed line:
//
//	runner bench -o json > speed.json
//	go run ./scripts/benchplot speed.json > speed.svg
//	go run ./scripts/benchplot before.json after.json > both.svg
//
// The bars of several files have the letters A, B and so on.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"runner/bench"
	"runner/bench/results"
	"runner/scripts/benchplot/plot"
)

func main() {
	if err := draw(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "benchplot:", err)
		os.Exit(1)
	}
}

// draw draws the results in files. It writes nothing if one of them cannot be read.
func draw(to io.Writer, paths []string) error {
	if len(paths) == 0 {
		return errors.New("name a file that runner bench -o json wrote")
	}
	var all []bench.Row
	for i, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		rows, err := results.Read(f)
		f.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for k := range rows {
			if len(paths) > 1 {
				rows[k].Subject = fmt.Sprintf("%c: %s", 'A'+i, rows[k].Subject)
			}
		}
		all = append(all, rows...)
	}
	return plot.SVG(to, all)
}
