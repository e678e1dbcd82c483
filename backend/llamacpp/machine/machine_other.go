//go:build !linux && !darwin

package machine

import "runtime"

func cores() int { return runtime.NumCPU() }

func memory() (total, available int64) { return 0, 0 }

// addresses returns what is left of the process's address space; 0 means no limit. It is whole if mapped files count.
func addresses() (left int64, whole bool) { return 0, false }
