// The test bed: builds a Debian guest from packages, boots it under QEMU, runs
// the project's test binaries in it in several ways, and judges the answer.
//
//	vm image  [-suite trixie]            builds the guest, if it is not there
//	vm test   [-suite trixie] [-way a,b] boots it and runs the plan
//	vm shell  [-suite trixie]            boots it with a console for a person
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

var (
	// errSkip is for a host that can have no bed.
	errSkip = errors.New("SKIPPED")
	// errOff is for a person who wants none.
	errOff = errors.New("SKIPPED: JAILER_NO_VM is set")
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	err := run(ctx, os.Args[1:])
	switch {
	case err == nil:
	case errors.Is(err, errOff) || errors.Is(err, errSkip) && !required():
		fmt.Fprintf(os.Stderr, "vm: %v\nvm: nothing of cgroup v2, delegation, AppArmor and swap was shown in a guest (JAILER_REQUIRE=vm makes that a failure)\n", err)
		stop()
		os.Exit(3) // no failure, but nothing to go on with
	default:
		fmt.Fprintln(os.Stderr, "vm:", err)
		stop()
		os.Exit(1)
	}
}

// required says whether the bed may not be skipped.
func required() bool {
	for _, f := range strings.Split(os.Getenv("JAILER_REQUIRE"), ",") {
		if f == "vm" || f == "all" {
			return true
		}
	}
	return false
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("vm", flag.ContinueOnError)
	suite := flags.String("suite", "trixie", "Debian's `suite` in the guest")
	only := flags.String("way", "", "only these ways, `a,b`")
	job := flags.String("job", "", "only these `packages` in each way")
	all := flags.Bool("all", os.Getenv("JAILER_VM_ALL") != "", "the whole suite, which takes an hour (JAILER_VM_ALL)")
	limit := flags.Duration("limit", 90*time.Minute, "how `long` the guest may run")
	if len(args) == 0 {
		return errors.New("usage: vm image|test|shell [flags]")
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if os.Getenv("JAILER_NO_VM") != "" {
		return errOff
	}
	m, err := newMachine(ctx, *suite)
	if err != nil {
		return err
	}
	switch args[0] {
	case "image":
		return nil
	case "shell":
		return m.console(ctx, os.Stdin, os.Stdout, 24*time.Hour)
	case "test":
		return test(ctx, m, *suite, *only, *job, *all, *limit)
	}
	return fmt.Errorf("no such command: %q", args[0])
}

// test is one boot, and the judgement.
func test(ctx context.Context, m machine, suite, only, job string, all bool, limit time.Duration) error {
	p, err := waysOf(only, job, all)
	if err == nil {
		p, err = in(suite, p)
	}
	if err != nil {
		return err
	}
	m.dir = filepath.Join("bin", "vm", suite)
	if err := os.MkdirAll(m.dir, 0o755); err != nil {
		return err
	}
	// One guest's answer must not be another's.
	lock, err := os.OpenFile(filepath.Join(m.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("%s: another run uses it: %w", m.dir, err)
	}
	began := time.Now()
	disk, lists, err := payload(ctx, p)
	if err != nil {
		return err
	}
	defer os.RemoveAll(filepath.Dir(disk))
	fmt.Printf("vm: test binaries: %s\n", since(began))
	m.disk = disk
	fmt.Printf("vm: booting %s (%s), at most %v; results and console in %s\n", suite, m.accel, limit, m.dir)
	rep := newReport(p, lists, os.Stdout)
	end := m.boot(ctx, limit, rep.add)
	return rep.judge(end)
}

func since(t time.Time) time.Duration { return time.Since(t).Round(time.Second) }
