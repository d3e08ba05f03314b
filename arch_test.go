package jailer_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/jailer-project/jailer"

// imports is the table of docs/design.md: the packages of ours that a package
// may import. Imports run downwards only. A package that is not in the table
// is an error: say where it stands before it is used.
var imports = map[string][]string{
	"limits":               {},
	"internal/strictjson":  {},
	"internal/jailpath":    {},
	".":                    {"limits", "internal/strictjson", "internal/jailpath", "internal/stream", "internal/wire", "internal/artifact", "internal/files", "internal/remotefs"},
	"profiles":             {},
	"policy":               {".", "limits", "profiles", "internal/jailpath", "internal/strictjson"},
	"seccomp":              {"profiles", "internal/strictjson"},
	"seccomp/bpf":          {"seccomp"},
	"seccomp/bpf/gen":      {"seccomp", "seccomp/bpf"},
	"seccomp/compiled":     {},
	"netns":                {},
	"rootfs":               {},
	"spec":                 {"limits", "seccomp", "netns", "rootfs"},
	"cgroup":               {"limits"},
	"internal/boottime":    {},
	"internal/container":   {},
	"internal/trust":       {},
	"internal/apparmor":    {"profiles", "internal/trust"},
	"internal/pid1":        {},
	"internal/ring":        {},
	"internal/stream":      {},
	"internal/seed":        {".", "limits", "policy", "internal/jailpath"},
	"internal/audit":       {".", "internal/stream", "internal/trust"},
	"internal/state":       {"cgroup", "internal/audit"},
	"internal/host":        {".", "cgroup", "limits", "netns", "seccomp", "internal/apparmor", "internal/audit", "internal/trust"},
	"internal/access":      {".", "policy", "internal/audit", "internal/strictjson", "internal/trust"},
	"internal/hostdir":     {"internal/trust"},
	"internal/terminal":    {},
	"internal/usermanager": {},
	"internal/launch": {
		".", "limits", "policy", "spec", "cgroup", "seccomp", "seccomp/bpf", "seccomp/compiled", "netns", "rootfs",
		"profiles", "internal/audit", "internal/container", "internal/host", "internal/pid1", "internal/state", "internal/stream", "internal/strictjson",
		"internal/terminal", "internal/usermanager", "internal/apparmor", "internal/boottime", "internal/seed", "internal/workspace",
		"internal/files", "internal/artifact", "internal/asuser", "internal/jailpath", "internal/access", "internal/hostdir",
	},
	"internal/wire":      {},
	"internal/files":     {"internal/jailpath"},
	"internal/artifact":  {"internal/files", "internal/jailpath"},
	"internal/asuser":    {},
	"internal/workspace": {".", "internal/files", "internal/trust"},
	"internal/remotefs":  {"internal/artifact", "internal/asuser", "internal/files", "internal/jailpath", "internal/wire"},
	"internal/session": {
		".", "limits", "policy", "internal/audit", "internal/boottime", "internal/launch", "internal/ring", "internal/state", "internal/stream",
		"internal/terminal", "internal/wire", "internal/files", "internal/remotefs", "internal/access", "internal/jailpath",
	},
	"cmd/jailer": {"*"},
}

// only says who may import a package of others.
var only = map[string][]string{
	"github.com/opencontainers/runc":             {"internal/container"},
	"github.com/opencontainers/cgroups":          {"internal/container"},
	"github.com/containerd/cgroups":              {"cgroup"},
	"github.com/seccomp/libseccomp-golang":       {"seccomp/bpf"},
	"github.com/sirupsen/logrus":                 {"internal/container"},
	"github.com/spf13/cobra":                     {"cmd/jailer"},
	"github.com/godbus/dbus":                     {"internal/usermanager"},
	"github.com/coreos/go-systemd":               {},
	"github.com/pelletier/go-toml":               {"policy"},
	"C":                                          {},
	"github.com/rogpeppe/go-internal/testscript": {},
	"github.com/opencontainers/runtime-spec":     {"spec", "seccomp", "seccomp/bpf", "internal/container", "internal/launch", "cgroup"},
	"net":                                        {"netns"},
	"net/http":                                   {},
}

// banned calls, with the reason. A file of the list is the exception.
var banned = []struct {
	call, why string
	except    []string
}{
	{"os.Create", "follows links and truncates: use O_NOFOLLOW or os.Root where others can write", nil},
	{"os.IsNotExist", "doesn't unwrap: errors.Is(err, fs.ErrNotExist)", nil},
	{"os.IsExist", "doesn't unwrap: errors.Is(err, fs.ErrExist)", nil},
	{"exec.LookPath", "searches the caller's PATH: name the program by its path", nil},
	{"fmt.Print", "library code has no standard output; a jail's output is bytes of a stranger", nil},
	{"fmt.Println", "library code has no standard output", nil},
	{"fmt.Printf", "library code has no standard output", nil},
	{"os.MkdirAll", "makes parents of any owner: make one directory below a checked one", nil},
	{"os.Chmod", "follows links: chmod the descriptor", nil},
	{"os.Chown", "follows links: chown the descriptor", nil},
	{"ioutil.ReadAll", "deprecated and unbounded", nil},
}

type source struct {
	dir  string // of the package, from the module root
	path string
	file *ast.File
	test bool
}

func parseAll(t *testing.T) []source {
	t.Helper()
	var out []source
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == "bin" || (p != "." && strings.HasPrefix(d.Name(), "."))) {
			return fs.SkipDir
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		f, err := parser.ParseFile(fset, p, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		out = append(out, source{filepath.ToSlash(filepath.Dir(p)), p, f, strings.HasSuffix(p, "_test.go")})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func isTestTree(dir string) bool { return dir == "test" || strings.HasPrefix(dir, "test/") }

func TestImportTable(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range parseAll(t) {
		if isTestTree(s.dir) || s.test || s.dir == "tools" {
			continue
		}
		seen[s.dir] = true
		allowed, ok := imports[s.dir]
		if !ok {
			t.Errorf("%s: package %s is not in the import table of docs/design.md", s.path, s.dir)
			continue
		}
		for _, im := range s.file.Imports {
			path, _ := strconv.Unquote(im.Path.Value)
			rel, ours := strings.CutPrefix(path, module)
			if !ours {
				checkForeign(t, s, path)
				continue
			}
			rel = strings.TrimPrefix(rel, "/")
			if rel == "" {
				rel = "."
			}
			if !slices.Contains(allowed, rel) && !slices.Contains(allowed, "*") {
				t.Errorf("%s: %s may not import %s", s.path, s.dir, rel)
			}
		}
	}
	for dir := range imports {
		if !seen[dir] {
			t.Errorf("the import table names %s, which has no Go file", dir)
		}
	}
}

func checkForeign(t *testing.T, s source, path string) {
	t.Helper()
	for prefix, who := range only {
		if path != prefix && !strings.HasPrefix(path, prefix+"/") {
			continue
		}
		if prefix == "net" && path != "net" {
			continue
		}
		if !slices.Contains(who, s.dir) {
			t.Errorf("%s: only %v may import %s", s.path, who, prefix)
		}
	}
}

func TestPackageComments(t *testing.T) {
	comments := map[string]int{}
	for _, s := range parseAll(t) {
		if s.test || strings.HasSuffix(s.file.Name.Name, "_test") {
			continue
		}
		if _, ok := comments[s.dir]; !ok {
			comments[s.dir] = 0
		}
		if s.file.Doc != nil {
			comments[s.dir]++
		}
	}
	for dir, n := range comments {
		if n != 1 {
			t.Errorf("package %s has %d package comments, want one", dir, n)
		}
	}
}

func TestBannedCalls(t *testing.T) {
	for _, s := range parseAll(t) {
		if s.test || isTestTree(s.dir) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			c, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			name := callName(c)
			for _, b := range banned {
				if name == b.call && !slices.Contains(b.except, s.path) {
					t.Errorf("%s: %s: %s", s.path, b.call, b.why)
				}
			}
			if (name == "filepath.Join" || name == "path.Join") && s.dir != "rootfs" && joinsRoot(c) {
				t.Errorf("%s: joining a root with a path is rootfs's alone: a link in it would lead outside", s.path)
			}
			return true
		})
	}
}

func callName(c *ast.CallExpr) string {
	sel, ok := c.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	x, ok := sel.X.(*ast.Ident)
	if !ok {
		return ""
	}
	return x.Name + "." + sel.Sel.Name
}

// joinsRoot tells filepath.Join(rootfs, x) and the like from harmless joins.
func joinsRoot(c *ast.CallExpr) bool {
	if len(c.Args) < 2 {
		return false
	}
	var name string
	switch a := c.Args[0].(type) {
	case *ast.Ident:
		name = a.Name
	case *ast.SelectorExpr:
		name = a.Sel.Name
	}
	name = strings.ToLower(name)
	return name == "root" || name == "rootfs" || name == "rootpath"
}

// TestStepsAreDocumented compares the steps of a run with the numbered list of
// docs/design.md, so that neither can drift.
func TestStepsAreDocumented(t *testing.T) {
	code, err := os.ReadFile("internal/launch/launch.go")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("docs/design.md")
	if err != nil {
		t.Fatal(err)
	}
	var steps, listed []string
	for line := range strings.Lines(string(code)) {
		if f := strings.TrimSpace(line); strings.HasPrefix(f, `{"`) && strings.HasSuffix(f, "},") {
			steps = append(steps, strings.Split(f, `"`)[1])
		}
	}
	for line := range strings.Lines(string(doc)) {
		n, rest, ok := strings.Cut(line, ". **")
		if _, err := strconv.Atoi(n); ok && err == nil {
			name, _, _ := strings.Cut(rest, "**")
			listed = append(listed, name)
		}
	}
	if len(steps) == 0 || !slices.Equal(steps, listed) {
		t.Errorf("internal/launch does %v, docs/design.md lists %v", steps, listed)
	}
}
