package spec

import (
	"slices"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/jailer-project/jailer/netns"
	"github.com/jailer-project/jailer/rootfs"
)

func config(t *testing.T) Config {
	t.Helper()
	n, err := netns.For(netns.None)
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		Args: []string{"true"}, Cwd: "/workspace", Root: rootfs.Layout{Path: "/r"},
		Network: n, IDs: IDs{HostUID: 7, HostGID: 7},
		Workspace: Tmpfs{Bytes: 1 << 20, Inodes: 10}, Tmp: Tmpfs{Bytes: 1 << 19, Inodes: 5},
	}
}

// TestRefused: a Config that leaves a protection out has no spec.
func TestRefused(t *testing.T) {
	for name, spoil := range map[string]func(*Config){
		"no root":        func(c *Config) { c.Root.Path = "" },
		"no command":     func(c *Config) { c.Args = nil },
		"host uid 0":     func(c *Config) { c.IDs.HostUID = 0 },
		"host's network": func(c *Config) { c.Network = netns.Network{} },
	} {
		t.Run(name, func(t *testing.T) {
			c := config(t)
			if _, err := Build(c); err != nil {
				t.Fatalf("the control: %v", err)
			}
			spoil(&c)
			if s, err := Build(c); err == nil {
				t.Fatalf("built %+v", s)
			}
		})
	}
}

func TestNamespaces(t *testing.T) {
	s, err := Build(config(t))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range s.Linux.Namespaces {
		if n.Path != "" {
			t.Errorf("%s joins %s", n.Type, n.Path)
		}
		got = append(got, string(n.Type))
	}
	slices.Sort(got)
	if want := []string{"ipc", "mount", "network", "pid", "user", "uts"}; !slices.Equal(got, want) {
		t.Errorf("namespaces %v, want %v", got, want)
	}
}

// TestMounts: everything is read-only but the four tmpfs and /proc; the
// writable ones are bounded, nosuid and nodev, and the tenant's comes last.
func TestMounts(t *testing.T) {
	c := config(t)
	c.Terminal = &Terminal{Cols: 80, Rows: 24}
	c.Root.Binds = []rootfs.Bind{{Source: "/usr", Target: "/usr"}, {Source: "/dev/null", Target: "/dev/null", Device: true}}
	s, err := Build(c)
	if err != nil {
		t.Fatal(err)
	}
	if !s.Root.Readonly {
		t.Error("the root is writable")
	}
	for _, m := range s.Mounts {
		switch m.Type {
		case "bind":
			if !slices.Contains(m.Options, "ro") && !slices.Contains(m.Options, "rro") {
				t.Errorf("%s is writable: %v", m.Destination, m.Options)
			}
			if !slices.Contains(m.Options, "nosuid") && !slices.Contains(m.Options, "rnosuid") {
				t.Errorf("%s honours set-id bits: %v", m.Destination, m.Options)
			}
		case "tmpfs":
			for _, want := range []string{"nosuid", "nodev", "size=", "nr_inodes="} {
				if !slices.ContainsFunc(m.Options, func(o string) bool { return strings.HasPrefix(o, want) && o != "size=0" && o != "nr_inodes=0" }) {
					t.Errorf("%s lacks %s: %v", m.Destination, want, m.Options)
				}
			}
		case "proc":
		case "devpts":
			// Not nodev: no terminal could be opened.
			for _, want := range []string{"ro", "nosuid", "noexec", "newinstance", "max=32"} {
				if !slices.Contains(m.Options, want) {
					t.Errorf("%s lacks %s: %v", m.Destination, want, m.Options)
				}
			}
		default:
			t.Errorf("%s has type %s", m.Destination, m.Type)
		}
	}
	if last := s.Mounts[len(s.Mounts)-1]; last.Destination != rootfs.Workspace {
		t.Errorf("%s is mounted after the workspace", last.Destination)
	}
}

// TestNoTerminal: without one, nothing leads to one.
func TestNoTerminal(t *testing.T) {
	s, err := Build(config(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range s.Mounts {
		if m.Type == "devpts" || m.Destination == rootfs.Pts {
			t.Errorf("mounts %+v", m)
		}
	}
	if s.Process.Terminal || s.Process.ConsoleSize != nil {
		t.Errorf("terminal %v, %v", s.Process.Terminal, s.Process.ConsoleSize)
	}
}

func TestForInit(t *testing.T) {
	c := config(t)
	c.Terminal = &Terminal{Cols: 80, Rows: 24}
	c.Rlimits = []Rlimit{{Type: "RLIMIT_NPROC", Soft: 1, Hard: 1}}
	c.Seccomp = &specs.LinuxSeccomp{}
	c.AppArmor = "x"
	s, err := Build(c)
	if err != nil {
		t.Fatal(err)
	}
	in := ForInit(s, []string{"/pid1"})
	if !slices.Equal(in.Process.Args, []string{"/pid1"}) || in.Process.Rlimits != nil || in.Linux.Seccomp != nil {
		t.Errorf("init's process %+v", in.Process)
	}
	if in.Process.Terminal || in.Process.ConsoleSize != nil || !s.Process.Terminal {
		t.Error("PID 1 has a terminal, or the job none")
	}
	if got := in.Process.Capabilities.Effective; !slices.Equal(got, []string{"CAP_SETFCAP"}) {
		t.Errorf("capabilities %v", got)
	}
	if !in.Process.NoNewPrivileges || in.Process.ApparmorProfile != "x" || !in.Root.Readonly {
		t.Error("something of the jail is gone")
	}
	if !slices.Equal(s.Process.Args, []string{"true"}) || s.Linux.Seccomp == nil || len(s.Process.Rlimits) != 1 {
		t.Error("the spec itself was changed")
	}
}
