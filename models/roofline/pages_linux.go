package roofline

import "syscall"

// take returns memory and asks for large pages: in small ones a processor reads slower than it can, because it looks up
// so many. [give] gives the memory back.
func take(size int64) []byte {
	memory, err := syscall.Mmap(-1, 0, int(size), syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return make([]byte, size)
	}
	_ = syscall.Madvise(memory, syscall.MADV_HUGEPAGE)
	return memory
}

// give gives back what take returned.
func give(memory []byte) {
	_ = syscall.Munmap(memory) // an error says that take made it otherwise
}
