package prereq

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

// with runs j by another program than the one under test.
func with(t *testing.T, c *jail.Caller, program string, j jail.Job) *jail.Outcome {
	t.Helper()
	j.Setup = func(cmd *exec.Cmd) { cmd.Path = program }
	return c.Run(t, j)
}

// A plain `go build` compiles, and refuses to run anything.
func TestUntaggedBuild(t *testing.T) {
	goProgram, err := exec.LookPath("go") // `go test` has put itself there
	need.Feature(t, "go", err == nil, "go is not installed on this host")
	// Inside the directory that all callers can search.
	out := filepath.Join(jail.TempDir(t, 0), "jailer")
	cmd := exec.Command(goProgram, "build", "-o", out, "./cmd/jailer")
	cmd.Dir = jail.Module()
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, b)
	}
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		refused(t, with(t, c, out, job), jailer.CodeIsolationUnavailable, "build.seccomp", "make build")
		ran(t, c.Run(t, job))
	})
}

// A program whose filter or PID 1 is not what was built: by one bit, anywhere.
func TestDamagedProgram(t *testing.T) {
	whole, err := os.ReadFile(jail.Program())
	if err != nil {
		t.Fatal(err)
	}
	d := jail.TempDir(t, 0)
	for name, file := range map[string]string{
		"filter": "seccomp/compiled/default.bpf",
		"strict": "seccomp/compiled/strict.bpf",
		"PID 1":  "internal/pid1/pid1.bin",
	} {
		t.Run(name, func(t *testing.T) {
			part, err := os.ReadFile(filepath.Join(jail.Module(), file))
			if err != nil {
				t.Fatalf("%v: run `make build`", err)
			}
			at := bytes.Index(whole, part)
			if at < 0 {
				t.Fatalf("%s is not in the program: is it older? run `make build`", file)
			}
			sum := sha256.Sum256(part)
			text := []byte(hex.EncodeToString(sum[:]))
			sumAt := bytes.Index(whole, text)
			if sumAt < 0 {
				t.Fatalf("the sum of %s is not in the program", file)
			}
			for where, i := range map[string]int{
				"first byte": at, "middle": at + len(part)/2, "last byte": at + len(part) - 1, "sum": sumAt,
			} {
				t.Run(where, func(t *testing.T) {
					bad := bytes.Clone(whole)
					bad[i] ^= 1
					p := filepath.Join(d, "damaged")
					if err := os.WriteFile(p, bad, 0o755); err != nil {
						t.Fatal(err)
					}
					defer os.Remove(p)
					jail.Each(t, func(t *testing.T, c *jail.Caller) {
						if name == "strict" { // a run looks at the filter that it loads
							c = c.WithPolicy(t, "strict.toml", jail.BestEffort+"[profiles.default]\nseccomp = \"strict\"\n")
						}
						refused(t, with(t, c, p, job), jailer.CodeIsolationUnavailable, "build.intact", "make build")
					})
				})
			}
		})
	}
	t.Run("control", func(t *testing.T) {
		p := filepath.Join(d, "copy")
		if err := os.WriteFile(p, whole, 0o755); err != nil {
			t.Fatal(err)
		}
		jail.Each(t, func(t *testing.T, c *jail.Caller) { ran(t, with(t, c, p, job)) })
	})
}
