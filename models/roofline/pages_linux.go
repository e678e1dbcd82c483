package roofline

import "golang.org/x/sys/unix"

// take returns memory and asks for large pages: in small ones a processor reads slower than it can, because it looks up
// so many. Where the system maps no memory, it is the garbage collector's. [give] gives the memory back.
func take(size int64) []byte {
	memory, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return make([]byte, size)
	}
	_ = unix.Madvise(memory, unix.MADV_HUGEPAGE) // without them it is measured in small pages
	return memory
}

// give gives back what take returned.
func give(memory []byte) {
	_ = unix.Munmap(memory) // it refuses what it did not map
}
