package main

import (
	"archive/tar"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/jailer-project/jailer/test/vm/plan"
)

// goTool is the go command, as the Makefile found it.
func goTool() string {
	if g := os.Getenv("GO"); g != "" {
		return g
	}
	return "go"
}

// payload builds what the guest runs and packs it as a disk, in a directory of
// its own that the caller removes. It also lists the tests of each test binary
// that the plan runs: all of them must be in the answer.
func payload(ctx context.Context, p plan.Plan) (disk string, lists map[string][]string, err error) {
	dir, err := os.MkdirTemp("", "jailer-vm-")
	if err != nil {
		return "", nil, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(dir)
		}
	}()
	if _, err := os.Stat("bin/jailer"); err != nil {
		return "", nil, fmt.Errorf("%w: run `make build`", err)
	}
	if err := compile(ctx, dir, p); err != nil {
		return "", nil, err
	}
	if lists, err = listTests(ctx, dir, p); err != nil {
		return "", nil, err
	}
	b, err := json.Marshal(p)
	if err != nil {
		return "", nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "plan.json"), b, 0o644); err != nil {
		return "", nil, err
	}
	disk = filepath.Join(dir, "disk")
	return disk, lists, pack(disk, dir)
}

// compile builds the test binaries, the guest's program and test2json, static.
func compile(ctx context.Context, dir string, p plan.Plan) error {
	static := "-s -w -linkmode external -extldflags=-static"
	var pkgs []string
	for _, w := range p.Ways {
		for _, j := range w.Jobs {
			if pkg := "./" + j.Dir; j.Argv[0] == binary(j) && !slices.Contains(pkgs, pkg) {
				pkgs = append(pkgs, pkg)
			}
		}
	}
	tags := os.Getenv("TAGS")
	if len(pkgs) > 0 && tags == "" {
		return errors.New("TAGS is not set: without the build tags most tests are left out; `make test-vm` sets it")
	}
	steps := [][]string{
		{"CGO_ENABLED=0", "build", "-o", dir + "/guest", "./test/vm/guest"},
		{"CGO_ENABLED=0", "build", "-o", dir + "/test2json", "cmd/test2json"},
	}
	if len(pkgs) > 0 {
		steps = append(steps, append([]string{"CGO_ENABLED=1", "test", "-c", "-tags", tags, "-ldflags", static, "-o", dir + "/"}, pkgs...))
	}
	for _, s := range steps {
		cmd := exec.CommandContext(ctx, goTool(), s[1:]...)
		cmd.Env = append(os.Environ(), s[0])
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go %s: %w\n%s", s[1], err, out)
		}
	}
	return nil
}

// binary is the test binary of a job.
func binary(j plan.Job) string { return filepath.Base(j.Dir) + ".test" }

// listTests asks each test binary for the tests that its job runs.
func listTests(ctx context.Context, dir string, p plan.Plan) (map[string][]string, error) {
	lists := map[string][]string{}
	for _, w := range p.Ways {
		for _, j := range w.Jobs {
			if j.Argv[0] != binary(j) {
				continue
			}
			cmd := exec.CommandContext(ctx, filepath.Join(dir, binary(j)), "-test.list", flagOf(j, "-test.run=", "."))
			cmd.Dir = j.Dir
			out, err := cmd.Output()
			if err != nil {
				return nil, fmt.Errorf("%s -test.list: %w\n%s", binary(j), err, out)
			}
			skip := regexp.MustCompile(flagOf(j, "-test.skip=", "^$"))
			names := slices.DeleteFunc(regexp.MustCompile(`(?m)^(Test|Fuzz|Example)\S*$`).FindAllString(string(out), -1), skip.MatchString)
			if len(names) == 0 {
				return nil, fmt.Errorf("way %s: no test of %s matches %q", w.Name, j.Dir, flagOf(j, "-test.run=", "."))
			}
			lists[w.Name+" "+j.Name] = names
		}
	}
	return lists, nil
}

// flagOf is the value of a flag of a job's test binary.
func flagOf(j plan.Job, flag, otherwise string) string {
	for _, a := range j.Argv {
		if v, ok := strings.CutPrefix(a, flag); ok {
			return v
		}
	}
	return otherwise
}

// pack writes the tree, bin/jailer and what was built as a tar, padded to whole
// MiB as a disk must be.
func pack(disk, dir string) error {
	f, err := os.Create(disk)
	if err != nil {
		return err
	}
	defer f.Close()
	w := tar.NewWriter(f)
	err = filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && (p == ".git" || p == "bin") {
			return cmp.Or(err, fs.SkipDir)
		}
		return add(w, "tree/"+filepath.ToSlash(p), p)
	})
	if err != nil {
		return err
	}
	if err := add(w, "tree/bin/jailer", "bin/jailer"); err != nil {
		return err
	}
	built, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range built {
		if e.Name() == filepath.Base(disk) {
			continue
		}
		if err := add(w, e.Name(), filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	end, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	const mib = 1 << 20
	return f.Truncate((end + mib - 1) / mib * mib)
}

func add(w *tar.Writer, name, from string) error {
	st, err := os.Lstat(from)
	if err != nil {
		return err
	}
	link := ""
	if st.Mode()&os.ModeSymlink != 0 {
		if link, err = os.Readlink(from); err != nil {
			return err
		}
	}
	h, err := tar.FileInfoHeader(st, link)
	if err != nil {
		return err
	}
	h.Name, h.Uid, h.Gid, h.Uname, h.Gname = name, 0, 0, "", ""
	if st.IsDir() {
		return nil
	}
	// Readable by the guest's users, whatever the umask here.
	h.Mode |= 0o444
	if h.Mode&0o100 != 0 {
		h.Mode |= 0o111
	}
	if err := w.WriteHeader(h); err != nil || !st.Mode().IsRegular() {
		return err
	}
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}
