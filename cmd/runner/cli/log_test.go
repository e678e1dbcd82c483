package cli

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
			(&app{engine: engine, err: file}).logger(format, verbose)
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
