package machine

import "testing"

func TestNow(t *testing.T) {
	m := Now()
	if m.Cores < 1 {
		t.Errorf("%d cores", m.Cores)
	}
	if m.MemoryTotal > 0 && (m.MemoryAvailable <= 0 || m.MemoryAvailable > m.MemoryTotal) {
		t.Errorf("%d of %d bytes available", m.MemoryAvailable, m.MemoryTotal)
	}
	t.Logf("%+v", m)
}
