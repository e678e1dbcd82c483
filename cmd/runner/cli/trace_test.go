//go:build unix

package cli

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"runner/cmd/runner/scripttest"
	"runner/reasoning/trace"
	"runner/reasoning/trace/store"
)

func TestTraceScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/trace",
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("GORACE", noRaceDelay)
			e.Setenv("HOME", e.WorkDir+"/home")
			for from, to := range map[string]string{"traces.db": "v1.db", "sign.key": "v1.key"} {
				data, err := os.ReadFile(filepath.Join("../../../reasoning/trace/store/testdata/v1", from))
				if err == nil {
					err = os.WriteFile(filepath.Join(e.WorkDir, to), data, 0o600)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": scripttest.Exits, "storetrace": storeTrace, "keephead": keepHead,
			"cuttail": cutTail, "emptychain": emptyChain, "alterbegin": alterBegin,
		},
	})
}

// storeTrace stores a trace: storetrace FOLDER PUBLICKEYFILE whole|cut VARIABLE RECORD... The variable gets its id.
func storeTrace(ts *testscript.TestScript, _ bool, args []string) {
	to, err := trace.ParseRecipient(strings.TrimSpace(ts.ReadFile(args[1])))
	ts.Check(err)
	s, err := store.Open(ts.MkAbs(args[0]), store.Config{Recipients: []trace.Recipient{to}})
	ts.Check(err)
	defer func() { ts.Check(s.Close()) }()
	w, err := s.Create(context.Background(), store.Info{Principal: "local"})
	ts.Check(err)
	for _, record := range args[4:] {
		ts.Check(w.Append([]byte(record)))
	}
	if args[2] == "cut" {
		ts.Check(w.Flush())
		ts.Check(w.Abandon())
	} else {
		_, err = w.Close()
		ts.Check(err)
	}
	list, err := s.List(context.Background())
	ts.Check(err)
	known := ts.Getenv("KNOWN")
	for _, e := range list {
		if !strings.Contains(known, e.ID.String()) {
			ts.Setenv(args[3], e.ID.String())
			ts.Setenv("KNOWN", known+" "+e.ID.String())
		}
	}
}

// keepHead puts the head that verify printed into a variable.
func keepHead(ts *testscript.TestScript, _ bool, args []string) {
	_, head, ok := strings.Cut(ts.ReadFile("stdout"), "head ")
	if !ok {
		ts.Fatalf("no head was printed")
	}
	ts.Setenv(args[0], strings.TrimSpace(head))
}

// cutTail removes all traces but the first from a store, like someone who can write the file.
func cutTail(ts *testscript.TestScript, _ bool, args []string) {
	alter(ts, args[0], `DELETE FROM pieces WHERE trace IN (SELECT trace FROM chain WHERE number > 2);
		DELETE FROM chain WHERE number > 2`)
}

// emptyChain removes all rows from a store.
func emptyChain(ts *testscript.TestScript, _ bool, args []string) {
	alter(ts, args[0], "DELETE FROM pieces; DELETE FROM chain")
}

// alterBegin changes the entry that begins the second trace of a store.
func alterBegin(ts *testscript.TestScript, _ bool, args []string) {
	alter(ts, args[0], "UPDATE chain SET model = 'another' WHERE number = 3")
}

func alter(ts *testscript.TestScript, dir, statements string) {
	db, err := sql.Open("sqlite", filepath.Join(ts.MkAbs(dir), "traces.db"))
	ts.Check(err)
	defer func() { ts.Check(db.Close()) }()
	_, err = db.Exec(statements)
	ts.Check(err)
}

// TestChatIsTraced: a chat prints the id of the trace of each turn, even if the turn is stopped.
func TestChatIsTraced(t *testing.T) {
	data := t.TempDir()
	env := []string{"XDG_DATA_HOME=" + data, passphraseVariable + "=correct horse"}
	tt := start(t, env, "trace", "keys", "new")
	tt.expect("rtrace1-")
	<-tt.done
	tt = start(t, env, "run", "--trace")
	var ids []string
	for _, text := range []string{"echo one", "slow"} {
		tt.enter(text)
		if text != "echo one" {
			tt.expect("working")
			tt.send("\x03")
		}
		tt.expect("trace ")
		ids = append(ids, strings.TrimRight(tt.expect("\x1b"), "\x1b"))
	}
	tt.expect(emptyPrompt)
	tt.send("\x04")
	<-tt.done
	s, err := store.Open(filepath.Join(data, "runner", "traces"), store.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	list, err := s.List(t.Context())
	if err != nil || len(list) != len(ids) {
		t.Fatalf("%+v, %v", list, err)
	}
	for i, e := range list {
		if e.ID.String() != ids[i] || e.State != store.StateComplete {
			t.Errorf("turn %d: %s printed, stored %+v", i, ids[i], e)
		}
	}
}

// TestPassphraseIsNotShown: a terminal does not show passphrases that are typed.
func TestPassphraseIsNotShown(t *testing.T) {
	const phrase = "correct horse battery"
	tt := start(t, []string{"XDG_DATA_HOME=" + t.TempDir()}, "trace", "keys", "new")
	tt.expect("Passphrase: ")
	tt.send(phrase + "\r")
	tt.expect("Once more: ")
	tt.send(phrase + "\r")
	tt.expect("rtrace1-")
	if err := tt.cmd.Wait(); err != nil {
		t.Error(err)
	}
	<-tt.done
	if strings.Contains(tt.text, phrase[:4]) {
		t.Errorf("the passphrase was shown: %q", tt.text)
	}
	tt = start(t, []string{"XDG_DATA_HOME=" + t.TempDir()}, "trace", "keys", "new")
	tt.expect("Passphrase: ")
	tt.send(phrase + "\r")
	tt.expect("Once more: ")
	tt.send("another\r")
	tt.expect("the passphrases differ; type the same twice")
}
