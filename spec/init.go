package spec

import specs "github.com/opencontainers/runtime-spec/specs-go"

// ForInit gives the spec that libcontainer is started with: the same jail, with
// our PID 1 in the place of the job. PID 1 keeps CAP_SETFCAP alone, to write
// the job's id map (user_namespaces(7): mapping the parent's 0 needs it), and
// with an id range CAP_SETUID and CAP_SETGID besides. It loads the filter and
// sets the limits itself, in the job's process, after the clone: here they
// would bind PID 1, or be dropped in silence by libcontainer's spec converter.
func ForInit(s *specs.Spec, init []string) *specs.Spec {
	out := *s
	p := *s.Process
	p.Args = init
	p.Env = []string{"PATH=/usr/bin:/bin", "HOME=/"}
	p.Cwd = "/"
	p.Rlimits = nil
	p.Terminal, p.ConsoleSize = false, nil // PID 1 makes it, and has none itself
	caps := []string{"CAP_SETFCAP"}
	if len(s.Linux.UIDMappings) > 1 {
		caps = append(caps, "CAP_SETUID", "CAP_SETGID")
	}
	p.Capabilities = &specs.LinuxCapabilities{
		Bounding: caps, Permitted: caps, Effective: caps,
		Inheritable: []string{}, Ambient: []string{},
	}
	out.Process = &p
	l := *s.Linux
	l.Seccomp = nil
	out.Linux = &l
	return &out
}
