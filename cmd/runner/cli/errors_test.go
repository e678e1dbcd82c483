package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// Every error about the command line or about a file says what to do. The compiler asks for a hint, and this test for
// one that says something.
func TestErrorsHaveHints(t *testing.T) {
	var paths []string
	for _, pattern := range []string{"*.go", "../../../*/room/*.go", "../../../*/*/room/*.go",
		"../../../*/*/*/room/*.go"} {
		some, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, some...)
	}
	found := 0
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || method.Sel.Name != "Hint" || len(call.Args) == 0 {
				return true
			}
			found++
			if text, ok := call.Args[0].(*ast.BasicLit); !ok || len(text.Value) < len(`"%s"`) {
				t.Errorf("%v: an error without a hint", files.Position(call.Pos()))
			}
			return true
		})
	}
	if found < 100 {
		t.Errorf("only %d errors were found", found)
	}
}
