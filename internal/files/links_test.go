package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/test/need"
)

// verbs are all of them, on a path; each gives what it has read or listed.
var verbs = map[string]func(*Dir, context.Context, string) (string, error){
	"stat": func(d *Dir, _ context.Context, p string) (string, error) {
		i, err := d.Stat(p)
		if i.Type == Link {
			i.Target = "" // that of the link itself
		}
		return fmt.Sprint(i.Size), err
	},
	"ls": func(d *Dir, ctx context.Context, p string) (string, error) {
		l, err := d.List(ctx, p, "", 0)
		return fmt.Sprint(l.Entries), err
	},
	"cat": func(d *Dir, ctx context.Context, p string) (string, error) {
		var b bytes.Buffer
		_, err := d.Cat(ctx, &b, p, 1<<20)
		return b.String(), err
	},
	"page": func(d *Dir, ctx context.Context, p string) (string, error) {
		g, err := d.Page(ctx, p, PageOptions{})
		return string(g.Data), err
	},
	"put": func(d *Dir, ctx context.Context, p string) (string, error) {
		_, err := d.Put(ctx, p, strings.NewReader("put\n"), PutOptions{Mode: 0o644, Max: 100})
		return "", err
	},
	"put parents": func(d *Dir, ctx context.Context, p string) (string, error) {
		_, err := d.Put(ctx, p, strings.NewReader("put\n"), PutOptions{Mode: 0o644, Max: 100, Parents: true})
		return "", err
	},
	"mkdir": func(d *Dir, _ context.Context, p string) (string, error) {
		_, err := d.Mkdir(p, false, 0o755)
		return "", err
	},
	"mkdir parents": func(d *Dir, _ context.Context, p string) (string, error) {
		_, err := d.Mkdir(p, true, 0o755)
		return "", err
	},
	"rm": func(d *Dir, ctx context.Context, p string) (string, error) {
		_, err := d.Remove(ctx, p, false)
		return "", err
	},
	"rm recursive": func(d *Dir, ctx context.Context, p string) (string, error) {
		_, err := d.Remove(ctx, p, true)
		return "", err
	},
}

// leaks says that something of the canary was read.
func leaks(got string) bool {
	return strings.Contains(got, "SECRET") || strings.Contains(got, "secret")
}

// No link leads out, on any verb, as the last name of a path and before it.
func TestLinks(t *testing.T) {
	for name, to := range map[string]string{
		"absolute":   "CANARY",
		"up":         "../canary",
		"up and on":  "dir/../../canary",
		"chain":      "c0",
		"proc root":  "/proc/self/root",
		"proc fd":    "/proc/self/fd/3",
		"proc cwd":   "/proc/self/cwd",
		"dangling":   "../canary/new",
		"dangling 2": "CANARY/new",
		"etc":        "/etc",
	} {
		for verb, do := range verbs {
			t.Run(name+"/"+verb, func(t *testing.T) {
				d, root, canary := open(t)
				for _, err := range []error{
					os.Mkdir(filepath.Join(root, "dir"), 0o755),
					os.Symlink(strings.Replace(to, "CANARY", canary, 1), filepath.Join(root, "l")),
					os.Symlink("l", filepath.Join(root, "dir", "up")),
				} {
					if err != nil {
						t.Fatal(err)
					}
				}
				for i := range 41 { // more than the kernel follows
					if err := os.Symlink(fmt.Sprintf("c%d", i+1), filepath.Join(root, fmt.Sprintf("c%d", i))); err != nil {
						t.Fatal(err)
					}
				}
				if err := os.Symlink("../canary", filepath.Join(root, "c41")); err != nil {
					t.Fatal(err)
				}
				for _, p := range []string{"l/secret", "l/new", "l/sub", "l/sub/secret", "l/x/y", "l", "l/."} {
					got, err := do(d, soon(t), p)
					last := p == "l" || p == "l/." // removed, or told of, as what it is
					if err == nil && !last || leaks(got) {
						t.Errorf("%s: %q, %v", p, got, err)
					}
				}
				untouched(t, canary)
			})
		}
	}
}

// What leads elsewhere in the workspace is followed to be read, and never written
// through.
func TestLinksInside(t *testing.T) {
	d, root, _ := open(t)
	write(t, filepath.Join(root, "real"), "here\n")
	for _, err := range []error{os.Mkdir(filepath.Join(root, "dir"), 0o755), os.Symlink("../real", filepath.Join(root, "dir", "l")), os.Symlink("dir", filepath.Join(root, "d"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got, err := verbs["cat"](d, soon(t), "d/l"); err != nil || got != "here\n" {
		t.Errorf("%q %v", got, err)
	}
	_, err := verbs["put"](d, soon(t), "dir/l")
	coded(t, err, NotRegular)
	if b, _ := os.ReadFile(filepath.Join(root, "real")); string(b) != "here\n" {
		t.Errorf("written through: %q", b)
	}
	if _, err := verbs["put"](d, soon(t), "d/new"); err != nil {
		t.Error(err)
	}
	if i, err := d.Stat("dir/l"); err != nil || i.Type != Link || i.Target != "../real" {
		t.Errorf("%+v %v", i, err)
	}
	if _, err := verbs["rm recursive"](d, soon(t), "d"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(root, "dir", "new")); err != nil {
		t.Errorf("what the link led to is gone: %v", err)
	}
}

// A directory changes places with a link that leads out, again and again, while each
// verb works in it.
func TestExchangeRace(t *testing.T) {
	d, root, canary := open(t)
	for _, err := range []error{
		os.Mkdir(filepath.Join(root, "a"), 0o755), os.Mkdir(filepath.Join(root, "a", "sub"), 0o755),
		os.Symlink(canary, filepath.Join(root, "b")), os.Symlink("../canary/secret", filepath.Join(root, "f2")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(root, "f1"), "mine\n")
	write(t, filepath.Join(root, "a", "secret2"), "mine\n")
	stop := make(chan struct{})
	var work sync.WaitGroup
	for _, pair := range [][2]string{{"a", "b"}, {"f1", "f2"}} {
		work.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				a, b := filepath.Join(root, pair[0]), filepath.Join(root, pair[1])
				err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
				if err != nil && !errors.Is(err, unix.ENOENT) {
					t.Error(err)
					return
				}
			}
		})
	}
	begin := time.Now()
	worked, n := 0, 0
	for ; time.Since(begin) < need.RaceTime(); n++ {
		for verb, do := range verbs {
			if strings.HasPrefix(verb, "rm") {
				continue // would end the race
			}
			for _, p := range []string{"a/secret", "a/sub", "a/sub/secret", "b/new/x", "a/new", "f1"} {
				if verb == "put" || verb == "put parents" {
					if p == "f1" {
						continue
					}
				}
				got, err := do(d, soon(t), p)
				if err == nil {
					worked++
				}
				// The content of a/secret is ours or nobody's.
				if strings.Contains(got, "SECRET") {
					t.Fatalf("%s %s: %q", verb, p, got)
				}
			}
		}
		if _, err := d.Remove(soon(t), "a/new", true); err == nil {
			worked++
		}
		_, _ = d.Remove(soon(t), "a/sub/secret", true)
		_, _ = d.Remove(soon(t), "a/secret", false)
	}
	close(stop)
	work.Wait()
	untouched(t, canary)
	if worked == 0 {
		t.Error("no verb ever found its file")
	}
	t.Logf("%d rounds, %d verbs that worked", n, worked)
}
