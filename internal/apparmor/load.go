package apparmor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/jailer-project/jailer/internal/trust"
)

// etc is where the boot loads profiles from (apparmor.service).
const etc = "/etc/apparmor.d"

// parserTime bounds one compilation.
const parserTime = time.Minute

// ErrNoParser says that apparmor_parser(8) is not installed.
var ErrNoParser = errors.New("apparmor_parser is not installed")

// parser finds apparmor_parser(8) where packages put it, and nowhere else.
func parser() (string, error) {
	for _, p := range []string{"/usr/sbin/apparmor_parser", "/sbin/apparmor_parser"} {
		if st, err := os.Stat(p); err == nil && st.Mode().IsRegular() {
			return p, nil
		}
	}
	return "", ErrNoParser
}

// parse runs the parser on a profile's text, with an empty environment.
func parse(ctx context.Context, text string, flags ...string) ([]byte, error) {
	p, err := parser()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, parserTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, p, append(flags, "--skip-cache", "--quiet")...)
	cmd.Env, cmd.Dir = []string{}, "/"
	cmd.Stdin = strings.NewReader(text)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("apparmor_parser: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}

// Load puts a profile into the kernel, in place of one of that name. It lasts until
// the next boot.
func Load(ctx context.Context, text string) error {
	_, err := parse(ctx, text, "--replace")
	return err
}

// Install writes a profile to where the boot loads it from, and returns the path.
// A file that is there is replaced.
func Install(name, text string) (string, error) {
	dir, err := os.OpenRoot(etc)
	if err != nil {
		return "", err
	}
	defer dir.Close()
	// The leading dot keeps it from being loaded if it is left behind.
	tmp := "." + name + ".new"
	_ = dir.Remove(tmp)
	f, err := dir.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = dir.Rename(tmp, name)
	}
	if err != nil {
		return "", errors.Join(err, dir.Remove(tmp))
	}
	return etc + "/" + name, nil
}

// Attachable refuses a program that somebody else than root could replace: its path
// is what the launcher's profile is attached to, and the rights would be theirs.
func Attachable(exe string) error {
	err := trust.Rules{Owners: []int{0}}.Path(exe)
	if b, ok := errors.AsType[*trust.Breach](err); ok {
		return fmt.Errorf("%s belongs to another user than root, or others can write to it: it %s", b.Path, b.Reason)
	}
	return err
}
