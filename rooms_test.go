package rules_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// roomsFile lists the rooms of the program.
const roomsFile = "cmd/runner/rooms/rooms.go"

// roomLine matches the line of a room. The folder above the package room is all of it.
var roomLine = regexp.MustCompile(`(?m)^\t_ "runner/(\S+)/room"\n`)

// TestEveryRoomCanBeTakenOut checks that the program is whole without each of its rooms: without the room's folder and
// its line in the list. RUNNER_LONG=1 also links and runs each of these programs.
func TestEveryRoomCanBeTakenOut(t *testing.T) {
	list, err := os.ReadFile(roomsFile)
	if err != nil {
		t.Fatal(err)
	}
	lines := roomLine.FindAllStringSubmatch(string(list), -1)
	if len(lines) < 10 {
		t.Fatalf("only %d rooms are listed", len(lines))
	}
	for _, line := range lines {
		t.Run(line[1], func(t *testing.T) {
			without := without(t, line[1], strings.Replace(string(list), line[0], "", 1))
			// This compiles what is not in the cache, and links nothing.
			out, err := goTool(t, "list", "-overlay", without, "-export", "-deps", "-f", "{{.ImportPath}}", "./cmd/runner",
				"./scripts/clidocs").CombinedOutput()
			if err != nil {
				t.Fatalf("the program needs this room: %v\n%s", err, out)
			}
			if strings.Contains(string(out), "runner/"+line[1]+"\n") {
				t.Error("the room is still in the program")
			}
			if os.Getenv("RUNNER_LONG") != "" {
				smoke(t, without)
			}
		})
	}
	// Without the folder alone the list has an import of nothing.
	if out, err := goTool(t, "list", "-overlay", without(t, lines[0][1], string(list)), "-export", "-deps",
		"./cmd/runner").CombinedOutput(); err == nil {
		t.Errorf("a folder that is missing is not noticed:\n%s", out)
	}
}

// without returns an overlay for the go command, in which a folder is empty and the list of rooms has another text.
func without(t *testing.T, folder, list string) (name string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "rooms.go"), []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	replace := map[string]string{filepath.Join(here, roomsFile): filepath.Join(dir, "rooms.go")}
	err = fs.WalkDir(os.DirFS(here), folder, func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			replace[filepath.Join(here, name)] = ""
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err == nil {
		name = filepath.Join(dir, "overlay.json")
		err = os.WriteFile(name, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func goTool(t *testing.T, args ...string) *exec.Cmd {
	return exec.CommandContext(t.Context(), "go", args...)
}

// smoke links the program with an overlay and has it do a little of everything.
func smoke(t *testing.T, overlay string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "runner")
	if out, err := goTool(t, "build", "-overlay", overlay, "-o", program, "./cmd/runner").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	home := "HOME=" + t.TempDir()
	for want, args := range map[string][]string{
		"runner": {"version"}, "serve": {"--help"}, "42": {"run", "--temperature", "0", "demo", "What is 17 + 25?"},
	} {
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Env = append(os.Environ(), home)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
	}
	serving, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	cmd := exec.CommandContext(serving, program, "serve", "--port", "0")
	cmd.Env = append(os.Environ(), home)
	said, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		stop()
		_ = cmd.Wait() // it was killed
	}()
	address := regexp.MustCompile(`http://[0-9.:]+`)
	for lines := bufio.NewScanner(said); lines.Scan(); {
		at := address.FindString(lines.Text())
		if at == "" {
			continue
		}
		for range 100 {
			answer, err := http.Get(at + "/health")
			if err == nil {
				answer.Body.Close()
				if answer.StatusCode == http.StatusOK {
					return
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
		break
	}
	t.Error("the server does not get healthy")
}

// TestOnlyTheListNamesRooms checks for two rooms that no other part of the program knows their names. Packages about
// models may say what MLX reads.
func TestOnlyTheListNamesRooms(t *testing.T) {
	for _, room := range []struct {
		name   *regexp.Regexp
		folder string
		others []string
	}{
		{regexp.MustCompile(`(?i)\bmew`), "runner/server/mew", []string{"runner"}},
		{regexp.MustCompile(`(?i)mlx`), "runner/backend/mlx", []string{"runner/bench", "runner/cmd", "runner/runner",
			"runner/server"}},
		{regexp.MustCompile(`(?i)\bagui\b`), "runner/server/agui", []string{"runner/runner", "runner/models",
			"runner/backend"}},
	} {
		for _, p := range packages(t) {
			other := slices.ContainsFunc(room.others, func(folder string) bool { return matches(folder, p.ImportPath) })
			if !other || p.ImportPath == rooms || matches(room.folder, p.ImportPath) {
				continue
			}
			for _, name := range p.GoFiles {
				text, err := os.ReadFile(filepath.Join(p.Dir, name))
				if err != nil {
					t.Fatal(err)
				}
				if word := room.name.Find(text); word != nil {
					t.Errorf("%s/%s names %s", p.ImportPath, name, word)
				}
			}
		}
	}
}
