package llamacpp

import "testing"

// TestSystem checks that the engine names what it was compiled for.
func TestSystem(t *testing.T) {
	e, err := BuiltIn()
	if err != nil {
		t.Fatal(err)
	}
	s := e.System()
	if len(s.Features) == 0 {
		t.Errorf("system %+v", s)
	}
	t.Logf("%+v", s)
}
