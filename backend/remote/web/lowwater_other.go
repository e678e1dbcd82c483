//go:build unix && !linux

package web

// gather does nothing: elsewhere the setting would also affect reads that do not wait.
func (r *rawReader) gather(bool) {}
