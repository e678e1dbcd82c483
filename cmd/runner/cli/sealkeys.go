package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"runner/cmd/runner/flags"
	"runner/reasoning/seal"
)

// sealKeysFlag is the flag that names the file.
func sealKeysFlag(file *string) flags.Table {
	return flags.Text("seal-keys", file, "",
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

// sealReloadEvery is how often a server checks the file of its sealing keys.
const sealReloadEvery = 2 * time.Second

// followSealKeys keeps a keyring equal to its file until ctx ends. If the file cannot be used, the old keys stay and
// the error is logged once.
func followSealKeys(ctx context.Context, path string, keyring *seal.Keyring, every time.Duration, log *slog.Logger) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	told := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		next, err := seal.Load(path)
		if err != nil {
			if err.Error() != told {
				told = err.Error()
				log.Error("cannot reload the keys that seal reasoning; the old keys stay in use", "error", err)
			}
			continue
		}
		told = ""
		if ids := next.IDs(); !slices.Equal(ids, keyring.IDs()) {
			keyring.Replace(next)
			log.Info("reloaded the keys that seal reasoning", "keys", len(ids), "current", ids[0])
		}
	}
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
