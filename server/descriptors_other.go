//go:build !unix

package server

// descriptors returns how many files the process may have open and how many it has; 0 for no limit.
func descriptors() (limit, open int) { return 0, 0 }
