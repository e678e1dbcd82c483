package roofline

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"unsafe"
)

// TestMeterAsksForLargePages checks that Linux is asked for large pages for the memory that is measured.
func TestMeterAsksForLargePages(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems choose the pages themselves")
	}
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage"); err != nil {
		t.Skip("this system has no large pages for programs that ask")
	}
	m, ok := NewMeter(0)
	if !ok {
		t.Fatal("no meter without a limit")
	}
	defer m.Close()
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip("the system does not show a process its memory: ", err)
	}
	if !strings.Contains(string(maps), "VmFlags:") {
		t.Skip("the system does not show a process the flags of its memory")
	}
	at, inside := uintptr(unsafe.Pointer(&m.memory[0])), false
	for line := range strings.Lines(string(maps)) {
		var begin, end uintptr
		if n, _ := fmt.Sscanf(line, "%x-%x ", &begin, &end); n == 2 {
			inside = begin <= at && at < end
		}
		if flags, ok := strings.CutPrefix(line, "VmFlags:"); ok && inside {
			if !strings.Contains(flags, " hg") {
				t.Errorf("the memory has the flags%s", flags)
			}
			return
		}
	}
	t.Error("the memory is in no mapping")
}

// TestMeterLeavesRoom checks that a meter takes a fourth of the room at most.
func TestMeterLeavesRoom(t *testing.T) {
	room := int64(4 * max(readLeast, runtime.GOMAXPROCS(0)*streams*block))
	m, ok := NewMeter(room)
	if !ok {
		t.Fatal("no meter with enough room")
	}
	defer m.Close()
	if int64(len(m.memory)) > room/4 {
		t.Errorf("%d bytes", len(m.memory))
	}
	if _, ok := NewMeter(room - 4); ok {
		t.Error("a meter with too little room")
	}
}
