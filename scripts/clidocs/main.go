// Command clidocs writes documents about the commands of runner:
//
//	go run ./scripts/clidocs markdown > docs/cli.md
//	go run ./scripts/clidocs [-version VERSION] man DIR
//
// man writes a manual page for each command into DIR, which is created if it is missing. man(1) finds the pages in a
// folder called man1 of its search path, such as ~/.local/share/man/man1.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"runner/cmd/runner/cli"
	_ "runner/cmd/runner/rooms"
)

func main() {
	version := flag.String("version", "", "the version of runner that manual pages name")
	flag.Parse()
	if err := write(os.Stdout, *version, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "clidocs:", err)
		os.Exit(1)
	}
}

func write(to io.Writer, version string, args []string) error {
	root := cli.Commands()
	switch {
	case len(args) == 1 && args[0] == "markdown":
		return writeMarkdown(to, root)
	case len(args) == 2 && args[0] == "man":
		if err := os.MkdirAll(args[1], 0o755); err != nil {
			return err
		}
		n, err := writeManTree(args[1], root, version)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(to, "wrote %d pages to %s\n", n, args[1])
		return err
	}
	return errors.New("give markdown, or man and a folder")
}
