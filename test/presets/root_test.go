package presets

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jailer-project/jailer/profiles"
	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

// preset is the caller with a preset as it is, but for the path of its root.
func preset(t *testing.T, c *jail.Caller, name, root string) *jail.Caller {
	t.Helper()
	text, err := profiles.Preset(name)
	if err != nil {
		t.Fatal(err)
	}
	s := string(text)
	if path := "/srv/jailer/" + name; root != "" {
		if strings.Count(s, `path = "`+path+`"`) != 1 {
			t.Fatalf("%s has no root %s", name, path)
		}
		s = strings.Replace(s, `path = "`+path+`"`, `path = "`+root+`"`, 1)
	}
	return c.WithPolicy(t, name+".toml", s)
}

var inLDD = regexp.MustCompile(`(/[^ :]+) \(0x`)

// root makes a root of this host's files: the programs with their libraries, and trees.
func root(t *testing.T, c *jail.Caller, programs, trees []string) string {
	t.Helper()
	need.Program(t, "ldd")
	dir := filepath.Join(jail.TempDir(t, c.UID), "root")
	var errs []error
	for _, d := range []string{"usr/bin", "usr/lib", "usr/lib64", "usr/sbin", "etc", "proc", "dev", "sys", "tmp", "workspace"} {
		errs = append(errs, os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	for _, d := range []string{"bin", "lib", "lib64", "sbin"} {
		errs = append(errs, os.Symlink("usr/"+d, filepath.Join(dir, d)))
	}
	var files []string
	for _, p := range programs {
		files = append(files, p)
		real, err := filepath.EvalSymlinks(p)
		if err != nil {
			t.Fatal(err)
		}
		out, _ := exec.Command("ldd", real).Output() // fails for one that is static, or a script
		for _, m := range inLDD.FindAllStringSubmatch(string(out), -1) {
			files = append(files, m[1])
		}
		files = append(files, real)
	}
	// Each link on the way to a file, and the file, where usr/ is.
	for i := 0; i < len(files); i++ {
		parent, err := filepath.EvalSymlinks(filepath.Dir(files[i]))
		if err != nil {
			t.Fatal(err)
		}
		files[i] = filepath.Join(parent, filepath.Base(files[i]))
		if to, err := os.Readlink(files[i]); err == nil {
			if !filepath.IsAbs(to) {
				to = filepath.Join(parent, to)
			}
			files = append(files, to)
		}
	}
	files = append(files, trees...)
	slices.Sort(files)
	args := []string{"-C", "/", "-cf", filepath.Join(dir, "tar")}
	for _, f := range slices.Compact(files) {
		args = append(args, "."+f)
	}
	out, err := exec.Command("tar", args...).CombinedOutput()
	if err == nil {
		out, err = exec.Command("tar", "-C", dir, "--no-same-owner", "-xpf", filepath.Join(dir, "tar")).CombinedOutput()
	}
	errs = append(errs, os.Remove(filepath.Join(dir, "tar")))
	if err := errors.Join(append(errs, err)...); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// program is need.Program's path, as the system has it: no wrapper of a user's.
func program(t *testing.T, name string) string {
	t.Helper()
	need.Program(t, name)
	p := "/usr/bin/" + name
	if _, err := os.Stat(p); err != nil {
		need.Feature(t, name, false, err.Error())
	}
	return p
}

// gcc is what it takes to compile C: programs and trees.
func gcc(t *testing.T) (programs, trees []string) {
	t.Helper()
	cc := program(t, "gcc")
	ask := func(q string) string {
		out, err := exec.Command(cc, q).Output()
		if err != nil {
			t.Fatal(err)
		}
		p := strings.TrimSpace(string(out))
		if !filepath.IsAbs(p) {
			need.Feature(t, "gcc", false, "gcc has no "+q)
		}
		return p
	}
	programs = []string{cc, program(t, "as"), program(t, "ld"), ask("-print-prog-name=cc1"), ask("-print-prog-name=collect2")}
	lib := filepath.Dir(ask("-print-libgcc-file-name"))
	trees = []string{filepath.Join(lib, "include")}
	for _, pattern := range []string{
		filepath.Join(lib, "*.[ao]"), filepath.Join(lib, "libgcc_s.so*"), filepath.Join(lib, "liblto_plugin.so"),
		filepath.Join(filepath.Dir(ask("-print-prog-name=cc1")), "liblto_plugin.so"),
	} {
		m, _ := filepath.Glob(pattern)
		trees = append(trees, m...)
	}
	crt := filepath.Dir(ask("-print-file-name=crt1.o"))
	crt, err := filepath.EvalSymlinks(crt)
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"*crt*.o", "libc.so*", "libc_nonshared.a", "libm.so*", "libmvec.so*", "libgcc_s.so*"} {
		m, _ := filepath.Glob(filepath.Join(crt, pattern))
		trees = append(trees, m...)
	}
	for _, pattern := range []string{"/usr/include/*.h", "/usr/include/linux", "/usr/include/asm*", "/usr/include/*-linux-gnu*", "/usr/include/bits", "/usr/include/sys", "/usr/include/gnu"} {
		m, _ := filepath.Glob(pattern)
		trees = append(trees, m...)
	}
	slices.Sort(trees)
	return programs, slices.Compact(trees)
}
