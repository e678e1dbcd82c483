package cli

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"runner/server"
)

// TestTheEngineLogsWhereVerbose checks that the engine's messages are logged with --verbose, and only then.
func TestTheEngineLogsWhereVerbose(t *testing.T) {
	for _, format := range []string{logText, logJSON} {
		for _, verbose := range []bool{false, true} {
			path := filepath.Join(t.TempDir(), "log")
			file, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			engine := Engine{Log: func(l *slog.Logger) { l.Debug("no device today") }}
			(&App{engine: engine, err: file}).Logger(format, verbose)
			log, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(string(log), "no device today"); got != verbose {
				t.Errorf("%s, verbose %v: the log is %q", format, verbose, log)
			}
		}
	}
}

// Each line about the address says itself which clients it is for.
func TestServeSaysWhere(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	at := &net.TCPAddr{IP: net.IPv4zero, Port: 99}
	o := &serveOptions{}
	o.addRooms()
	(&App{err: file}).announce(o, []served{{name: "m"}}, at, server.Config{})
	log, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"serving m at http://0.0.0.0:99\n",
		"\n  for a browser, with a page to chat on: http://localhost:99\n",
		"\n  base URL for clients of OpenAI: http://localhost:99/v1\n",
		"\n  base URL for clients of Anthropic: http://localhost:99\n",
		"\n  base URL for clients of Ollama: http://localhost:99\n",
		"\n  curl http://localhost:99/v1/chat/completions -d '{\"model\": \"m\", "} {
		if !strings.Contains(string(log), want) {
			t.Errorf("no %q in %q", want, log)
		}
	}
}
