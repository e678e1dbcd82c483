package cli

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"

	"runner/hint"
)

// DataFolder returns the folder of this program's data: $XDG_DATA_HOME/runner, or the system's equivalent.
func DataFolder() (string, error) {
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "runner"), nil
	}
	home, err := os.UserHomeDir()
	switch {
	case err != nil:
		return "", Input("the home folder is unknown").From(err).Hint("set HOME")
	case runtime.GOOS == "darwin":
		return filepath.Join(home, "Library", "Application Support", "runner"), nil
	case runtime.GOOS == "windows":
		if dir := os.Getenv("LOCALAPPDATA"); dir != "" {
			return filepath.Join(dir, "runner"), nil
		}
		return "", Input("the data folder is unknown").From(errors.ErrUnsupported).Hint("set LOCALAPPDATA")
	}
	return filepath.Join(home, ".local", "share", "runner"), nil
}

// configVariable is the environment variable that names another config file.
const configVariable = "RUNNER_CONFIG"

// configFile returns the path of the config file: RUNNER_CONFIG, or config.toml in $XDG_CONFIG_HOME/runner or the
// system's equivalent.
func configFile() (string, error) {
	if path := os.Getenv(configVariable); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", Input("%s names %s, which cannot be read: %v", configVariable, path, hint.Reason(err)).From(err).
				Hint("correct or unset it")
		}
		return path, nil
	}
	if dir := os.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "runner", "config.toml"), nil
	}
	home, _ := os.UserHomeDir() // without a home there is no file
	if home == "" {
		return "", nil
	}
	if runtime.GOOS == "windows" {
		if dir, err := os.UserConfigDir(); err == nil {
			return filepath.Join(dir, "runner", "config.toml"), nil
		}
	}
	return filepath.Join(home, ".config", "runner", "config.toml"), nil
}

// keyFile returns the path of a file of keys: given, which the flag names, or the file called name in the data folder.
// It makes the data folder.
func keyFile(given, name, flag string) (string, error) {
	if given != "" {
		return given, nil
	}
	dir, err := DataFolder()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", Input("the data folder cannot be made: %v", err).From(err).Hint("give a file with --%s", flag)
	}
	return filepath.Join(dir, name), nil
}
