package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/jailer-project/jailer/test/vm/plan"
)

// machine is a boot of the guest.
type machine struct {
	image, qemu string // directories that scripts made
	accel       string // "tcg" or "kvm"
	disk        string // the payload; "" for a boot that never reaches the root
	mode        string // more of the kernel's command line
	dir         string // of console.log and results.ndjson
}

// newMachine makes the guest of suite and the emulator, if need be.
func newMachine(ctx context.Context, suite string) (machine, error) {
	if runtime.GOARCH != "amd64" {
		return machine{}, fmt.Errorf("%w: the guest is for amd64 hosts", errSkip)
	}
	var m machine
	var err error
	if m.qemu, err = emulator.get(ctx); err != nil {
		return m, err
	}
	if m.image, err = guestOf(suite).get(ctx); err != nil {
		return m, err
	}
	m.accel = m.probe(ctx)
	return m, nil
}

// args is QEMU's command line. The CPU is without cmpxchg16b: with it, 6.12 was
// seen to panic under emulation.
func (m machine) args() []string {
	cpu, accel := "max,-cx16", "tcg,thread=multi,tb-size=1024"
	if m.accel == "kvm" {
		cpu, accel = "host", "kvm"
	}
	args := []string{
		"-nodefaults", "-no-user-config", "-display", "none", "-nic", "none", "-no-reboot",
		"-accel", accel, "-cpu", cpu, "-M", "q35", "-m", "4G", "-smp", "2",
		"-kernel", m.image + "/vmlinuz", "-initrd", m.image + "/initrd",
		"-append", "console=ttyS0 quiet loglevel=4 panic=-1 apparmor=1 security=apparmor " +
			"systemd.show_status=false mitigations=off nokaslr tsc=reliable random.trust_cpu=on " + m.mode,
	}
	if m.disk == "" {
		return args
	}
	return append(args,
		// snapshot=on: the image is never written.
		"-drive", "if=none,id=root,format=raw,snapshot=on,cache=unsafe,file="+m.image+"/root.img",
		"-device", "virtio-blk-pci,drive=root",
		"-drive", "if=none,id=in,format=raw,readonly=on,file="+m.disk,
		"-device", "virtio-blk-pci,drive=in")
}

// end is how QEMU ended.
type end struct {
	err     error // of QEMU itself
	hung    bool  // killed at the limit
	console string
	took    time.Duration
}

// reason says in words why there is no end marker.
func (e end) reason() string {
	switch {
	case e.hung:
		return fmt.Sprintf("the guest hung: no end marker after %v", e.took.Round(time.Second))
	case kernelPanic.MatchString(e.console):
		return "the guest panicked: " + strings.TrimSpace(kernelPanic.FindString(e.console))
	case e.err != nil:
		return fmt.Sprintf("qemu failed: %v", e.err)
	}
	return "the guest powered off without an end marker"
}

var kernelPanic = regexp.MustCompile(`Kernel panic[^\r\n]*`)

// boot runs the guest until it powers off or the limit has passed, and hands on
// what it says.
func (m machine) boot(ctx context.Context, limit time.Duration, add func(plan.Event)) end {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := time.Now()
	console, results := filepath.Join(m.dir, "console.log"), filepath.Join(m.dir, "results.ndjson")
	out, err := os.Create(results)
	if err != nil {
		return end{err: err}
	}
	defer out.Close()
	args := append(m.args(), "-serial", "file:"+console,
		"-device", "virtio-serial-pci", "-chardev", "file,id=results,path="+results,
		"-device", "virtserialport,chardev=results,name=bed.results")
	var stderr bytes.Buffer
	cmd := m.command(ctx, args)
	cmd.Stdout, cmd.Stderr = &stderr, &stderr
	if err := cmd.Start(); err != nil {
		return end{err: err}
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	var ended time.Time
	read := follow(out, func(e plan.Event) {
		if e.Kind == plan.End {
			ended = time.Now()
		}
		add(e)
	})
	for {
		select {
		case err := <-done:
			read()
			e := end{err: err, hung: errors.Is(ctx.Err(), context.DeadlineExceeded), took: time.Since(began)}
			if err != nil && stderr.Len() > 0 {
				e.err = fmt.Errorf("%w: %s", err, tail(stderr.String(), 5))
			}
			if b, err := os.ReadFile(console); err == nil {
				e.console = string(b)
			}
			return e
		case <-time.After(200 * time.Millisecond):
			read()
			// All is said: a power-off that hangs takes nothing away.
			if !ended.IsZero() && time.Since(ended) > powerOff {
				cancel()
			}
		}
	}
}

// powerOff is how long a guest may take that has come to its end.
const powerOff = time.Minute

// command is QEMU in a process that dies with this one, however that ends.
func (m machine) command(ctx context.Context, args []string) *exec.Cmd {
	runtime.LockOSThread() // a parent-death signal comes when the thread ends that asked for it
	lib := m.qemu + "/usr/lib/x86_64-linux-gnu"
	own := []string{
		"--library-path", lib + ":" + lib + "/pulseaudio", m.qemu + "/usr/bin/qemu-system-x86_64",
		"-L", m.qemu + "/usr/share/qemu", "-L", m.qemu + "/usr/share/seabios",
	}
	cmd := exec.CommandContext(ctx, lib+"/ld-linux-x86-64.so.2", append(own, args...)...)
	cmd.Env = append(os.Environ(), "QEMU_MODULE_DIR="+lib+"/qemu")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// follow returns a function that hands on the events that were written to r since
// it was last called.
func follow(r io.Reader, add func(plan.Event)) func() {
	in := bufio.NewReader(r)
	var part []byte
	return func() {
		for {
			b, err := in.ReadBytes('\n')
			part = append(part, b...)
			if err != nil {
				return // more to come, or not
			}
			var e plan.Event
			if err := json.Unmarshal(part, &e); err != nil {
				e = plan.Event{Kind: plan.Output, Text: fmt.Sprintf("unreadable line: %q", part)}
			}
			part = nil
			add(e)
		}
	}
}

// probeLimit is far more than a guest with hardware help takes to its first line.
const probeLimit = 20 * time.Second

// probe is "kvm" if a guest comes up with it. That /dev/kvm opens proves nothing:
// a nested one can start a guest that never runs.
func (m machine) probe(ctx context.Context) string {
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return "tcg"
	}
	f.Close()
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	m.accel, m.mode = "kvm", "bed=probe"
	out, _ := m.command(ctx, append(m.args(), "-serial", "stdio")).Output()
	if strings.Contains(string(out), "BED-PROBE-OK") {
		return "kvm"
	}
	return "tcg"
}

// console boots the guest with the tree for a person on a terminal.
func (m machine) console(ctx context.Context, in io.Reader, out io.Writer, limit time.Duration) error {
	p, err := waysOf("", "", false)
	if err != nil {
		return err
	}
	disk, _, err := payload(ctx, p)
	if err != nil {
		return err
	}
	defer os.RemoveAll(filepath.Dir(disk))
	m.disk, m.mode = disk, "bed=shell"
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	fmt.Fprintf(out, "vm: booting (%s), half a minute without hardware help; Ctrl-A X ends it\n", m.accel)
	cmd := m.command(ctx, append(m.args(), "-chardev", "stdio,id=con,mux=on,signal=off", "-serial", "chardev:con", "-mon", "chardev=con"))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, out
	return cmd.Run()
}
