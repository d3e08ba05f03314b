package asuser

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Do runs f with the file-system ids of uid and gid (setfsuid(2)), if this process is
// root; anybody else's f runs as it is. A file system of a user namespace takes nothing
// from root's own id, which has no place in its map (EOVERFLOW), and without
// CAP_DAC_OVERRIDE, which the kernel takes away with the id, nothing is reached that the
// user could not reach.
//
// The ids are one thread's. That thread ends with f, and f must do its file work in its
// own goroutine; what a stranger's Reader or Writer does belongs into another one.
func Do(uid, gid uint32, f func() error) error {
	if os.Geteuid() != 0 || uid == 0 {
		return f()
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: nobody else gets the thread
		if err := become(int(uid), int(gid)); err != nil {
			done <- err
			return
		}
		done <- f()
	}()
	return <-done
}

// become changes the ids, and looks whether that was done: setfsuid(2) tells no error.
func become(uid, gid int) error {
	for _, x := range []struct {
		name string
		id   int
		set  func(int) (int, error)
	}{{"setfsgid", gid, unix.SetfsgidRetGid}, {"setfsuid", uid, unix.SetfsuidRetUid}} {
		if _, err := x.set(x.id); err != nil {
			return os.NewSyscallError(x.name, err)
		}
		if now, err := x.set(-1); err != nil || now != x.id {
			return fmt.Errorf("%s(%d): not permitted", x.name, x.id)
		}
	}
	return nil
}
