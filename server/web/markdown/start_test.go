package markdown

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestStylesAreNotRead checks that the program does not read all of Chroma's styles whenever it starts.
func TestStylesAreNotRead(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "init github.com/alecthomas/chroma/v2/lexers ") {
		t.Fatalf("the packages that start are not listed:\n%s", out)
	}
	if strings.Contains(string(out), "init github.com/alecthomas/chroma/v2/styles ") {
		t.Error("the styles are read at the start")
	}
}
