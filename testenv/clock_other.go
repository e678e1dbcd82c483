//go:build !linux

package testenv

import "time"

var zero = time.Now()

// ThreadTime is the time since this process started: other systems have no clock of a thread that Go knows.
func ThreadTime() time.Duration { return time.Since(zero) }
