package enginefolder

import (
	"path/filepath"
	"testing"
)

// TestPlaces: the folder that the linker set comes first.
func TestPlaces(t *testing.T) {
	usual := Places()
	defer func(was string) { linkedFolder = was }(linkedFolder)
	linkedFolder = filepath.Join(t.TempDir(), "lib")
	if list := Places(); list[0] != linkedFolder || len(list) < len(usual) {
		t.Errorf("the folders are %v", list)
	}
}
