//go:build !linux

package llamacpp

import "time"

var zero = time.Now()

func threadTime() time.Duration { return time.Since(zero) }
