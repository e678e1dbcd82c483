package roofline

import (
	"fmt"
	"runtime"
)

// Machine names what the bandwidth depends on: the kind of processor and how much of it the program may use.
func Machine() string {
	return fmt.Sprintf("%s, %s/%s, %d of %d processors", Processor(), runtime.GOOS, runtime.GOARCH,
		runtime.GOMAXPROCS(0), runtime.NumCPU())
}
