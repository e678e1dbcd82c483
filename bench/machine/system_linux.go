package machine

import "strconv"

func gpuCores() int { return 0 }

func (s *State) read() { *s = linuxState("/") }

// Peak returns the largest memory, in bytes, that a process has had in use, mapped files included. 0 is this process.
// The result is 0 if the system does not tell.
func Peak(process int) int64 {
	if process == 0 {
		return peak("/", "self")
	}
	return peak("/", strconv.Itoa(process))
}
