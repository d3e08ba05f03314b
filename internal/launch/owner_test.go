package launch

import (
	"os/exec"
	"testing"
	"time"
)

func TestWatchOwner(t *testing.T) {
	const long = 20 * time.Second
	cmd := exec.Command("/bin/sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	if err := checkOwner(pid); err != nil {
		t.Error(err)
	}
	ended, stop := WatchOwner(pid)
	defer stop()
	select {
	case <-ended:
		t.Fatal("ended while it lives")
	case <-time.After(100 * time.Millisecond):
	}
	_ = cmd.Process.Kill()
	select { // though it is not reaped yet
	case <-ended:
	case <-time.After(long):
		t.Fatal("not told")
	}
	if err := checkOwner(pid); err == nil {
		t.Error("a zombie passes for an owner")
	}
	_ = cmd.Wait()
	if err := checkOwner(pid); err == nil {
		t.Error("a process that is gone passes for an owner")
	}
	late, stop := WatchOwner(pid)
	defer stop()
	select {
	case <-late:
	case <-time.After(long):
		t.Error("a process that is gone is waited for")
	}
}

func TestWatchNoOwner(t *testing.T) {
	ended, stop := WatchOwner(0)
	defer stop()
	if err := checkOwner(0); ended != nil || err != nil {
		t.Errorf("%v, %v", ended, err)
	}
}
