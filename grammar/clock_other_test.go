//go:build !linux

package grammar

import "time"

const clockName = "wall time"

var zero = time.Now()

func threadTime() time.Duration { return time.Since(zero) }
