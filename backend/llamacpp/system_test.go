package llamacpp

import "testing"

// TestSystem checks that the engine names what it was compiled for.
func TestSystem(t *testing.T) {
	s, err := SystemInfo()
	if err != nil || len(s.Features) == 0 {
		t.Errorf("system %+v, %v", s, err)
	}
	t.Logf("%+v", s)
}
