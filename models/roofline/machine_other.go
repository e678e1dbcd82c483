//go:build !linux && !darwin

package roofline

// Processor returns "", because the system does not say the name of the processor.
func Processor() string { return "" }
