// Command racers lists the packages in which the race detector can find something, or with -v those in which it cannot:
//
//	go run ./scripts/racers [-v] PACKAGE...
//
// The race detector makes tests slow, and finds nothing where only one goroutine runs. A package is left out if its
// code, its tests and all packages of this module that they use start no goroutine, neither by themselves nor through
// the standard library.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

func main() {
	without := flag.Bool("v", false, "list the packages in which it finds nothing")
	flag.Parse()
	if err := list(os.Stdout, *without, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "racers:", err)
		os.Exit(1)
	}
}

// listed is what go list says about a package.
type listed struct {
	Dir, ImportPath                              string
	Standard                                     bool
	Module                                       *struct{ Main bool }
	GoFiles, CgoFiles, TestGoFiles, XTestGoFiles []string
	Deps, Imports, TestImports, XTestImports     []string
}

// list writes the names of packages.
func list(to io.Writer, without bool, patterns []string) error {
	packages, err := golist(patterns)
	if err != nil {
		return err
	}
	all, err := golist(append([]string{"-deps", "-test"}, patterns...))
	if err != nil {
		return err
	}
	concurrent := map[string]bool{} // the code of the module's packages, without tests
	deps := map[string][]string{}
	for _, p := range all {
		if p.Standard || p.Module == nil || !p.Module.Main || strings.Contains(p.ImportPath, " ") ||
			strings.HasSuffix(p.ImportPath, ".test") {
			continue
		}
		if concurrent[p.ImportPath], err = starts(p.Dir, p.GoFiles, p.CgoFiles); err != nil {
			return err
		}
		deps[p.ImportPath] = p.Deps
	}
	uses := func(imports []string) bool {
		for _, i := range imports {
			if concurrent[i] {
				return true
			}
			for _, d := range deps[i] {
				if concurrent[d] {
					return true
				}
			}
		}
		return false
	}
	for _, p := range packages {
		tests, err := starts(p.Dir, p.TestGoFiles, p.XTestGoFiles)
		if err != nil {
			return err
		}
		races := tests || concurrent[p.ImportPath] || uses(p.Imports) || uses(p.TestImports) || uses(p.XTestImports)
		if races != without {
			fmt.Fprintln(to, p.ImportPath)
		}
	}
	return nil
}

func golist(arguments []string) ([]listed, error) {
	cmd := exec.Command("go", append([]string{"list", "-json"}, arguments...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var packages []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
}

// starts reports whether one of the files can start a goroutine.
func starts(dir string, files ...[]string) (bool, error) {
	for _, names := range files {
		for _, name := range names {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				return false, err
			}
			if concurrent(f) {
				return true, nil
			}
		}
	}
	return false, nil
}

// starters are names of functions and methods that call a function in another goroutine. packages are those whose
// functions may do so.
var (
	starters = map[string]bool{"Go": true, "Parallel": true, "RunParallel": true, "AfterFunc": true, "Notify": true,
		"NotifyContext": true, "SetFinalizer": true, "AddCleanup": true}
	packages = map[string]bool{"net/http": true, "net/http/httptest": true, "os/exec": true, "net/rpc": true,
		"testing/synctest": true, "C": true}
)

// concurrent reports whether a file can start a goroutine.
func concurrent(f *ast.File) bool {
	for _, i := range f.Imports {
		path, err := strconv.Unquote(i.Path.Value)
		if err != nil || packages[path] || strings.HasPrefix(path, "golang.org/x/sync/") {
			return true
		}
	}
	found := false
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = true
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && starters[s.Sel.Name] {
				found = true
			}
		}
		return !found
	})
	return found
}
