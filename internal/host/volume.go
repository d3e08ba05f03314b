package host

import (
	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/internal/trust"
)

// Volume is what statfs(2) says of the file system that a directory lies on.
type Volume struct {
	ReadOnly bool
	Memory   bool   // tmpfs or ramfs
	Overlay  bool   // overlayfs, whose upper layer can be anywhere
	Free     uint64 // bytes that are free to users, without regard to quotas
}

func volume(dir string) (Volume, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return Volume{}, err
	}
	return Volume{
		ReadOnly: st.Flags&unix.ST_RDONLY != 0,
		Memory:   st.Type == unix.TMPFS_MAGIC || st.Type == unix.RAMFS_MAGIC,
		Overlay:  st.Type == unix.OVERLAYFS_SUPER_MAGIC,
		Free:     st.Bavail * uint64(st.Frsize),
	}, nil
}

// wayFor judges the way to a directory: who but root and uid could put another in
// its place?
func wayFor(uid int) func(dir string) error {
	return trust.Rules{Owners: []int{0, uid}, Links: true, Sticky: true, Userns: true}.Path
}
