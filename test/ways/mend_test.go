package ways

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jailer-project/jailer/internal/host"
	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

// section is the first block of a section of docs/host-setup.md.
func section(t *testing.T, id string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(jail.Module(), "docs/host-setup.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(b), "\n### `"+id+"`\n")
	if !ok {
		t.Fatalf("no section for %s", id)
	}
	text, _, _ = strings.Cut(text, "\n### ")
	m := regexp.MustCompile("(?s)\n```(?:sh|toml)\n(.*?)```").FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("%s: no block", id)
	}
	return m[1]
}

// A damage is done by a script of root's, and undone by what doctor or the page
// says: a command as it stands there, but for the names of files and users. In the
// scripts $D is a directory of the caller's.
type damage struct {
	id     string
	script string
	failed []string // what doctor then says is missing; nil for a warning
	page   bool     // the page's block mends it; else what matches hint
	hint   string   // regular expression with one group, of doctor's hint
	names  []string // old and new, in what the page says
	policy string   // of the caller's; %s is $D
	state  string   // --state-dir, for one below $D
	undo   string   // what the test itself takes back
	better string   // the answer afterwards; "" is yes
	user   bool     // not root but the user "plain"
	// private: all of it happens in a mount namespace of its own.
	private bool
}

const (
	rootPolicy  = jail.BestEffort + "[rootfs.r]\npath = \"%s/r\"\n[profiles.default]\nextends = \"default\"\nrootfs = \"r\"\n"
	idsPolicy   = jail.BestEffort + "[profiles.default]\nextends = \"default\"\nids = \"range\"\n"
	uidPolicy   = jail.BestEffort + "[root]\nuid_range = \"500000-500100\"\n"
	busyboxRoot = "mkdir -p $D/r/bin && cp /bin/busybox $D/r/bin/sh && "
)

var damages = []damage{
	{id: "userns.max", script: "sysctl -qw user.max_user_namespaces=0", failed: []string{"userns.max", "userns.create"}, page: true},
	{id: "userns.max", script: "sysctl -qw user.max_user_namespaces=0", failed: []string{"userns.max", "userns.create"}, hint: "^(sysctl .*)$"},
	{id: "userns.clone", script: "sysctl -qw kernel.unprivileged_userns_clone=0", failed: []string{"userns.clone"}, page: true},
	{
		id: "userns.max", user: true, policy: jail.BestEffort, script: "sysctl -qw user.max_user_namespaces=0",
		failed: []string{"userns.max", "userns.create"}, hint: "^(sysctl .*)$",
	},
	{
		id: "userns.clone", user: true, policy: jail.BestEffort, script: "sysctl -qw kernel.unprivileged_userns_clone=0",
		failed: []string{"userns.clone", "userns.create"}, hint: "^(sysctl .*)$",
	},
	{id: "namespaces.max", script: "sysctl -qw user.max_net_namespaces=0", failed: []string{"namespaces.max", "userns.create"}, page: true},
	{id: "namespaces.max", script: "sysctl -qw user.max_uts_namespaces=0", failed: []string{"namespaces.max", "userns.create"}, hint: "^(sysctl .*)$"},
	{id: "core.pattern", script: "sysctl -qw kernel.core_pattern='|/bin/false %p'", page: true},
	{id: "cgroup.nsdelegate", script: "mount -t cgroup2 none $D && umount $D", page: true},
	{
		id: "cgroup.base.owner", script: "mkdir -p /sys/fs/cgroup/jailer && chown plain /sys/fs/cgroup/jailer",
		failed: []string{"cgroup.base.owner"}, page: true,
	},
	{
		id: "cgroup.mounted", script: "umount -l /sys/fs/cgroup", page: true, private: true,
		failed: append([]string{"cgroup.hierarchy"}, noCgroups...),
	},
	{
		id: "cgroup.mountpoint", page: true, private: true, failed: noCgroups,
		script: "mkdir $D/cg && mount -t cgroup2 -o nsdelegate,memory_recursiveprot none $D/cg && umount -l /sys/fs/cgroup",
	},
	{
		id: "cgroup.readonly", script: "mount -o remount,bind,ro /sys/fs/cgroup", hint: "(remount) it read-write", private: true, failed: noCgroups,
	},
	{
		id: "ids.subuid", user: true, policy: idsPolicy, script: ":", failed: []string{"ids.subuid"}, page: true, names: []string{"USER", "plain"},
		undo: "sed -i /^plain:/d /etc/subuid /etc/subgid",
	},
	{
		id: "ids.newuidmap", user: true, policy: idsPolicy, failed: []string{"ids.newuidmap"}, hint: "(chown root [^ ]* && chmod u\\+s [^ ,]*)",
		script: "chmod u-s /usr/bin/newgidmap; echo plain:700000:65536 | tee -a /etc/subuid >>/etc/subgid",
		undo:   "sed -i /^plain:/d /etc/subuid /etc/subgid",
	},
	{id: "rootfs", policy: rootPolicy, script: ":", failed: []string{"rootfs"}, hint: "(unpack) a root", names: nil},
	{
		id: "rootfs.entries", policy: rootPolicy, script: busyboxRoot + "chmod 700 $D/r/bin", hint: "^(chmod .*)$",
	},
	{
		id: "rootfs.entries", policy: rootPolicy, script: busyboxRoot + "mv $D/r/bin $D/r/usr && chmod 700 $D/r/usr && ln -s usr $D/r/bin", page: true,
		names: []string{"/srv/roots/py312", "$D/r"},
	},
	{
		id: "rootfs.exec", policy: rootPolicy, page: true, names: []string{"/srv/roots/py312", "$D/r"},
		script: "mkdir $D/r && mount -t tmpfs -o noexec none $D/r && " + busyboxRoot + ":", undo: "umount $D/r",
	},
	{
		id: "rootfs.source", policy: rootPolicy, script: busyboxRoot + "chown plain $D/r && chmod 775 $D/r/bin", page: true, better: "unknown",
		names: []string{"/srv/roots/py312", "$D/r"},
	},
	{
		id: "rootfs.search", state: "closed/state", script: "mkdir -m 700 $D/closed", failed: []string{"rootfs.search"}, page: true,
		names: []string{"/srv/jailer-state", "$D/closed"},
	},
	{id: "rootfs.search", state: "closed/state", script: "mkdir -m 700 $D/closed", failed: []string{"rootfs.search"}, hint: "^(chmod o\\+x [^ ,]*)"},
	{id: "state.dir", state: "theirs", script: "mkdir -m 700 $D/theirs && chown plain $D/theirs", failed: []string{"state.dir"}, hint: "^(remove) it"},
}

// byHand is what stands for a hint in words.
var byHand = map[string]string{
	"remount": "mount -o remount,bind,rw /sys/fs/cgroup", // as on the page
	"unpack":  busyboxRoot + ":",
	"remove":  "rm -r $D/theirs",
}

// mend does damage to this host, wants doctor to name it and a run to be refused
// for it, does what it is told, and wants both to be well.
func mend(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("not root")
	}
	for i, d := range damages {
		t.Run(fmt.Sprintf("%02d %s", i, d.id), func(t *testing.T) { d.try(t) })
	}
	t.Run("net.egress", func(t *testing.T) {
		step := section(t, "net.egress")
		sh(t, "", step)
		if out := sh(t, "", "ip rule; ip -6 rule"); strings.Count(out, "uidrange 1900000000-1900065535 prohibit") != 2 {
			t.Errorf("the rules are %q", out)
		}
		sh(t, "", strings.ReplaceAll(step, "rule add", "rule del"))
	})
}

func (d damage) try(t *testing.T) {
	c := jail.Root(t)
	if d.user {
		c = jail.User(t)
		plain := strings.Fields(sh(t, "", "id -u plain"))
		if _, err := fmt.Sscan(plain[0], &c.UID); err != nil {
			t.Fatal(err)
		}
		c.Home = jail.TempDir(t, c.UID)
	}
	c.Policy = ""
	if d.policy != "" {
		c = c.WithPolicy(t, "p.toml", strings.ReplaceAll(d.policy, "%s", c.Home))
	}
	flags := []string(nil)
	if d.state != "" {
		flags = []string{"--state-dir", filepath.Join(c.Home, d.state)}
	}
	inside := func(*exec.Cmd) {}
	if d.private {
		inside = namespace(t)
	}
	run := func() *jail.Outcome {
		j := with(flags...)
		j.Setup = inside
		return c.Run(t, j)
	}
	diagnose := func(failed []string) finding {
		t.Helper()
		args := append([]string{"doctor", "--json"}, flags...)
		if c.Policy != "" {
			args = append(args, "--policy", c.Policy)
		}
		return diagnosis(t, c.Do(t, jail.Job{Raw: true, Setup: inside}, args...), c.UID, failed)[d.answer()]
	}

	// A damage that the test could not mend must not be another's.
	before := sysctls(t)
	t.Cleanup(func() {
		for name, v := range before {
			if err := os.WriteFile(name, []byte(v), 0o644); err != nil {
				t.Error(err)
			}
		}
		if d.undo != "" {
			sh(t, c.Home, d.undo)
		}
	})
	shIn(t, inside, c.Home, d.script)
	f := diagnose(d.failed)
	if f.State != "no" || f.Hint == "" {
		t.Errorf("doctor: %+v", f)
	}
	if d.failed != nil {
		o := run()
		if o.Err == nil || !slices.ContainsFunc([]string{f.ID, f.Cause}, func(id string) bool { return id == o.Err.Reason }) || o.Err.Hint == "" {
			t.Errorf("the run: want a refusal with %s or %s, got\n%s", f.ID, f.Cause, o)
		}
	}
	shIn(t, inside, c.Home, d.remedy(t, f))
	want := d.better
	if want == "" {
		want = "yes"
	}
	if f := diagnose(nil); f.State != want {
		t.Errorf("mended: %+v, want %s", f, want)
	}
	run().Said(t, "RAN\n")
}

// answer is the id whose line tells of the damage: causes are told by others.
func (d damage) answer() string {
	for _, e := range host.Catalog() {
		if e.ID == d.id && e.Cause {
			return "cgroup.memory"
		}
	}
	return d.id
}

func (d damage) remedy(t *testing.T, f finding) string {
	t.Helper()
	if d.page {
		text := section(t, d.id)
		for i := 0; i < len(d.names); i += 2 {
			if !strings.Contains(text, d.names[i]) {
				t.Errorf("the page has no %q", d.names[i])
			}
			text = strings.ReplaceAll(text, d.names[i], d.names[i+1])
		}
		return text
	}
	m := regexp.MustCompile(d.hint).FindStringSubmatch(f.Hint)
	if m == nil {
		t.Fatalf("the hint %q doesn't match %q", f.Hint, d.hint)
	}
	if s, ok := byHand[m[1]]; ok {
		return s
	}
	return m[1]
}

// sysctls are the values that the damages change.
func sysctls(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, name := range []string{
		"user/max_user_namespaces", "user/max_net_namespaces", "user/max_uts_namespaces",
		"kernel/unprivileged_userns_clone", "kernel/core_pattern",
	} {
		b, err := os.ReadFile("/proc/sys/" + name)
		if err != nil {
			t.Fatal(err)
		}
		out["/proc/sys/"+name] = string(b)
	}
	return out
}

// namespace makes a mount namespace that lasts as long as the test, and returns
// what moves a command into it.
func namespace(t *testing.T) func(*exec.Cmd) {
	t.Helper()
	holder := exec.Command(need.Program(t, "unshare"), "--mount", "--propagation", "private", "sh", "-c", "echo; exec sleep 1000")
	ready, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = holder.Process.Kill()
		_ = holder.Wait()
	})
	if _, err := ready.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	nsenter := need.Program(t, "nsenter")
	return func(cmd *exec.Cmd) {
		cmd.Args = append([]string{nsenter, fmt.Sprintf("--mount=/proc/%d/ns/mnt", holder.Process.Pid), "--", cmd.Path}, cmd.Args[1:]...)
		cmd.Path = nsenter
	}
}

// sh runs a script as root, with $D.
func sh(t *testing.T, dir, script string) string {
	t.Helper()
	return shIn(t, func(*exec.Cmd) {}, dir, script)
}

func shIn(t *testing.T, inside func(*exec.Cmd), dir, script string) string {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-euc", script)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "D=" + dir}
	inside(cmd)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", script, err, out)
	}
	return string(out)
}

// elsewhere are the ids whose steps another way or test takes.
var elsewhere = map[string]string{
	"cgroup.delegation":            "the way delegated",
	"cgroup.delegation.CONTROLLER": "the way dropin",
	"cgroup.cpu":                   "the ways partial and dropin",
	"cgroup.memory":                "the way nomanager", "cgroup.pids": "the way nomanager",
	"cgroup.manager": "the way nomanager, by what ends it", "cgroup.manager.bus": "the way unequipped, by what ends it",
	"apparmor.profile":  "the ways apparmor and armorroot",
	"root.capabilities": "the way nested", "userns.create": "the way nested", "proc.fresh": "the way nested",
	"root.uid_range": "the way nested", "cgroup.hierarchy": "cgroup.mounted", "net.egress": "the way mend itself",
	"data.dir": "TestDoctorDataDir of cmd/jailer",
}

// untried are the ids whose steps the guest can't take, and why.
var untried = map[string]string{
	"kernel.floor": "another kernel", "kernel.arch": "another processor", "kernel.bugs": "a mirror and a boot", "kernel.patches": "a mirror and a boot",
	"build.seccomp": "a build", "build.intact": "a build", "userns.apparmor": "Ubuntu's kernel", "landlock": "a boot", "seccomp.kernel": "another kernel",
	"apparmor": "a boot", "seccomp.profile": "a report of the policy's own", "ids.range.root": "a policy's word",
	"cgroup.cpuset": "nothing to mend that isn't another's", "cgroup.io": "the same", "cgroup.cpus": "a policy's word",
	"cgroup.controller.CONTROLLER": "a boot", "cgroup.v2only.CONTROLLER": "cgroup v1", "cgroup.split": "a boot", "cgroup.v1.CONTROLLER": "cgroup v1", "cgroup.readonly.CONTROLLER": "cgroup v1",
	"cgroup.manager.timeout": "the same step as cgroup.manager.bus", "cgroup.manager.scope": "a manager that refuses",
	"cgroup.own": "a container of another kind", "cgroup.threaded": "the same step as cgroup.delegation", "cgroup.kill": "cgroup v1",
	"events.sink": "a policy's word: its step makes the directory that one names",
	"cgroup.swap": "a boot", "clock.boottime": "a suspended host", "clock.synced": "a network", "require.NAME": "a policy's word",
}

// TestEveryStep: each section of the page is tried, or it is said why not.
func TestEveryStep(t *testing.T) {
	tried := maps.Clone(elsewhere)
	for _, d := range damages {
		tried[d.id] = "here"
	}
	for _, e := range host.Catalog() {
		_, no := untried[e.ID]
		if _, yes := tried[e.ID]; !e.Run && yes == no {
			t.Errorf("%s: tried %v, said to be untried %v", e.ID, yes, no)
		}
	}
	for _, m := range []map[string]string{tried, untried} {
		for id := range m {
			if !slices.ContainsFunc(host.Catalog(), func(e host.Entry) bool { return e.ID == id && !e.Run }) {
				t.Errorf("%s is in no catalogue", id)
			}
		}
	}
}
