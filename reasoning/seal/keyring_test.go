package seal

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestRotation(t *testing.T) {
	r := NewKeyring()
	first := r.IDs()[0]
	old := mustSeal(t, r, home, "old")
	second := r.Rotate(MaxKeys)
	middle := mustSeal(t, r, home, "middle")
	third := r.Rotate(2)
	if got := r.IDs(); !slices.Equal(got, []string{third, second, first}) {
		t.Fatalf("ids %v", got)
	}
	mustOpen(t, r, home, old, "old")
	mustOpen(t, r, home, middle, "middle")

	if r.Drop(third) == nil || r.Drop("") == nil || r.Drop("0123456789abcdef") == nil {
		t.Error("the current key or an unknown one is dropped")
	}
	if err := r.Drop(first); err != nil {
		t.Fatal(err)
	}
	mustRefuse(t, r, home, old, ErrUnknownKey)
	mustRefuse(t, r, Scope{Principal: "x", Model: Model{Digest: "x"}}, old, ErrUnknownKey)
	mustOpen(t, r, home, middle, "middle")

	r.Rotate(0)
	mustRefuse(t, r, home, middle, ErrUnknownKey)
	for range MaxKeys + 10 {
		r.Rotate(MaxKeys + 10)
	}
	if n := len(r.IDs()); n != MaxKeys {
		t.Errorf("%d keys are held", n)
	}
	r.Rotate(-1)
	if n := len(r.IDs()); n != 1 {
		t.Errorf("%d keys are held after keeping less than none", n)
	}
}

func TestReplace(t *testing.T) {
	r, next := NewKeyring(), NewKeyring()
	old, theirs := mustSeal(t, r, home, "old"), mustSeal(t, next, home, "new")
	mustRefuse(t, r, home, theirs, ErrUnknownKey)
	r.Replace(next)
	mustOpen(t, r, home, theirs, "new")
	mustRefuse(t, r, home, old, ErrUnknownKey)
	next.Rotate(0)
	mustOpen(t, r, home, theirs, "new")
}

func TestZeroKeyring(t *testing.T) {
	var r Keyring
	if _, err := r.Seal(home, "text"); !errors.Is(err, ErrNoKey) {
		t.Error(err)
	}
	mustRefuse(t, &r, home, mustSeal(t, NewKeyring(), home, "text"), ErrUnknownKey)
	if len(r.IDs()) != 0 || r.String() == "" {
		t.Errorf("%v: %v", r.IDs(), r.String())
	}
	id := r.Rotate(1)
	if got := r.IDs(); !slices.Equal(got, []string{id}) {
		t.Error(got)
	}
}

func TestKeysAreNeverPrinted(t *testing.T) {
	r := NewKeyring()
	r.Rotate(1)
	type server struct {
		Keys  *Keyring
		inner *Keyring
	}
	s := server{r, r}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%b", "%o", "%c", "%U", "%t", "%p"} {
		if got := fmt.Sprintf(verb, r); got != r.String() && verb != "%p" {
			t.Errorf("%s prints %s", verb, got)
		}
		for _, v := range []any{r, s, &s, []*Keyring{r}, map[string]*Keyring{"keys": r}} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
	}
	fmt.Fprintln(&out, r, r.String(), r.GoString(), s.inner)
	fmt.Fprintln(&out, fmt.Errorf("keys %v", r), r.Drop(r.IDs()[0]), r.Drop("x"))
	for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(h).Info("keys", "ring", r, "in", s, "group", slog.GroupValue(slog.Any("ring", r)))
	}
	for _, v := range []any{r, s, &s, map[string]*Keyring{"keys": r}} {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(data)
	}
	text := out.String()
	if strings.Count(text, r.IDs()[0]) < 20 {
		t.Errorf("what was printed does not name the keyring:\n%s", text)
	}
	for _, k := range r.held() {
		for _, half := range [][]byte{k.secret[:12], k.secret[12:24]} {
			decimal := strings.Trim(fmt.Sprintf("%d", half), "[]")
			for _, spelled := range []string{
				string(half), hex.EncodeToString(half), strings.ToUpper(hex.EncodeToString(half)),
				base64.RawURLEncoding.EncodeToString(half), base64.RawStdEncoding.EncodeToString(half),
				decimal, strings.ReplaceAll(decimal, " ", ","),
			} {
				if strings.Contains(text, spelled) {
					t.Errorf("a key is printed:\n%s", text)
				}
			}
		}
	}
}

func TestDigestsAreNeverPrinted(t *testing.T) {
	s := Scope{Principal: "key-7", Model: Model{Digest: "m"}, Conversation: ConversationID("thread", "yes")}
	q := QuestionOf("yes")
	turn := NewKeyring().Begin(s, q)
	data, err := json.Marshal([]any{s, q, turn})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	out.Write(data)
	for _, verb := range []string{"%v", "%+v", "%#v", "%x", "%d", "%s"} {
		fmt.Fprintf(&out, strings.Repeat(verb, 5), s, &s, s.Conversation, q, turn)
	}
	for _, d := range [][32]byte{s.Conversation.digest, q.digest, turn.key.secret} {
		for _, spelled := range []string{hex.EncodeToString(d[:6]), strings.Trim(fmt.Sprintf("%d", d[:6]), "[]"),
			fmt.Sprintf("%#x, %#x", d[0], d[1])} {
			if strings.Contains(out.String(), spelled) {
				t.Errorf("a digest is printed: %s", out.String())
			}
		}
	}
}

// With -race: sealing and opening go on while keys are added and removed.
func TestConcurrentUse(t *testing.T) {
	r := NewKeyring()
	stable := mustSeal(t, r, home, "stable")
	stop := make(chan struct{})
	var users, writers sync.WaitGroup
	for g := range 4 {
		users.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				text := fmt.Sprint(g, i)
				value, err := r.Seal(home, text)
				if err != nil {
					t.Error(err)
					return
				}
				// Its key may have been dropped meanwhile.
				if got, err := r.Open(home, value); err == nil && got != text || err != nil && !errors.Is(err, ErrUnknownKey) {
					t.Errorf("%q, %v", got, err)
					return
				}
				fmt.Fprint(io.Discard, r)
			}
		})
	}
	for range 2 {
		writers.Go(func() {
			for range 200 {
				r.Rotate(5)
				if ids := r.IDs(); len(ids) > 1 {
					_ = r.Drop(ids[len(ids)-1]) // it may be gone already
				}
			}
		})
	}
	writers.Go(func() {
		for range 50 {
			r.Replace(NewKeyring())
		}
	})
	writers.Wait()
	close(stop)
	users.Wait()
	mustRefuse(t, r, home, stable, ErrUnknownKey)
	if n := len(r.IDs()); n < 1 || n > 6 {
		t.Errorf("%d keys are left", n)
	}
}
