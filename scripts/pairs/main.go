// Command pairs compares the speed of two states of this repository on one model. It builds the program in the folder
// steps from each, lets the two take turns, and prints the medians and the median of the ratios of their pairs, with
// the quartiles. A pair shares what disturbs the machine, so the ratio is the better figure.
//
//	make pairs ARGS="-before 669c59a -rounds 7 -prompt 512 -generate 64 MODEL"
//
// A state is a commit or a folder with a working tree. The programs are compiled with CGO_CFLAGS and CGO_CXXFLAGS, as
// make sets them. The machine should be idle otherwise.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"runner/bench"
)

func main() {
	before := flag.String("before", "HEAD", "the `state` to compare with")
	after := flag.String("after", ".", "the `state` that is compared")
	rounds := flag.Int("rounds", 7, "how many `pairs`")
	rest := map[string]*string{}
	for _, f := range []string{"sequences", "prompt", "generate", "prompts", "threads", "batch"} {
		rest[f] = flag.String(f, "", "see scripts/pairs/steps")
	}
	flag.Parse()
	var args []string
	for _, f := range slices.Sorted(maps.Keys(rest)) {
		if *rest[f] != "" {
			args = append(args, "-"+f, *rest[f])
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := compare(ctx, *before, *after, *rounds, append(args, flag.Args()...))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "pairs:", err)
		os.Exit(1)
	}
}

// compare builds both states and prints how fast they are. It leaves nothing behind when it is cancelled.
func compare(ctx context.Context, before, after string, rounds int, args []string) error {
	if flag.NArg() != 1 {
		return errors.New("name one model's file")
	}
	if rounds < 1 {
		return errors.New("-rounds must be at least 1")
	}
	dir, err := os.MkdirTemp("", "pairs")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var programs [2]string
	for i, state := range [2]string{before, after} {
		programs[i] = filepath.Join(dir, "steps"+strconv.Itoa(i))
		if err := build(ctx, state, filepath.Join(dir, "tree"+strconv.Itoa(i)), programs[i]); err != nil {
			return fmt.Errorf("building %s: %w", state, err)
		}
	}
	list, err := takeTurns(rounds, func(i int) ([]byte, error) {
		cmd := exec.CommandContext(ctx, programs[i], args...)
		cmd.Stderr = os.Stderr
		return cmd.Output()
	})
	if err != nil {
		return err
	}
	return write(os.Stdout, list)
}

// build compiles the program in steps with a state's packages. A commit gets a working tree at tree.
func build(ctx context.Context, state, tree, program string) error {
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	if info, err := os.Stat(state); err != nil || !info.IsDir() {
		if err := run(ctx, here, "git", "worktree", "add", "--detach", tree, state); err != nil {
			return err
		}
		defer func() { // git prints why it cannot
			_ = run(context.WithoutCancel(ctx), here, "git", "worktree", "remove", "--force", tree)
		}()
		state = tree
	}
	// The state may not have the program, so it gets it under a name that nothing has.
	overlay := filepath.Join(filepath.Dir(program), filepath.Base(program)+".json")
	root, err := filepath.Abs(state)
	if err != nil {
		return err
	}
	replace := fmt.Sprintf(`{"Replace": {%q: %q}}`, filepath.Join(root, "cmd", "steps_of_pairs", "main.go"),
		filepath.Join(here, "scripts", "pairs", "steps", "main.go"))
	if err := os.WriteFile(overlay, []byte(replace), 0o600); err != nil {
		return err
	}
	return run(ctx, root, "go", "build", "-overlay", overlay, "-o", program, "./cmd/steps_of_pairs")
}

func run(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // git then removes what it began
	cmd.WaitDelay = 10 * time.Second
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stderr, os.Stderr
	return cmd.Run()
}

// figure is what both programs have for one name, in the order of the rounds.
type figure struct {
	name string
	of   [2][]float64
}

// takeTurns runs both programs in each round. Every second round goes backwards, so that neither is always first.
func takeTurns(rounds int, program func(i int) ([]byte, error)) (list []figure, err error) {
	for round := range rounds {
		for k := range 2 {
			i := (round + k) % 2
			out, err := program(i)
			if err != nil {
				return nil, err
			}
			if list, err = add(list, i, out); err != nil {
				return nil, err
			}
		}
	}
	return list, nil
}

// add adds what program i printed.
func add(list []figure, i int, out []byte) ([]figure, error) {
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, fmt.Errorf("the program printed %q: %w", lines.Text(), err)
		}
		at := slices.IndexFunc(list, func(f figure) bool { return f.name == name })
		if at < 0 {
			at, list = len(list), append(list, figure{name: name})
		}
		list[at].of[i] = append(list[at].of[i], v)
	}
	return list, nil
}

// write prints a table.
func write(w io.Writer, list []figure) error {
	fmt.Fprintf(w, "%-6s %10s %10s %8s  %s\n", "", "before", "after", "ratio", "quartiles")
	for _, f := range list {
		if len(f.of[0]) != len(f.of[1]) {
			return fmt.Errorf("one program does not print %s", f.name)
		}
		ratios := make([]float64, len(f.of[0]))
		for i := range ratios {
			ratios[i] = f.of[1][i] / f.of[0][i]
		}
		_, err := fmt.Fprintf(w, "%-6s %10.4g %10.4g %8.3f  %.3f to %.3f\n", f.name, bench.Median(f.of[0]),
			bench.Median(f.of[1]), bench.Median(ratios), bench.Quantile(ratios, 0.25), bench.Quantile(ratios, 0.75))
		if err != nil {
			return err
		}
	}
	return nil
}
