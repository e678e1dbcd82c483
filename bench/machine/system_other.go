//go:build !linux && !darwin

package machine

import "time"

func gpuCores() int { return 0 }

const countsWaiting = false

func (*State) read(bool) {}

// Peak returns 0, because the system does not tell.
func Peak(int) int64 { return 0 }

// Used returns 0, because the system does not tell.
func Used(int) time.Duration { return 0 }
