package docs_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"

	"github.com/jailer-project/jailer/limits"
	"github.com/jailer-project/jailer/policy"
	"github.com/jailer-project/jailer/profiles"
)

// ids are the rules that docs/guarantees.md answers, one row each.
var ids = func() (out []string) {
	for _, g := range []struct {
		letter string
		n      int
	}{{"W", 5}, {"T", 6}, {"C", 6}, {"R", 6}, {"L", 6}, {"P", 6}, {"O", 8}, {"S", 4}} {
		for i := range g.n {
			out = append(out, fmt.Sprint(g.letter, i+1))
		}
	}
	return out
}()

// states are the words of the column “state”. The value says whether a row with
// it has to name a test.
var states = map[string]bool{"yes": true, "in part": true, "not yet": false, "guidance": false}

var (
	row  = regexp.MustCompile(`^\| ([A-Z][0-9]+) \|(.*)\|$`)
	code = regexp.MustCompile("`([^`]+)`")
	// A test is named by its package's directory, its name and, if it is one row
	// of a table, that row's.
	named = regexp.MustCompile(`^([a-z0-9/.]+) ((?:Test|Fuzz|Example)[A-Za-z0-9_]*)(?:/(.+))?$`)
)

func TestGuarantees(t *testing.T) {
	text := read(t, "guarantees.md")
	var found []string
	tests := 0
	for line := range strings.Lines(text) {
		m := row.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		found = append(found, m[1])
		cells := strings.Split(m[2], "|")
		if len(cells) != 4 {
			t.Errorf("%s: %d cells, want 4", m[1], len(cells))
			continue
		}
		state := strings.TrimSpace(cells[1])
		must, ok := states[state]
		if !ok {
			t.Errorf("%s: the state is %q", m[1], state)
		}
		n := 0
		for _, c := range code.FindAllStringSubmatch(cells[3], -1) {
			if err := testExists(c[1]); err != nil {
				t.Errorf("%s: %v", m[1], err)
			}
			n++
		}
		if must != (n > 0) {
			t.Errorf("%s: %q, and %d tests are named", m[1], state, n)
		}
		tests += n
	}
	if !slices.Equal(found, ids) {
		t.Errorf("the rows are %v,\nwant %v", found, ids)
	}
	if tests == 0 {
		t.Error("no test is named")
	}
	// What a row of guidance refers to is there.
	for _, m := range regexp.MustCompile(`\(\.\./README\.md#[a-z-]+\), “([^”]+)”`).FindAllStringSubmatch(text, -1) {
		if !strings.Contains(read(t, "../README.md"), "\n## "+m[1]+"\n") {
			t.Errorf("README.md has no section %q", m[1])
		}
	}
}

// testExists looks the test up in the source, so that a row can't name one that
// was renamed or never written.
func testExists(name string) error {
	m := named.FindStringSubmatch(name)
	if m == nil {
		return fmt.Errorf("%q names no test (PACKAGE TestName, PACKAGE TestName/row)", name)
	}
	files, err := filepath.Glob(filepath.Join("..", m[1], "*_test.go"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("%q: package %s has no tests", name, m[1])
	}
	fn, row := false, m[3] == ""
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		fn = fn || strings.Contains("\n"+string(b), "\nfunc "+m[2]+"(")
		row = row || strings.Contains(string(b), `"`+m[3]+`"`)
	}
	if !fn || !row {
		return fmt.Errorf("%q: not found in %s", name, m[1])
	}
	return nil
}

func TestTestExists(t *testing.T) {
	for _, bad := range []string{
		"TestX", "docs TestNowhere", "nowhere TestX", "docs TestGuarantees/" + strings.Repeat("no ", 2) + "row", "docs Guarantees", "docs TestGuarantee",
	} {
		if testExists(bad) == nil {
			t.Errorf("%q is taken for a test", bad)
		}
	}
	if err := testExists("docs TestGuarantees"); err != nil {
		t.Error(err)
	}
}

// TestPolicyExamples reads every example of docs/policy.md as a run would.
func TestPolicyExamples(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```toml\n(.*?)```").FindAllStringSubmatch(read(t, "policy.md"), -1)
	if len(blocks) < 3 {
		t.Fatalf("%d examples", len(blocks))
	}
	for i, b := range blocks {
		p, err := policy.Parse(fmt.Sprintf("example %d", i+1), []byte(b[1]))
		if err != nil {
			t.Errorf("%v in:\n%s", err, b[1])
			continue
		}
		// Each profile can be used, and not only read.
		for _, name := range p.Profiles() {
			o := policy.Overrides{Profile: name, Argv: []string{"true"}, HostCPUs: 4}
			if _, err := policy.Resolve(p, nil, o); err != nil {
				t.Errorf("profile %s: %v", name, err)
			}
		}
	}
}

// TestPolicyRefusals: what docs/policy.md says is refused.
func TestPolicyRefusals(t *testing.T) {
	for _, text := range []string{
		"", "version = 2\n", "version = 1\nVersion = 1\n", "version = 1\n[session]\n",
		"version = 1\n[rootfs.host]\npath = \"/srv\"\n", "version = 1\n[rootfs.a]\npath = \"/\"\n",
		"version = 1\n[profiles.a.limits.default]\nmemory = \"1KB\"\n",
		"version = 1\n[profiles.a.limits.max]\npids = 1\n",
	} {
		if _, err := policy.Parse("p", []byte(text)); err == nil {
			t.Errorf("accepted:\n%s", text)
		}
	}
}

// TestLimitTables compares the tables of defaults and ceilings with the built-in
// policy.
func TestLimitTables(t *testing.T) {
	data, err := profiles.FS.ReadFile("policy/builtin.toml")
	if err != nil {
		t.Fatal(err)
	}
	var p struct {
		Profiles map[string]struct {
			Limits struct{ Default, Max map[string]any }
		}
	}
	if err := toml.Unmarshal(data, &p); err != nil {
		t.Fatal(err)
	}
	l := p.Profiles["default"].Limits
	want := map[string][2]string{}
	for _, f := range limits.Fields() {
		want[f.Name] = [2]string{fmt.Sprint(l.Default[f.Name]), fmt.Sprint(l.Max[f.Name])}
		if f.Optional() {
			unset := "any" // no bound
			if f.Name == "swap" {
				unset = "none"
			}
			w := want[f.Name]
			for i := range w {
				w[i] = strings.ReplaceAll(w[i], "<nil>", unset)
			}
			want[f.Name] = w
		}
	}
	for doc, leftOut := range map[string][]string{
		"policy.md":           nil,
		"man/jailer-run.1.md": {"idle", "file"}, // without a meaning for a run
	} {
		got := map[string][2]string{}
		for line := range strings.Lines(read(t, doc)) {
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
			if len(cells) < 4 {
				continue
			}
			name := plain(cells[0])
			if _, ok := want[name]; ok {
				got[name] = [2]string{plain(cells[1]), plain(cells[2])}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(want)) {
			w := want[name]
			g, ok := got[name]
			switch {
			case slices.Contains(leftOut, name):
				if ok {
					t.Errorf("%s: %s has no meaning for a run", doc, name)
				}
			case !ok:
				t.Errorf("%s: %s is missing", doc, name)
			case name == "cpu_time": // follows from others
				if w != [2]string{"<nil>", "<nil>"} || !strings.Contains(g[0], "×") {
					t.Errorf("%s: %s is %v, built in is %v", doc, name, g, w)
				}
			case g != w:
				t.Errorf("%s: %s is %v, built in is %v", doc, name, g, w)
			}
		}
	}
}

// plain is the text of a table's cell.
func plain(cell string) string { return strings.Trim(strings.TrimSpace(cell), "`\"*") }

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
