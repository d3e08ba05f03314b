package main

import (
	"os"
	"os/exec"
	"syscall"
)

// motd greets a person.
const motd = `
The test bed of jailer: Debian, systemd, cgroup v2, AppArmor, swap. What is
written is lost at the end: poweroff -f, or Ctrl-A X for QEMU.

  jailer run -- id                  as root
  su - plain                        the user without subordinate ids; ranged has some
  as plain jailer run -- id         in a service of the user's own, delegated
  as plain sh                       the same, a shell
  cd /bed/tree/test/run && JAILER_TIME_SCALE=15 JAILER_BIN=/usr/local/bin/jailer \
      /bed/run.test -test.v -test.run TestMemoryLimit

`

// as runs a command as a user in a service of his own with Delegate=yes.
const as = `#!/bin/sh
u=$1
shift
exec runuser -u "$u" -- env XDG_RUNTIME_DIR="/run/user/$(id -u "$u")" HOME="/home/$u" \
	systemd-run --user --quiet --pty --wait --collect -p Delegate=yes --same-dir -E JAILER_BIN "$@"
`

// shell gives the serial console to a login shell of root.
func shell() error {
	if err := os.Symlink(bed+"/tree/bin/jailer", "/usr/local/bin/jailer"); err != nil && !os.IsExist(err) {
		return err
	}
	if err := os.WriteFile("/usr/local/bin/as", []byte(as), 0o755); err != nil {
		return err
	}
	tty, err := os.OpenFile("/dev/ttyS0", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer tty.Close()
	if _, err := tty.WriteString(motd); err != nil {
		return err
	}
	cmd := exec.Command("/bin/bash", "--noprofile", "--norc", "-i")
	cmd.Dir = bed + "/tree"
	cmd.Env = append(os.Environ(), "HOME=/root", "TERM=vt220", "PS1=bed# ")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	return cmd.Run()
}
