package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jailer-project/jailer/test/need"
)

// unitFile is a unit of docs/operations.md: its path, and its text in the next block.
var unitFile = regexp.MustCompile("(?s)`/etc/systemd/system/(jailer-gc\\.[a-z]+)`:\n\n```ini\n(.*?)```")

func units(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, m := range unitFile.FindAllStringSubmatch(read(t, "operations.md"), -1) {
		out[m[1]] = m[2]
	}
	if len(out) != 2 || out["jailer-gc.service"] == "" || out["jailer-gc.timer"] == "" {
		t.Fatalf("the units are %v", out)
	}
	return out
}

// key is a line of a unit, or of its sections' names.
var key = regexp.MustCompile(`^(\[[A-Z][A-Za-z]+\]|[A-Z][A-Za-z]+=\S.*)$`)

func TestUnits(t *testing.T) {
	for name, text := range units(t) {
		for line := range strings.Lines(text) {
			if line = strings.TrimSuffix(line, "\n"); line != "" && !key.MatchString(line) {
				t.Errorf("%s: %q", name, line)
			}
		}
	}
	cron := regexp.MustCompile("(?s)```cron\n(.*?)\n```").FindStringSubmatch(read(t, "operations.md"))
	if cron == nil || !regexp.MustCompile(`^(\S+ ){5}root /usr/local/bin/jailer gc >/dev/null$`).MatchString(cron[1]) {
		t.Errorf("the cron line is %q", cron)
	}
}

// systemd itself takes the units without a word.
func TestUnitsVerify(t *testing.T) {
	verify := need.Program(t, "systemd-analyze")
	dir := t.TempDir()
	args := []string{"verify"}
	for name, text := range units(t) {
		// The program needs not be installed to try its unit.
		text = strings.ReplaceAll(text, "/usr/local/bin/jailer", "/bin/true")
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		args = append(args, path)
	}
	if out, err := exec.Command(verify, args...).CombinedOutput(); err != nil || strings.Contains(string(out), "jailer-gc") {
		t.Errorf("%v\n%s", err, out)
	}
}
