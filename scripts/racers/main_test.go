package main

import (
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

func TestConcurrent(t *testing.T) {
	for body, want := range map[string]bool{
		`func f() { g() }`:                         false,
		`func f() { go g() }`:                      true,
		`func f() { x := func() { go g() }; x() }`: true,
		`func f(t *testing.T) { t.Parallel() }`:    true,
		`func f(w *sync.WaitGroup) { w.Go(g) }`:    true,
		`func f() { context.AfterFunc(c, g) }`:     true,
		`import "net/http"`:                        true,
		`import x "os/exec"`:                       true,
		`import "golang.org/x/sync/errgroup"`:      true,
		`import "sync"`:                            false,
		`// go g()`:                                false,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "f.go", "package p\n"+body, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := concurrent(f); got != want {
			t.Errorf("%s: %v", body, got)
		}
	}
}

// TestList lists packages of which both sides are known: drafts start no goroutine, the runner's scheduler is one, and
// the packages of the server use it.
func TestList(t *testing.T) {
	all := []string{"runner/runner", "runner/runner/drafts", "runner/grammar/gbnf", "runner/server"}
	list := func(without bool) []string {
		var out strings.Builder
		if err := list(&out, without, all); err != nil {
			t.Fatal(err)
		}
		return strings.Fields(out.String())
	}
	with, without := list(false), list(true)
	slices.Sort(with)
	slices.Sort(without)
	if !slices.Equal(with, []string{"runner/runner", "runner/server"}) ||
		!slices.Equal(without, []string{"runner/grammar/gbnf", "runner/runner/drafts"}) {
		t.Errorf("the race detector is for %v, and not for %v", with, without)
	}
}
