//go:build unix

package terminalpicture

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

func TestDraw(t *testing.T) {
	env := []string{"PATH=" + os.Getenv("PATH")}
	got, err := Draw([]string{`printf 'a\n\033[2m<dim>\nmore\033[0m plain\n'`, "echo end",
		`printf '\r| waiting\033[K\r/ waiting\033[K\r\033[Klate\n'`}, env)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{">a</text>", `<tspan class="dim">&lt;dim&gt;</tspan></text>`,
		`<tspan class="dim">more</tspan> plain</text>`, `</tspan> echo end</text>`, ">end</text>", ">late</text>"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	for d := xml.NewDecoder(strings.NewReader(got)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for command, problem := range map[string]string{
		"false":                                "exit status 1",
		`printf '\033[2J'`:                     "control character",
		`printf '\033[95mpink\n'`:              "unknown style",
		"seq 100":                              "do not fit",
		"echo " + strings.Repeat("x", Columns): "wider than the terminal",
	} {
		if _, err := Draw([]string{command}, env); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%s: %v, want %q", command, err, problem)
		}
	}
}
