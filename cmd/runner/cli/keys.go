package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"runner/cmd/runner/flags"
	"runner/reasoning/trace"
	"runner/reasoning/trace/keys"
)

// passphraseVariable is the environment variable that holds the keyring's passphrase if --passphrase-file is not given.
const passphraseVariable = "RUNNER_PASSPHRASE"

// KeyringFlags are the flags of commands that need a keyring.
type KeyringFlags struct{ file, passphraseFile string }

// Flags are the flag of the file and the one for the passphrase.
func (k *KeyringFlags) Flags() flags.Table {
	return flags.List(k.FileFlag(), flags.Text("passphrase-file", &k.passphraseFile,
		"`FILE` whose first line is the passphrase (default: "+passphraseVariable+", or asked for)"))
}

// FileFlag is the flag of the file.
func (k *KeyringFlags) FileFlag(marks ...flags.Mark) flags.Table {
	return flags.Text("keyring", &k.file, "`FILE` of the keys (default: in the data folder)", marks...)
}

// path returns the path of the keyring. If it is the default path, its folder is made.
func (k *KeyringFlags) path() (string, error) { return keyFile(k.file, "trace.keys", "keyring") }

// Load reads the keyring.
func (k *KeyringFlags) Load() (*keys.Keyring, error) {
	path, err := k.path()
	if err != nil {
		return nil, err
	}
	ring, err := keys.Load(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, Input("there is no keyring %s", path).From(err).Hint("make one with runner trace keys new")
	}
	return ring, err
}

// public returns the public key with an id.
func (k *KeyringFlags) public(id string) (key trace.Recipient, err error) {
	ring, err := k.Load()
	if err != nil {
		return key, err
	}
	for _, key := range ring.Keys() {
		if key.Recipient.ID() == id {
			return key.Recipient, nil
		}
	}
	return key, Input("there is no key %q", id).Hint("see runner trace keys list")
}

// current returns the public key that traces are sealed to by default.
func (k *KeyringFlags) current() (key trace.Recipient, err error) {
	ring, err := k.Load()
	if err != nil {
		return key, err
	}
	return ring.Current(), nil
}

// Passphrase returns the keyring's passphrase. It is never an argument, because other users can see those. twice makes
// the user type it a second time, for a new keyring.
func (a *App) Passphrase(k *KeyringFlags, twice bool) ([]byte, error) {
	if k.passphraseFile != "" {
		text, err := a.ReadFile("--passphrase-file", k.passphraseFile)
		line, _, _ := bytes.Cut([]byte(text), []byte("\n"))
		return bytes.TrimSuffix(line, []byte("\r")), err
	}
	if text, ok := os.LookupEnv(passphraseVariable); ok {
		return []byte(text), nil
	}
	if !a.inTerminal || !a.errTerminal {
		return nil, Usage("a passphrase is needed, but there is no terminal to ask on").
			Hint("use --passphrase-file or %s", passphraseVariable)
	}
	questions := []string{"Passphrase: ", "Once more: "}
	if !twice {
		questions = questions[:1]
	}
	lines, err := a.ask(questions)
	if err != nil {
		return nil, err
	}
	if twice && lines[0] != lines[1] {
		return nil, Input("the passphrases differ").Hint("type the same twice")
	}
	return []byte(lines[0]), nil
}

// ask reads lines from the terminal without showing them. Echo is turned off before the first question is printed, so
// that text typed early is not shown.
func (a *App) ask(questions []string) (lines []string, err error) {
	fd := int(a.in.Fd())
	state, err := term.MakeRaw(fd)
	if err == nil {
		defer func() { err = errors.Join(err, term.Restore(fd, state)) }()
		t := term.NewTerminal(struct {
			io.Reader
			io.Writer
		}{a.in, a.err}, "")
		ctx, stop := UntilStopped(context.Background())
		defer stop()
		lines, err = unlessStopped(ctx, func() (lines []string, err error) {
			for _, q := range questions {
				line, err := t.ReadPassword(q)
				if err != nil {
					return nil, err
				}
				lines = append(lines, line)
			}
			return lines, nil
		})
	}
	if errors.Is(err, ErrInterrupted) {
		return nil, err
	}
	if err != nil {
		return nil, Input("no passphrase was typed").From(err).Hint("use --passphrase-file or %s", passphraseVariable)
	}
	return lines, nil
}

// unlessStopped returns what read returns, or ErrInterrupted when ctx ends before. The terminal can then be restored,
// although read may go on for as long as the program runs.
func unlessStopped[T any](ctx context.Context, read func() (T, error)) (got T, err error) {
	type answer struct {
		got T
		err error
	}
	done := make(chan answer, 1)
	go func() {
		got, err := read()
		done <- answer{got, err}
	}()
	select {
	case a := <-done:
		return a.got, a.err
	case <-ctx.Done():
		return got, ErrInterrupted
	}
}

// addKeys adds the command for keys to the command trace. Conversations are sealed to the same keys as traces, so it is
// there in a program that records no traces.
func (a *App) addKeys(root *cobra.Command) {
	at := slices.IndexFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == "trace" })
	if at >= 0 {
		root.Commands()[at].AddCommand(a.traceKeysCommand())
		return
	}
	cmd := Group("trace", "Keep the keys that conversations are sealed to", "", a.traceKeysCommand())
	cmd.GroupID = "traces"
	root.AddCommand(cmd)
}

func (a *App) traceKeysCommand() *cobra.Command {
	cmd := Group("keys", "Keep the keys that sealed traces are read with",
		`Keep the keys that sealed traces are read with. Traces are sealed to the public key, which needs no passphrase.
The private key opens them and is protected by a passphrase. The passphrase is asked for, or comes from
--passphrase-file or `+passphraseVariable+`.`,
		a.keysNewCommand(), a.keysListCommand(), a.keysExportCommand(), a.keysRotateCommand())
	cmd.Aliases = []string{"key"} // people type both
	return cmd
}

func (a *App) keysNewCommand() *cobra.Command {
	k := &KeyringFlags{}
	return Command(&cobra.Command{
		Use:   "new",
		Short: "Make a keyring with one key and print its public key",
		Long: "Make a keyring with one key and print its public key. Nobody can read traces without the passphrase: it " +
			"cannot be recovered.",
		Args: NoArguments,
		RunE: func(*cobra.Command, []string) error {
			path, err := k.path()
			if err != nil {
				return err
			}
			if _, err := os.Lstat(path); err == nil {
				return keyringThere(path)
			}
			phrase, err := a.Passphrase(k, true)
			if err != nil {
				return err
			}
			ring, err := keys.New(phrase, time.Now())
			if err == nil {
				err = ring.Create(path)
			}
			switch {
			case errors.Is(err, fs.ErrExist):
				return keyringThere(path)
			case err != nil:
				return err
			}
			a.Note("made " + path)
			fmt.Fprintln(a.out, ring.Current())
			return nil
		},
	}, k.Flags())
}

func keyringThere(path string) error {
	return Input("%s already exists", path).From(fs.ErrExist).
		Hint("use runner trace keys rotate for a new key, or name another file with --keyring")
}

func (a *App) keysListCommand() *cobra.Command {
	k := &KeyringFlags{}
	return Command(&cobra.Command{
		Use:   "list",
		Short: "List the keys, the current one first",
		Args:  NoArguments,
		RunE: func(*cobra.Command, []string) error {
			ring, err := k.Load()
			if err != nil {
				return err
			}
			for i, key := range ring.Keys() {
				use := "opens"
				if i == 0 {
					use = "current"
				}
				fmt.Fprintf(a.out, "%s  %s  %s\n", key.Recipient.ID(), key.Created.Format(time.RFC3339), use)
			}
			return nil
		},
	}, k.FileFlag())
}

func (a *App) keysExportCommand() *cobra.Command {
	k := &KeyringFlags{}
	return Command(&cobra.Command{
		Use:   "export [ID]",
		Short: "Print a public key, the current one without ID",
		Args:  AtMost(1, "keys", "name one"),
		RunE: func(_ *cobra.Command, args []string) error {
			key, err := k.current()
			if err == nil && len(args) > 0 {
				key, err = k.public(args[0])
			}
			if err == nil {
				fmt.Fprintln(a.out, key)
			}
			return err
		},
	}, k.FileFlag())
}

func (a *App) keysRotateCommand() *cobra.Command {
	k := &KeyringFlags{}
	return Command(&cobra.Command{
		Use:   "rotate",
		Short: "Make a new key the current one and print its public key",
		Long:  "Make a new key the current one and print its public key. Older keys go on opening what was sealed to them.",
		Args:  NoArguments,
		RunE: func(*cobra.Command, []string) error {
			ring, err := k.Load()
			if err != nil {
				return err
			}
			phrase, err := a.Passphrase(k, false)
			if err != nil {
				return err
			}
			if err := ring.Rotate(phrase, time.Now()); err != nil {
				return err
			}
			path, err := k.path()
			if err != nil {
				return err
			}
			if err := ring.Save(path); err != nil {
				return err
			}
			fmt.Fprintln(a.out, ring.Current())
			return nil
		},
	}, k.Flags())
}
