//go:build !linux && !darwin

package machine

import "runtime"

func cores() int { return runtime.NumCPU() }

func memory() (total, available int64) { return 0, 0 }

// addresses returns the limit of the process's address space and what is left of it; 0 means no limit.
func addresses() (limit, left int64) { return 0, 0 }
