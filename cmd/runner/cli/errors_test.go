package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every error about the command line or about a file says what to do.
func TestErrorsHaveHints(t *testing.T) {
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
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
			literal, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			if name, ok := literal.Type.(*ast.Ident); !ok || name.Name != "usageError" && name.Name != "inputError" {
				return true
			}
			found++
			hinted := slices.ContainsFunc(literal.Elts, func(e ast.Expr) bool {
				field, ok := e.(*ast.KeyValueExpr)
				if !ok {
					return len(literal.Elts) >= 2 // fields by place: what, hint, err
				}
				key, ok := field.Key.(*ast.Ident)
				return ok && key.Name == "hint"
			})
			if !hinted {
				t.Errorf("%v: an error without a hint", files.Position(literal.Pos()))
			}
			return true
		})
	}
	if found < 100 {
		t.Errorf("only %d errors were found", found)
	}
}
