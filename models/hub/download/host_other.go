//go:build !linux && !darwin

package download

// host knows no names on this system.
func host() (machine, boot string) { return "", "" }
