package main

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// The scripts that make the guest. Their content is the image's name.
var (
	//go:embed provision.sh
	provisionScript []byte
	//go:embed image.sh
	imageScript []byte
	//go:embed offline.sh
	offlineScript []byte
	//go:embed debian.sh
	debianScript []byte
	//go:embed initrd.sh
	initrdScript []byte
	//go:embed qemu.sh
	qemuScript []byte
)

// product is something that scripts make from Debian's packages: the first one
// is run, with args and a directory to fill.
type product struct {
	name    string
	scripts []script
	args    []string
}

type script struct {
	name string
	text []byte
}

// guestOf is the guest of suite.
func guestOf(suite string) product {
	return product{
		name: suite,
		args: []string{suite},
		scripts: []script{
			{"image.sh", imageScript},
			{"debian.sh", debianScript},
			{"provision.sh", provisionScript},
			{"offline.sh", offlineScript},
			{"initrd.sh", initrdScript},
		},
	}
}

// emulator is QEMU.
var emulator = product{name: "qemu", scripts: []script{{"qemu.sh", qemuScript}, {"debian.sh", debianScript}}}

// unusedFor is how long a product of older scripts is kept.
const unusedFor = 7 * 24 * time.Hour

// cacheDir is where products are kept between runs, for all clones of a user.
func cacheDir() (string, error) {
	if d := os.Getenv("JAILER_VM_CACHE"); d != "" {
		return filepath.Abs(d)
	}
	if d, err := os.UserCacheDir(); err == nil {
		return filepath.Join(d, "jailer-vm"), nil
	}
	return filepath.Abs(filepath.Join("bin", "vm", "cache"))
}

// key names a product by what makes it.
func (p product) key() string {
	h := sha256.New()
	for _, s := range p.scripts {
		fmt.Fprintf(h, "%s %d\n", s.name, len(s.text))
		h.Write(s.text)
	}
	return p.name + "-" + hex.EncodeToString(h.Sum(nil))[:16]
}

// get returns the product's directory, and makes it if its scripts changed or it
// is not there yet.
func (p product) get(ctx context.Context) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, p.key())
	if p.there(dir) {
		return dir, nil
	}
	if err := canBuild(); err != nil {
		return "", err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	// Two clones make the same product once.
	lock, err := os.OpenFile(filepath.Join(cache, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	for told := false; ; told = true {
		if err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
			break
		}
		if !told {
			fmt.Printf("vm: waiting for another run, which makes something in %s\n", cache)
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(time.Second):
		}
	}
	if p.there(dir) { // made meanwhile
		return dir, nil
	}
	now := time.Now()
	p.prune(cache)
	fmt.Printf("vm: making %s from Debian's packages, once\n", p.name)
	if err := p.build(ctx, dir); err != nil {
		return "", err
	}
	fmt.Printf("vm: made %s: %s\n", p.name, since(now))
	return dir, nil
}

// there says whether the product is made, and notes that it is of use. Somebody
// else may have made it.
func (p product) there(dir string) bool {
	st, err := os.Stat(dir)
	if err != nil || !st.IsDir() {
		return false
	}
	now := time.Now()
	_ = os.Chtimes(dir, now, now)
	return true
}

// build makes the product beside its place and renames it in.
func (p product) build(ctx context.Context, dir string) error {
	tmp, err := os.MkdirTemp(filepath.Dir(dir), "new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	for _, s := range p.scripts {
		if err := os.WriteFile(filepath.Join(tmp, s.name), s.text, 0o644); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Minute)
	defer cancel()
	argv := slices.Concat([]string{filepath.Join(tmp, p.scripts[0].name)}, p.args, []string{tmp})
	cmd := exec.CommandContext(ctx, "/bin/sh", argv...)
	cmd.WaitDelay = 10 * time.Second
	// With the script go its children.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", p.scripts[0].name, err, tail(string(out), 30))
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	return os.Rename(tmp, dir)
}

// prune removes what old scripts made, and what was not finished. The caller has
// the lock.
func (p product) prune(cache string) {
	old, _ := filepath.Glob(filepath.Join(cache, p.name+"-*"))
	half, _ := filepath.Glob(filepath.Join(cache, "new-*"))
	for _, d := range half {
		_ = os.RemoveAll(d)
	}
	for _, d := range old {
		if st, err := os.Stat(d); err == nil && time.Since(st.ModTime()) > unusedFor {
			_ = os.RemoveAll(d) // a cache: what stays costs space
		}
	}
}

// canBuild asks for what image.sh needs.
func canBuild() error {
	if runtime.GOARCH != "amd64" {
		return fmt.Errorf("%w: the guest is built on amd64 only", errSkip)
	}
	for _, p := range []string{"mmdebstrap", "mke2fs"} {
		if lookup(p) == "" {
			if os.Geteuid() == 0 && lookup("dpkg-query") != "" {
				return fmt.Errorf("no %s: make deps-vm", p)
			}
			return fmt.Errorf("%w: no %s: as root, make deps-vm", errSkip, p)
		}
	}
	if os.Geteuid() != 0 {
		u, err := user.Current()
		if err != nil {
			return err
		}
		b, _ := os.ReadFile("/etc/subuid")
		ranges := "\n" + string(b)
		if !strings.Contains(ranges, "\n"+u.Username+":") && !strings.Contains(ranges, "\n"+u.Uid+":") || lookup("newuidmap") == "" {
			return fmt.Errorf("%w: to build the guest takes root, or a user with ids in /etc/subuid and newuidmap", errSkip)
		}
	}
	return nil
}

// lookup finds a program in the usual directories, sbin too.
func lookup(name string) string {
	for _, d := range []string{"/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"} {
		if st, err := os.Stat(filepath.Join(d, name)); err == nil && !st.IsDir() && st.Mode()&0o111 != 0 {
			return filepath.Join(d, name)
		}
	}
	return ""
}

// tail is the last n lines of s.
func tail(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
