package ways

import (
	"context"
	"os"
	"os/exec"
	accounts "os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

// What makes podman's container one that jailer works in.
var (
	unmasked   = []string{"--security-opt", "unmask=ALL"}
	unconfined = []string{"--security-opt", "apparmor=unconfined"}
	unfiltered = []string{"--security-opt", "seccomp=unconfined"}
	capable    = []string{"--cap-add", "SYS_ADMIN", "--cap-add", "SYS_PTRACE"}
	privileged = []string{"--privileged"}
)

// A container, and what jailer must say in it. Without a reason the run must
// work, with its limits held by cgroup v2.
type container struct {
	name   string
	user   string   // who runs podman; "" is root
	flags  []string // of podman run
	uid    int      // inside
	policy bool     // with ids that a rootless container has
	failed []string // doctor's
	reason string   // the refused run's
	words  []string // in message or hint
}

var noCgroups = []string{"cgroup.memory", "cgroup.pids", "cgroup.cpu"}

var containers = []container{
	{
		name: "root's", failed: append([]string{"root.capabilities", "userns.create", "proc.fresh"}, noCgroups...),
		reason: "root.capabilities", words: []string{"CAP_SYS_PTRACE, CAP_SYS_ADMIN", "--cap-add SYS_PTRACE --cap-add SYS_ADMIN"},
	},
	{
		name: "with the capabilities, the profile and the masks", flags: capable,
		failed: append([]string{"userns.create", "proc.fresh"}, noCgroups...),
		reason: "userns.create", words: []string{"AppArmor profile", "containers-default", "apparmor=unconfined"},
	},
	{
		name: "with the capabilities and the masks", flags: slices.Concat(capable, unconfined),
		failed: append([]string{"proc.fresh"}, noCgroups...),
		reason: "proc.fresh", words: []string{"/proc/kcore", "unmask=ALL"},
	},
	{
		name: "with the masks of /proc alone", flags: slices.Concat(capable, unconfined, []string{"--security-opt", "unmask=/sys/fs/cgroup"}),
		failed: []string{"proc.fresh"}, reason: "proc.fresh", words: []string{"unmask=ALL"},
	},
	{
		name: "without capabilities", flags: slices.Concat(unmasked, unconfined, unfiltered),
		failed: []string{"root.capabilities"}, reason: "root.capabilities",
	},
	// What the four say, done.
	{name: "with all that doctor says", flags: slices.Concat(capable, unconfined, unmasked)},
	{
		name: "under a filter like Docker's", flags: append([]string{"--security-opt", "seccomp=DENY"}, privileged...),
		failed: []string{"userns.create"}, reason: "userns.create", words: []string{"a seccomp filter", "seccomp=unconfined"},
	},
	{name: "privileged", flags: privileged},
	{
		name: "a user in a privileged one", flags: append([]string{"--user", "1000"}, privileged...), uid: 1000,
		failed: noCgroups, reason: "cgroup.manager", words: []string{"memory, pids, cpu", "best-effort"},
	},
	{
		name: "a user's", user: "ranged",
		failed: append([]string{"root.capabilities", "proc.fresh", "root.uid_range"}, noCgroups...), reason: "root.capabilities",
	},
	{
		name: "a user's, privileged", user: "ranged", flags: privileged,
		failed: []string{"root.uid_range"}, reason: "root.uid_range", words: []string{"/proc/self/uid_map", "1900000000-1900065535"},
	},
	{name: "a user's, privileged, with ids that it has", user: "ranged", flags: privileged, policy: true},
}

// containedPolicy names ids that a user's container with 65536 has.
const containedPolicy = `version = 1
extends = "builtin"

[root]
uid_range = "20000-29999"
`

// denied is what Docker's filter denies a container without CAP_SYS_ADMIN: new
// namespaces and mounts. clone3's flags are out of a filter's sight, so it isn't there.
const denied = `{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
 {"names": ["unshare", "setns", "mount"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1},
 {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38},
 {"names": ["clone"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1,
  "args": [{"index": 0, "value": 268435456, "valueTwo": 268435456, "op": "SCMP_CMP_MASKED_EQ"}]}]}
`

// nested is jailer inside a container and inside another jail: there it works with
// all its limits, or says truly what keeps it from that.
func nested(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("not root")
	}
	podman := need.Program(t, "podman")
	for _, c := range containers {
		t.Run(c.name, func(t *testing.T) {
			in := newContained(t, podman, c)
			fs := diagnosis(t, in.do(t, jail.Job{Raw: true}, "doctor", "--json"), c.uid, c.failed)
			o := in.do(t, job, "run", "--json", "--", "sh", "-c", job.Sh)
			if c.reason == "" {
				ran(t, o, "cgroup2")
				in.oom(t)
				return
			}
			refused(t, o, c.reason, c.words...)
			if !slices.ContainsFunc(c.failed, func(id string) bool { return id == c.reason || fs[id].Cause == c.reason }) {
				t.Errorf("doctor didn't foresee %s: %q", c.reason, c.failed)
			}
		})
	}
	t.Run("the host's cgroup namespace", func(t *testing.T) { hostCgroups(t, podman) })
	t.Run("in a jail", inJail)
}

// contained runs jailer in one container after another.
type contained struct {
	container
	podman string
	caller *jail.Caller
	root   string // directory that is the container's root
}

func newContained(t *testing.T, podman string, c container) *contained {
	t.Helper()
	in := &contained{container: c, podman: podman, caller: &jail.Caller{Name: "root"}}
	if c.user != "" {
		u, err := accounts.Lookup(c.user)
		if err != nil {
			t.Fatal(err)
		}
		if in.caller.UID, err = strconv.Atoi(u.Uid); err != nil {
			t.Fatal(err)
		}
	}
	in.caller.Home = jail.TempDir(t, in.caller.UID)
	in.root = filepath.Join(in.caller.Home, "root")
	// No image: a directory is the root, and the host's /usr comes in as a volume.
	script := `mkdir -p "$1"/usr "$1"/etc "$1"/proc "$1"/sys "$1"/dev "$1"/tmp "$1"/run "$1"/opt
for d in bin sbin lib lib64; do ln -s usr/$d "$1"/$d; done
chmod 1777 "$1"/tmp
cp /etc/passwd /etc/group /etc/ld.so.cache "$1"/etc
cp "$2" "$1"/opt/jailer
printf '%s' "$3" >"$1"/opt/policy.toml
printf '%s' "$4" >"$1"/../deny.json`
	cmd := in.caller.Exec(t.Context(), "/bin/sh", "-euc", script, "sh", in.root, jail.Program(), containedPolicy, denied)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return in
}

// do runs jailer with args in a container that is then gone.
func (in *contained) do(t *testing.T, j jail.Job, args ...string) *jail.Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), jail.Deadline)
	defer cancel()
	run := []string{"run", "--rm", "--network", "none", "--log-driver", "none", "--volume", "/usr:/usr:ro"}
	for _, f := range in.flags {
		run = append(run, strings.ReplaceAll(f, "DENY", filepath.Join(in.caller.Home, "deny.json")))
	}
	run = append(run, "--rootfs", in.root, "/opt/jailer")
	if in.policy {
		args = slices.Insert(args, 1, "--policy", "/opt/policy.toml")
	}
	cmd := in.caller.Exec(ctx, in.podman, append(run, jail.Patient(args)...)...)
	if uid := in.caller.UID; uid != 0 {
		dir := "/run/user/" + strconv.Itoa(uid)
		home, err := accounts.LookupId(strconv.Itoa(uid))
		if err != nil {
			t.Fatal(err)
		}
		cmd.Env = append(cmd.Env, "HOME="+home.HomeDir, "XDG_RUNTIME_DIR="+dir, "DBUS_SESSION_BUS_ADDRESS=unix:path="+dir+"/bus")
	}
	return jail.Finish(t, j, cmd)
}

// oom hits a limit, which is to be jailer's own.
func (in *contained) oom(t *testing.T) {
	t.Helper()
	o := in.do(t, job, "run", "--json", "--memory", "32M", "--", "sh", "-c", "head -c 128M /dev/zero | tail -n 1 >/dev/null; sleep 100")
	if r := o.Ran(t); r.Status != jailer.StatusOOMKilled {
		t.Errorf("128 MiB with a limit of 32: %s\n%s", r.Status, o)
	}
}

// hostCgroups: whoever mounts cgroup2 in the host's cgroup namespace sets its
// options for the whole host, and podman's runtime sets none. jailer works there, and
// doctor sees on the host what was lost.
func hostCgroups(t *testing.T, podman string) {
	in := newContained(t, podman, container{flags: append([]string{"--cgroupns", "host"}, privileged...)})
	c := jail.Root(t)
	found(t, doctor(t, c), "cgroup.nsdelegate", "yes")
	options := cgroupOptions(t)
	ran(t, in.do(t, job, "run", "--json", "--", "sh", "-c", job.Sh), "cgroup2")
	f := found(t, doctor(t, c), "cgroup.nsdelegate", "no")
	if f.Needed {
		t.Errorf("doctor: %+v", f)
	}
	if out, err := exec.Command("/bin/sh", "-euc", section(t, "cgroup.nsdelegate")).CombinedOutput(); err != nil {
		t.Fatalf("the page's step: %v: %s", err, out)
	}
	found(t, doctor(t, c), "cgroup.nsdelegate", "yes")
	if now := cgroupOptions(t); now != options {
		t.Errorf("cgroup2 was mounted with %s, and now with %s", options, now)
	}
	ran(t, c.Run(t, job), "cgroup2")
}

// cgroupOptions are those of the mounted cgroup2, for the whole host.
func cgroupOptions(t *testing.T) string {
	t.Helper()
	return sh(t, "", "findmnt -n -o FS-OPTIONS /sys/fs/cgroup")
}

// inJail: a jail permits no other inside it, with whatever policy.
func inJail(t *testing.T) {
	const bin = "/usr/bin/jailer" // the view of the host shows no other place
	program, err := os.ReadFile(jail.Program())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(bin); err == nil {
		t.Fatalf("%s is there", bin)
	}
	if err := os.WriteFile(bin, program, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(bin) })
	inside := func(t *testing.T, args string) *jail.Outcome {
		t.Helper()
		outer := jail.Root(t).Run(t, jail.Job{Sh: "printf '%s' '" + jail.BestEffort + "' >best.toml; jailer --state-dir /tmp/s " + args + "; echo $? >&2"})
		r := outer.Exited(t, 0)
		lines := strings.Split(strings.TrimSpace(outer.ErrOut()), "\n")
		code, err := strconv.Atoi(lines[len(lines)-1])
		if err != nil {
			t.Fatalf("%+v\n%s", r, outer)
		}
		return &jail.Outcome{Code: code, Stdout: outer.Out(), Stderr: outer.ErrOut()}
	}
	for name, policy := range map[string]string{"built in": "", "best effort": " --policy /workspace/best.toml"} {
		t.Run(name, func(t *testing.T) {
			failed := []string{"userns.create", "proc.fresh", "cgroup.hierarchy"}
			if policy == "" {
				failed = append(failed, noCgroups...)
			}
			diagnosis(t, inside(t, "doctor --json"+policy), 1000, failed)
			o := inside(t, "run --json"+policy+" -- sh -c \"echo RAN\"")
			o.Read(t)
			refused(t, o, "userns.create", "a seccomp filter", "beside it")
		})
	}
}
