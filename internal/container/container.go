// Package container is the only importer of libcontainer: it starts, kills,
// reaps and removes one container from a finished OCI spec, and knows nothing
// of policies or results.
//
// libcontainer's API is declared unstable and changes each minor release, so
// it is kept behind this page. Facts that shaped it: libcontainer re-executes
// the running program with the first argument "init" (see Init); a spec's
// rlimits and AppArmor profile are dropped in silence by its converter, so
// they are set here; given no cgroup path it makes one beside the launcher's
// own, or, rootless, runs without any and without a word.
package container

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	_ "github.com/opencontainers/cgroups/devices" // without it every device rule is an error
	"github.com/opencontainers/runc/libcontainer"
	_ "github.com/opencontainers/runc/libcontainer/nsenter" // the C half of "init"
	"github.com/opencontainers/runc/libcontainer/seccomp"
	"github.com/opencontainers/runc/libcontainer/specconv"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"
)

// SeccompBuilt reports whether libcontainer was built with seccomp. Without
// the build tag it compiles and fails only when a filter is asked for.
const SeccompBuilt = seccomp.Enabled

// Options is one container to start.
type Options struct {
	ID       string
	StateDir string // private to the launcher; holds libcontainer's own state
	Spec     *specs.Spec
	// CgroupPath is where init and PID 1 live, from the root of the cgroup2
	// mount. Empty: they stay in the launcher's cgroup and libcontainer writes
	// to no hierarchy at all.
	CgroupPath            string
	Stdin, Stdout, Stderr *os.File
	Extra                 []*os.File // descriptors 3, 4, … of PID 1
	Logger                *slog.Logger
}

// A Container is a started container.
type Container struct {
	c *libcontainer.Container
	p *libcontainer.Process
}

// Start creates the container and runs its init until it has become PID 1 of
// the spec. It must be called on a locked thread that lives as long as the
// container: the parent-death signal is tied to the thread that forked
// (prctl(2), PR_SET_PDEATHSIG), and for real root that thread gets a mount
// namespace of its own.
func Start(o Options) (*Container, error) {
	logTo(o.Logger)
	rootless := os.Geteuid() != 0
	if o.CgroupPath != "" || rootless {
		return start(o, rootless)
	}
	restore, err := hideCgroups()
	if err != nil {
		return nil, err
	}
	k, err := start(o, rootless)
	if err2 := restore(); err2 != nil {
		if k != nil {
			_ = k.Kill()
			_ = k.Wait()
			err = errors.Join(err, k.Destroy())
		}
		return nil, errors.Join(err, err2)
	}
	return k, err
}

func start(o Options, rootless bool) (*Container, error) {
	cfg, err := specconv.CreateLibcontainerConfig(&specconv.CreateOpts{
		CgroupName:   o.ID,
		NoNewKeyring: true, // keyctl is denied to the job; a session keyring costs time and quota
		Spec:         o.Spec,
		// For real root supplementary groups are dropped for the job, which needs
		// setgroups, which RootlessEUID would deny.
		RootlessEUID:    rootless,
		RootlessCgroups: rootless || o.CgroupPath == "",
	})
	if err != nil {
		return nil, fmt.Errorf("convert spec: %w", err)
	}
	cfg.Cgroups.Path = o.CgroupPath
	if o.CgroupPath == "" {
		cfg.Cgroups.Parent, cfg.Cgroups.Name = "/", "jailer-"+o.ID
	}
	c, err := libcontainer.Create(o.StateDir, o.ID, cfg)
	if err != nil {
		return nil, fmt.Errorf("create container: %w", err)
	}
	proc := o.Spec.Process
	p := &libcontainer.Process{
		Init:            true,
		Args:            proc.Args,
		Env:             proc.Env,
		Cwd:             proc.Cwd,
		Stdin:           orNil(o.Stdin),
		Stdout:          orNilW(o.Stdout),
		Stderr:          orNilW(o.Stderr),
		ExtraFiles:      o.Extra,
		NoNewPrivileges: &proc.NoNewPrivileges,
		Capabilities:    capabilities(proc.Capabilities),
		AppArmorProfile: proc.ApparmorProfile,
		LogLevel:        "4",
	}
	k := &Container{c: c, p: p}
	if err := c.Run(p); err != nil {
		err = fmt.Errorf("start container: %w", err)
		// Run may fail after init was forked; it must not outlive the error.
		_ = k.Kill()
		_, _ = p.Wait()
		return nil, errors.Join(err, k.Destroy())
	}
	return k, nil
}

// Pid is PID 1 as the host sees it.
func (k *Container) Pid() (pid int) {
	// A process whose fork failed panics here too, in libcontainer.
	defer func() {
		if recover() != nil {
			pid = -1
		}
	}()
	pid, err := k.p.Pid()
	if err != nil {
		return -1
	}
	return pid
}

// Kill ends PID 1; the kernel then kills everything in its pid namespace
// (pid_namespaces(7)).
func (k *Container) Kill() error {
	if k.Pid() <= 0 {
		return nil // init was never forked; libcontainer would panic
	}
	err := k.c.Signal(unix.SIGKILL)
	if errors.Is(err, libcontainer.ErrNotRunning) || errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// Wait reaps PID 1. The kernel lets it be reaped only when every other process
// of its pid namespace is gone.
func (k *Container) Wait() error {
	_, err := k.p.Wait()
	var exit interface{ ExitCode() int }
	if errors.As(err, &exit) {
		return nil // how PID 1 ended is not how the job ended
	}
	return err
}

// Destroy removes libcontainer's state and, where it was given one, its cgroup.
func (k *Container) Destroy() error {
	if err := k.c.Destroy(); err != nil {
		return fmt.Errorf("destroy container: %w", err)
	}
	return nil
}

// orNil keeps a nil *os.File from becoming a non-nil interface.
func orNil(f *os.File) io.Reader {
	if f == nil {
		return nil
	}
	return f
}

func orNilW(f *os.File) io.Writer {
	if f == nil {
		return nil
	}
	return f
}

// logTo sends libcontainer's global logger to ours, quoted by slog: init's
// messages may hold text that a root file system chose.
func logTo(l *slog.Logger) {
	logrus.SetOutput(io.Discard)
	logrus.StandardLogger().ReplaceHooks(make(logrus.LevelHooks))
	if l != nil {
		logrus.AddHook(hook{l})
	}
}

type hook struct{ l *slog.Logger }

func (h hook) Levels() []logrus.Level { return logrus.AllLevels }

func (h hook) Fire(e *logrus.Entry) error {
	h.l.Debug("libcontainer", "level", e.Level.String(), "message", e.Message)
	return nil
}
