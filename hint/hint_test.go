package hint

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
)

func TestOf(t *testing.T) {
	kind := New("it is too large", "choose a smaller one")
	whole := &Error{Name: "not_there", Text: "there is no file", Advice: "check the name", Err: fs.ErrNotExist}
	type own struct {
		Advice
		error
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, ""}, {errors.New("bare"), ""}, {kind, "choose a smaller one"},
		{fmt.Errorf("model: %w: 12 GB", kind), "choose a smaller one"}, {fmt.Errorf("model: %w", whole), "check the name"},
		{own{"look again", kind}, "look again"}, {&Error{Text: "no advice", Err: kind}, ""},
	} {
		if got := Of(c.err); got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
	var e *Error
	if err := fmt.Errorf("model: %w", whole); !errors.Is(err, fs.ErrNotExist) || !errors.As(err, &e) ||
		e.Name != "not_there" || err.Error() != "model: there is no file" {
		t.Errorf("%v", err)
	}
	if errors.Is(New("it is too large", "choose a smaller one"), kind) {
		t.Error("two errors with the same text are equal")
	}
}
