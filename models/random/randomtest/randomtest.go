// Package randomtest writes the files of models with random weights for tests.
package randomtest

import (
	"errors"
	"os"

	"runner/models/random"
)

// WriteFile writes a model to path.
func WriteFile(path string, c random.Config) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(random.Write(f, c), f.Close())
}
