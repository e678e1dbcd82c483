package conversation

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"runner/chattemplate"
	"runner/reasoning/trace"
)

func TestKeep(t *testing.T) {
	mine, other := trace.NewIdentity(), trace.NewIdentity()
	to := []trace.Recipient{mine.Recipient()}
	path := filepath.Join(t.TempDir(), "data", "conversation.sealed")
	if _, err := Open(path, mine); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, want fs.ErrNotExist", err)
	}
	whole := talk()
	first := fromMessages(append(slices.Clone(whole.System), whole.Turns[0].Messages...))
	for _, c := range []Conversation{whole, first} { // the second takes the first's place
		k := Kept{Conversation: c, Model: "demo", Saved: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
		if err := k.Keep(path, to); err != nil {
			t.Fatal(err)
		}
		if got, err := Open(path, other, mine); err != nil || !reflect.DeepEqual(got, &k) {
			t.Errorf("%+v, %v, want %+v", got, err, k)
		}
	}
	list, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(list) != 1 {
		t.Errorf("the folder has %v, %v", list, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if _, err := Open(path, other); !errors.Is(err, trace.ErrNotRecipient) {
		t.Errorf("%v, want ErrNotRecipient", err)
	}
	blob, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"kind", "demo", "17 + 25", "messages", "conversation"} {
		if bytes.Contains(blob, []byte(text)) {
			t.Errorf("%q is in the file", text)
		}
	}
	refuse := func(what string, blob []byte, want error) {
		t.Helper()
		if err := os.WriteFile(path, blob, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path, mine); err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	refuse("a cut file", blob[:len(blob)-1], trace.ErrTruncated)
	altered := bytes.Clone(blob)
	altered[len(altered)-1] ^= 1
	refuse("an altered file", altered, trace.ErrTampered)
	refuse("an empty file", nil, nil)
	var foreign bytes.Buffer
	w, err := trace.NewWriter(&foreign, trace.NewID(), to)
	if err := errors.Join(err, w.Append([]byte(`{"kind":"begin"}`)), w.Append([]byte(`{}`)), w.Close()); err != nil {
		t.Fatal(err)
	}
	refuse("a trace", foreign.Bytes(), nil)
	if err := errors.Join(os.WriteFile(path, blob, 0o600), os.Chmod(path, 0o620)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, mine); !errors.Is(err, errExposed) {
		t.Errorf("a file that others can write: %v", err)
	}
}

// What cannot be kept leaves the file as it was.
func TestKeepInVain(t *testing.T) {
	mine := trace.NewIdentity()
	path := filepath.Join(t.TempDir(), "conversation.sealed")
	k := Kept{Conversation: talk(), Model: "demo"}
	if err := k.Keep(path, []trace.Recipient{mine.Recipient()}); err != nil {
		t.Fatal(err)
	}
	long := Kept{Conversation: fromMessages([]chattemplate.Message{
		{Role: chattemplate.User, Content: strings.Repeat("x", MaxBytes)}})}
	err := long.Keep(path, []trace.Recipient{mine.Recipient()})
	if err == nil || err.Error() != "it is larger than 16 MiB" {
		t.Error(err)
	}
	if err := k.Keep(path, nil); !errors.Is(err, trace.ErrRecipients) {
		t.Errorf("%v, want ErrRecipients", err)
	}
	if got, err := Open(path, mine); err != nil || len(got.Messages()) != 7 {
		t.Errorf("%+v, %v", got, err)
	}
	if list, err := os.ReadDir(filepath.Dir(path)); err != nil || len(list) != 1 {
		t.Errorf("the folder has %v, %v", list, err)
	}
}
