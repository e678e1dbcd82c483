//go:build !linux && !darwin

package llamacpp

import "runtime"

func cores() int { return runtime.NumCPU() }

func memory() (total, available int64) { return 0, 0 }

func anonymousMemory() int64 { return 0 }
