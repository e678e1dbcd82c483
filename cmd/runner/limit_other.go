//go:build !linux

package main

import "errors"

// limitMemory refuses a limit, because this system has none that fits.
func limitMemory(bytes int64) error {
	if bytes <= 0 {
		return nil
	}
	return errors.New("--engine-memory works on Linux only; leave it out")
}
