package cli

import (
	"os/exec"
	"strings"
	"testing"
)

func TestTextsAreUTF8(t *testing.T) {
	for _, args := range [][]string{{"run", "what is \x80"}, {"run", "--system", "be \xff", "hello"}} {
		out, err := exec.Command("runner", args...).CombinedOutput()
		if err == nil || !strings.HasSuffix(string(out), " is not UTF-8 text; convert it to text first\n") {
			t.Errorf("%q: %s, %v", args, out, err)
		}
	}
}
