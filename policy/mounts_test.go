package policy

import "testing"

func TestCheckSource(t *testing.T) {
	for p, refused := range map[string]bool{
		"/": true, "/proc": true, "/proc/1": true, "/sys/fs/cgroup": true, "/dev": true, "/dev/shm/x": true, "/run": true, "/run/user/1000": true,
		"/run/docker.sock": true, "/var/run/docker.sock": true, "/var": true, "/var/lib": true, "/var/lib/docker": true, "/var/lib/docker/volumes/x": true,
		"/var/lib/containerd/x": true, "/var/snap": true, "/home": true, "/root": true, "/home/ann": true, "/home/ann/.ssh": true, "/home/ann/x/.git": true,
		"/root/.aws": true, "/var/lib/jailer": true,

		"/srv/models": false, "/opt/data": false, "/home/ann/models": false, "/home/ann/models/v1": false, "/root/models": false, "/usr/share/dict": false,
		"/var/lib/models": false, "/procedures": false, "/device": false, "/runs": false, "/etc/ssl/certs": false,
	} {
		if why := CheckSource(p); (why != "") != refused {
			t.Errorf("%s: %q, want it refused: %v", p, why, refused)
		}
	}
}
