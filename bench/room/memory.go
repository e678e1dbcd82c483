package room

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"

	"github.com/spf13/cobra"

	"runner/cmd/runner/cli"
	"runner/models/roofline"
)

// memoryProcess is the command by which the program measures the bandwidth of memory in another process.
const memoryProcess = "memory-process"

// memoryMeter measures the bandwidth of memory in a process of its own, so that the memory that is read for it does not
// count as the engine's.
type memoryMeter struct {
	cmd   *exec.Cmd
	ask   io.WriteCloser
	rates *bufio.Scanner
}

// startMemoryMeter starts the process.
func startMemoryMeter() (*memoryMeter, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	m := &memoryMeter{cmd: exec.Command(program, memoryProcess)}
	m.cmd.Env = withoutVariables(os.Environ())
	if m.ask, err = m.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	m.rates = bufio.NewScanner(out)
	return m, m.cmd.Start()
}

// rate returns how many bytes a second the processor reads from memory now, or 0 if it cannot be measured.
func (m *memoryMeter) rate() float64 {
	if _, err := io.WriteString(m.ask, "\n"); err != nil || !m.rates.Scan() {
		return 0
	}
	rate, _ := strconv.ParseFloat(m.rates.Text(), 64) // 0 where it is no number
	return rate
}

// stop ends the process.
func (m *memoryMeter) stop() {
	_ = m.ask.Close()
	_ = m.cmd.Wait()
}

// memoryCommand is hidden: only the program itself starts it. It writes the bandwidth of memory, in bytes a second,
// after each line of its standard input, and ends with it.
func memoryCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: memoryProcess, Hidden: true, Args: cli.NoArguments,
		Short: "Measure how fast memory is read",
		Long: "Measure how fast memory is read, in bytes a second, after each line of standard input. runner bench starts " +
			"this command itself.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, ok := roofline.NewMeter(a.FreeMemory())
			if !ok {
				return errors.New("there is too little memory to measure how fast it is")
			}
			defer m.Close()
			lines := bufio.NewScanner(cmd.InOrStdin())
			for lines.Scan() {
				if _, err := fmt.Fprintf(a.Stdout(), "%.0f\n", m.Rate()); err != nil {
					return err
				}
			}
			return lines.Err()
		},
	}
}
