package cli

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"runner/cmd/runner/flags"
	"runner/reasoning/seal"
	"runner/server/keys"
)

// sealKeysFlag is the flag that names the file.
func sealKeysFlag(file *string) flags.Table {
	return flags.Text("seal-keys", file,
		"`FILE` of the keys that seal reasoning for clients (default: in the data folder)")
}

// sealKeysPath returns the path of the keys that seal reasoning for clients. If path is empty, it returns the default
// path and makes its folder.
func sealKeysPath(path string) (string, error) { return keyFile(path, "seal.keys", "seal-keys") }

// sealKeys reads the keys that seal reasoning for clients. It makes a key if there is none.
func sealKeys(path string) (*seal.Keyring, error) {
	keyring, err := seal.LoadOrCreate(path)
	if err != nil {
		return nil, Input("the keys that seal reasoning cannot be used: %v", err).From(err).
			Hint("give another file with --seal-keys")
	}
	return keyring, nil
}

// followSealKeys keeps a keyring equal to its file.
func followSealKeys(path string, keyring *seal.Keyring) keys.Source {
	file := keys.NewFile(path)
	x := keys.Source{Name: "the keys that seal reasoning", Len: func() int { return len(keyring.IDs()) },
		Reread: func(unchanged bool) (bool, error) {
			return file.Update(unchanged, func([]byte) error {
				next, err := seal.Load(path)
				if err == nil {
					keyring.Replace(next)
				}
				return err
			})
		}}
	_, _ = x.Reread(false) // sets what a change is compared with; the next time, an error is told
	return x
}

func (a *App) sealKeysCommand() *cobra.Command {
	cmd := Group("sealkey", "Keep the keys that seal reasoning for clients",
		`Keep the keys that seal reasoning for the clients of runner serve, which carry it from one turn to the next. The
server makes the first key. It reads the file again within two seconds of a change.`,
		a.sealKeysListCommand(), a.sealKeysRotateCommand())
	cmd.Aliases = []string{"sealkeys"} // people type both
	return cmd
}

// loadSealKeys reads an existing file of sealing keys.
func loadSealKeys(file string) (path string, ring *seal.Keyring, err error) {
	if path, err = sealKeysPath(file); err != nil {
		return "", nil, err
	}
	ring, err = seal.Load(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = Input("there are no sealing keys in %s", path).From(err).Hint("runner serve makes them")
	}
	return path, ring, err
}

func (a *App) sealKeysListCommand() *cobra.Command {
	file := ""
	return Command(&cobra.Command{
		Use:   "list",
		Short: "List the ids of the keys, the current one first",
		Args:  NoArguments,
		RunE: func(*cobra.Command, []string) error {
			_, ring, err := loadSealKeys(file)
			if err != nil {
				return err
			}
			for i, id := range ring.IDs() {
				state := "opens"
				if i == 0 {
					state = "current"
				}
				fmt.Fprintf(a.out, "%s  %s\n", id, state)
			}
			return nil
		},
	}, sealKeysFlag(&file))
}

func (a *App) sealKeysRotateCommand() *cobra.Command {
	file, keep := "", 0
	return Command(&cobra.Command{
		Use:   "rotate",
		Short: "Make a new key the current one and print its id",
		Long: `Make a new key the current one and print its id. The newest --keep of the earlier keys still open what was
sealed under them. What was sealed under the others is refused from then on. Keep none if a key may have leaked.`,
		Args: NoArguments,
		RunE: func(*cobra.Command, []string) error {
			path, ring, err := loadSealKeys(file)
			if err != nil {
				return err
			}
			id := ring.Rotate(keep)
			if err := ring.Save(path); err != nil {
				return err
			}
			fmt.Fprintln(a.out, id)
			return nil
		},
	}, flags.Int("keep", &keep, seal.MaxKeys-1, 0, seal.MaxKeys-1, "`N` of the earlier keys still open what they sealed"),
		sealKeysFlag(&file))
}
