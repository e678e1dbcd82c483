package roofline

import (
	"os"
	"runtime"
	"strings"
	"testing"
)

// TestMeterReadsLargePages checks that memory is measured in large pages where Linux has them for programs that ask.
func TestMeterReadsLargePages(t *testing.T) {
	m, ok := NewMeter(0)
	if !ok {
		t.Fatal("no meter without a limit")
	}
	defer m.close()
	if rate := m.Rate(); rate < 1e8 {
		t.Errorf("%g bytes a second", rate)
	}
	if runtime.GOOS != "linux" {
		t.Skip("other systems choose the pages themselves")
	}
	setting, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	if err != nil || strings.Contains(string(setting), "[never]") {
		t.Skip("this system has no large pages for programs that ask")
	}
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil || !strings.Contains(string(maps), "VmFlags:") {
		t.Skip("the system does not show a process the flags of its memory")
	}
	asked := 0 // mappings with the flag "hg", for advice to use huge pages
	for line := range strings.Lines(string(maps)) {
		if flags, ok := strings.CutPrefix(line, "VmFlags:"); ok && strings.Contains(flags, " hg") {
			asked++
		}
	}
	if asked == 0 {
		t.Error("no memory was asked for in large pages")
	}
}

// TestMeterLeavesRoom checks that a meter takes a fourth of the room at most.
func TestMeterLeavesRoom(t *testing.T) {
	m, ok := NewMeter(4 * readLeast)
	if !ok {
		t.Fatal("no meter with enough room")
	}
	defer m.close()
	size := 0
	for _, part := range m.parts {
		size += len(part)
	}
	if least := len(m.parts) * streams * block; size > max(readLeast, least) {
		t.Errorf("%d bytes", size)
	}
}
