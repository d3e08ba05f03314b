package host

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestEveryFindingIsKnown runs all fake hosts: what they say must be in the
// catalogue, and nothing may stand there that no probe says.
func TestEveryFindingIsKnown(t *testing.T) {
	said := map[string]bool{}
	for _, c := range hostCases {
		last := 0
		for _, f := range run(c) {
			said[f.ID] = true
			at := slices.IndexFunc(Catalog(), func(e Entry) bool { return e.matches(f.ID) })
			// The controllers that are told of beside the needed ones are of a family.
			if at < last && !Catalog()[max(at, 0)].Cause {
				t.Errorf("%s: %s comes after %s", c.name, f.ID, Catalog()[last].ID)
			}
			last = max(last, at)
			if !Known(f.ID) || (f.Cause != "" && !Known(f.Cause)) {
				t.Errorf("%s: %q, %q is not in the catalogue", c.name, f.ID, f.Cause)
			}
		}
	}
	for _, e := range Catalog() {
		if e.Run || e.Cause {
			continue
		}
		if !slices.ContainsFunc(keys(said), e.matches) {
			t.Errorf("%s: no probe says it", e.ID)
		}
	}
	if Known("cgroup.delegation.") || Known("cgroup.delegation.cpu.x") || Known("userns.max.x") || Known("userns") || Known("") {
		t.Error("the catalogue knows what it shouldn't")
	}
}

func keys(m map[string]bool) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	return out
}

// reasons collects, from the sources of a package, the strings that become the
// reason of a refusal: a whole id, or the beginning of one ("pid1." + stage),
// which then ends in a dot. Expressions that pass an id on are named in pass.
func reasons(t *testing.T, dir, field, variable string, pass ...string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no sources: %v", dir, err)
	}
	var out []string
	fset := token.NewFileSet()
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		take := func(e ast.Expr) {
			left := e
			if b, ok := e.(*ast.BinaryExpr); ok && b.Op == token.ADD {
				left = b.X
			}
			if l, ok := left.(*ast.BasicLit); ok && l.Kind == token.STRING {
				s, err := strconv.Unquote(l.Value)
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, s)
				return
			}
			if text := source(t, fset, e); !slices.Contains(pass, text) {
				t.Errorf("%s: reason from %s: which ids can that be?", fset.Position(e.Pos()), text)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				for _, el := range n.Elts {
					kv, ok := el.(*ast.KeyValueExpr)
					if !ok {
						continue
					}
					if k, ok := kv.Key.(*ast.Ident); ok && k.Name == field && ofType(n, "Error", "Unavailable", "Reason") {
						take(kv.Value)
					}
				}
			case *ast.AssignStmt:
				for i, l := range n.Lhs {
					sel, isField := l.(*ast.SelectorExpr)
					id, isVar := l.(*ast.Ident)
					if (isField && sel.Sel.Name == field) || (isVar && variable != "" && id.Name == variable) {
						take(n.Rhs[min(i, len(n.Rhs)-1)])
					}
				}
			}
			return true
		})
	}
	return out
}

func ofType(c *ast.CompositeLit, names ...string) bool {
	switch typ := c.Type.(type) {
	case *ast.Ident:
		return slices.Contains(names, typ.Name)
	case *ast.SelectorExpr:
		return slices.Contains(names, typ.Sel.Name)
	}
	return false
}

func source(t *testing.T, fset *token.FileSet, e ast.Expr) string {
	p, q := fset.Position(e.Pos()), fset.Position(e.End())
	b, err := os.ReadFile(p.Filename)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[p.Offset:q.Offset])
}

// TestReasonsOfRefusals holds the reasons that a run can give against the
// catalogue: whoever reads one must find it in doctor's output or in the page.
func TestReasonsOfRefusals(t *testing.T) {
	var all []string
	// f.ID is one of our own findings', u.ID the cgroup package's, why.ID the
	// apparmor package's.
	launch := reasons(t, "../launch", "Reason", "", "f.ID", "u.ID", "why.ID")
	all = append(all, reasons(t, "../apparmor", "ID", "")...)
	all = append(all, launch...)
	// What is added to id is "." + a controller.
	groups := reasons(t, "../../cgroup", "ID", "id", "id", `strings.Cut(line, ":")`)
	all = append(all, groups...)
	all = append(all, reasons(t, "../usermanager", "ID", "")...)
	all = append(all, reasons(t, "../session", "Reason", "")...)
	all = append(all, reasons(t, "../audit", "Reason", "")...)
	all = append(all, reasons(t, "../../policy", "Reason", "")...)
	all = append(all, reasons(t, "../../cmd/jailer", "Reason", "")...)
	if len(launch) < 10 || len(groups) < 8 {
		t.Fatalf("found only %q and %q: does the test still see them?", launch, groups)
	}
	for _, r := range all {
		switch {
		case r == ".":
		case strings.HasSuffix(r, "."):
			if !slices.ContainsFunc(Catalog(), func(e Entry) bool { p, ok := e.family(); return ok && p == r }) {
				t.Errorf("reasons %s…: no such family in the catalogue", r)
			}
		case !Known(r):
			t.Errorf("reason %q: not in the catalogue", r)
		}
	}
	// The other way round: no cause and no run-time reason that nobody gives.
	for _, e := range Catalog() {
		if !e.Run && !e.Cause {
			continue
		}
		prefix, family := e.family()
		if !slices.ContainsFunc(all, func(r string) bool {
			return e.matches(r) || (family && (r == prefix || r+"." == prefix))
		}) {
			t.Errorf("%s: nothing gives this reason", e.ID)
		}
	}
}

// TestPage holds docs/host-setup.md against the catalogue: a section for each
// id, in the same order, with something to type or to write in it.
func TestPage(t *testing.T) {
	b, err := os.ReadFile("../../docs/host-setup.md")
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	heading := regexp.MustCompile("(?m)^### `([^`]+)`$")
	text := string(b)
	at := heading.FindAllStringSubmatchIndex(text, -1)
	for i, m := range at {
		id := text[m[2]:m[3]]
		got = append(got, id)
		end := len(text)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		if strings.Count(text[m[1]:end], "\n```") < 2 {
			t.Errorf("%s: no block with what mends it", id)
		}
	}
	for _, e := range Catalog() {
		want = append(want, e.ID)
	}
	if !slices.Equal(got, want) {
		for _, id := range want {
			if !slices.Contains(got, id) {
				t.Errorf("no section for %s", id)
			}
		}
		for _, id := range got {
			if !slices.Contains(want, id) {
				t.Errorf("section %s is about nothing", id)
			}
		}
		if !t.Failed() {
			t.Errorf("another order: %q, want %q", got, want)
		}
	}
	if strings.Contains(text, "TODO") {
		t.Error("unfinished")
	}
}
