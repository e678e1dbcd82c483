//go:build unix

package store

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"runner/reasoning/trace"
)

// writeForever is the variable with the folder to which the test binary writes traces until it is killed. They are
// sealed to the recipient in recipientVariable.
const (
	writeForever      = "TRACE_TEST_WRITE_FOREVER"
	recipientVariable = "TRACE_TEST_RECIPIENT"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(writeForever); dir != "" {
		fmt.Fprintln(os.Stderr, writeTraces(dir))
		os.Exit(1)
	}
	if dir := os.Getenv(readForever); dir != "" {
		fmt.Fprintln(os.Stderr, readTraces(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// readForever is the variable with the folder that the test binary reads until it is killed.
const readForever = "TRACE_TEST_READ_FOREVER"

// readTraces checks a store again and again. It returns when something is wrong.
func readTraces(dir string) error {
	for n := 0; ; n++ {
		r, err := Read(dir)
		if err == nil {
			var report *Report
			if report, err = r.Verify(background, nil); err == nil && len(report.Problems) > 0 {
				err = fmt.Errorf("%v", report.Problems)
			}
			err = errors.Join(err, r.Close())
		}
		if err != nil && !errors.Is(err, ErrBusy) {
			return err
		}
		if err == nil {
			fmt.Println("read")
		}
		time.Sleep(2 * time.Millisecond) // without a pause the writer may find no moment to erase its log
	}
}

// TestReadWhileItIsWritten: another process reads a store that is written to, closed and opened again.
func TestReadWhileItIsWritten(t *testing.T) {
	dir, reader := filepath.Join(t.TempDir(), "traces"), trace.NewIdentity()
	cfg := Config{Recipients: []trace.Recipient{reader.Recipient()}}
	s, err := Open(dir, cfg)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), readForever+"="+dir)
	var told, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &told, &complaint
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		id := stored(t, s, strings.Repeat("x", 30000))
		if err := s.Erase(background, id); err != nil {
			t.Fatal(err)
		}
		stored(t, s, "kept")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if s, err = Open(dir, cfg); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(cmd.Process.Kill(), s.Close()); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.Exited() || complaint.Len() > 0 {
		t.Fatalf("it ended by itself: %v, %s", err, complaint.String())
	}
	if n := strings.Count(told.String(), "read"); n < 3 {
		t.Errorf("it was read %d times", n)
	}
}

// writeTraces prints "flushed ID N" when N records were flushed, "stored ID N" when a trace of N records was
// closed, and "erased ID".
func writeTraces(dir string) error {
	to, err := trace.ParseRecipient(os.Getenv(recipientVariable))
	if err != nil {
		return err
	}
	s, err := Open(dir, Config{Recipients: []trace.Recipient{to}})
	if err != nil {
		return err
	}
	failed := make(chan error)
	for n := range 3 {
		go func() {
			rng := rand.New(rand.NewPCG(uint64(os.Getpid()), uint64(n)))
			for {
				w, err := s.Create(background, Info{Principal: "local"})
				if err != nil {
					failed <- err
				}
				id := w.sink.begun.id
				count := 1 + rng.IntN(12)
				for i := range count {
					record := fmt.Sprintf("%s %s %d %s", canary, id, i, strings.Repeat("x", rng.IntN(4000)))
					if err := errors.Join(w.Append([]byte(record)), w.Flush()); err != nil {
						failed <- err
					}
					fmt.Printf("flushed %s %d\n", id, i+1)
				}
				if id, err = w.Close(); err != nil {
					failed <- err
				}
				fmt.Printf("stored %s %d\n", id, count)
				if rng.IntN(8) == 0 {
					if err := s.Erase(background, id); err != nil {
						failed <- err
					}
					fmt.Printf("erased %s\n", id)
				}
			}
		}()
	}
	return <-failed
}

// TestKill kills a process that writes traces at random moments, again and again, and checks that everything it
// printed is there, complete and sealed.
func TestKill(t *testing.T) {
	dir, reader := filepath.Join(t.TempDir(), "traces"), trace.NewIdentity()
	rng := rand.New(rand.NewPCG(7, uint64(time.Now().UnixNano())))
	flushed, acknowledged, erased := map[trace.ID]int{}, map[trace.ID]int{}, map[trace.ID]bool{}
	leastTraces, leastKills := 60, 12
	if os.Getenv("RUNNER_LONG") != "" {
		leastTraces, leastKills = 200, 200
	}
	patience := time.Millisecond // on a busy machine the first trace takes longer than the longest wait
	for kills := 0; kills < leastKills || len(acknowledged) < leastTraces; kills++ {
		if kills == 20*leastKills {
			t.Fatalf("only %d traces were stored", len(acknowledged))
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), writeForever+"="+dir, recipientVariable+"="+reader.Recipient().String())
		var told, complaint bytes.Buffer
		cmd.Stdout, cmd.Stderr = &told, &complaint
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(20+rng.IntN(230)) * patience)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); cmd.ProcessState.Exited() || complaint.Len() > 0 {
			t.Fatalf("it ended by itself: %v, %s", err, complaint.String())
		}
		if !strings.Contains(told.String(), "stored") {
			patience = min(2*patience, 16*time.Millisecond)
		}
		// The kill may have cut the last line, and with it a number.
		whole, _, _ := strings.Cut(told.String()+"\x00", told.String()[strings.LastIndexByte(told.String(), '\n')+1:]+"\x00")
		lines := bufio.NewScanner(strings.NewReader(whole))
		for lines.Scan() {
			var verb string
			var id trace.ID
			var count int
			words := strings.Fields(lines.Text())
			verb = words[0]
			if err := id.UnmarshalText([]byte(words[1])); err != nil {
				t.Fatal(err)
			}
			if len(words) > 2 {
				if _, err := fmt.Sscan(words[2], &count); err != nil {
					t.Fatal(err)
				}
			}
			switch verb {
			case "flushed":
				flushed[id] = count
			case "stored":
				acknowledged[id] = count
			case "erased":
				erased[id] = true
			}
		}
		for path, data := range files(t, filepath.Dir(dir)) {
			if bytes.Contains(data, []byte(canary)) {
				t.Fatalf("%s holds the text", path)
			}
		}
	}
	s := open(t, dir, Config{})
	report := sound(t, s)
	list, err := s.List(background)
	if err != nil {
		t.Fatal(err)
	}
	cut := 0
	for _, e := range list {
		if e.State == StateCut {
			cut++
		}
		if e.State == StateOpen {
			t.Errorf("%s is open", e.ID)
		}
	}
	for id, count := range flushed {
		e, err := s.Get(background, id)
		if err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		if _, ok := acknowledged[id]; e.State == StateErased {
			if !ok {
				t.Errorf("%s was erased before it was stored", id)
			}
			continue
		}
		if erased[id] {
			t.Errorf("%s was erased and is %s", id, e.State)
		}
		records, err := read(t, s, id, reader)
		stored, whole := acknowledged[id]
		switch {
		case whole && (err != nil || e.State != StateComplete || len(records) != stored):
			t.Errorf("%s is %s with %d of %d records, %v", id, e.State, len(records), stored, err)
		case err != nil && (!errors.Is(err, trace.ErrTruncated) || e.State != StateCut):
			t.Errorf("%s is %s: %v", id, e.State, err)
		case len(records) < count:
			t.Errorf("%s: %d records of %d that were flushed", id, len(records), count)
		}
		if i := slices.IndexFunc(records, func(r string) bool { return !strings.Contains(r, id.String()) }); i >= 0 {
			t.Errorf("%s: record %d is of another trace", id, i)
		}
	}
	if cut == 0 {
		t.Error("no kill came within a trace")
	}
	t.Logf("%d traces acknowledged, %d cut, %d erased, %d entries", len(acknowledged), cut, len(erased), report.Entries)
}
