//go:build !linux && !darwin

package roofline

// processor returns "", because the system does not say the name of the processor.
func processor() string { return "" }
