package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jailer-project/jailer/test/vm/plan"
)

// lacks is what no guest has, so that only these skips are accepted; the ways that
// load jailer's AppArmor profiles require them by their name.
const lacks = "apparmor-loaded,cgroup1,hybrid,undelegated,go,npm,core-pipe,x32"

// common is the environment of every way. Emulated, a fork costs fourteen times
// what it costs on the host and an exec forty times: time-outs are stretched, and
// counts are small.
var common = map[string]string{
	"JAILER_REQUIRE": "all", "JAILER_LACKS": lacks, "JAILER_TIME_SCALE": "15",
	"KILLS": "10", "RUNS": "100", "RACETIME": "2s",
}

func env(more ...string) map[string]string {
	m := maps.Clone(common)
	for i := 0; i < len(more); i += 2 {
		if more[i] == "JAILER_LACKS" {
			m[more[i]] += "," + more[i+1]
			continue
		}
		m[more[i]] = more[i+1]
	}
	return m
}

// guestIsReal shows what the tests take for granted of the guest: AppArmor that
// denies, swap, controllers, and users with and without subordinate ids.
var guestIsReal = plan.Job{Name: "guest", Limit: 2 * time.Minute, Argv: []string{"/bin/sh", "-euxc", `
printf 'profile bed-probe { file, deny /etc/hostname r, }' | apparmor_parser -r
aa-exec -p bed-probe /bin/cat /etc/passwd >/dev/null
if aa-exec -p bed-probe /bin/cat /etc/hostname; then exit 1; fi
printf 'profile bed-probe { }' | apparmor_parser -R
[ "$(wc -l </proc/swaps)" -gt 1 ]
grep -qw cpu /sys/fs/cgroup/cgroup.controllers && grep -qw memory /sys/fs/cgroup/cgroup.controllers && grep -qw pids /sys/fs/cgroup/cgroup.controllers
grep -q '^ranged:' /etc/subuid
if grep -q '^plain:' /etc/subuid; then exit 1; fi
grep -q ' /sys/fs/cgroup cgroup2 .*nsdelegate' /proc/mounts
`}}

// way runs the tests of the answers, of which the way's own must be one.
func way(name string) plan.Job { return tests("test/ways", "", "TestWay/"+name) }

// tests runs the tests of a package that match a pattern.
func tests(dir, run string, must ...string) plan.Job {
	j := plan.Job{Name: dir, Dir: dir, Test: true, Must: must, Limit: 31 * time.Minute}
	j.Argv = []string{binary(j), "-test.v=test2json", "-test.timeout=30m"}
	if run != "" {
		j.Argv = append(j.Argv, "-test.run="+run)
	}
	return j
}

// without leaves tests out.
func without(j plan.Job, skip string) plan.Job {
	j.Argv = append(j.Argv, "-test.skip=^("+skip+")$")
	return j
}

// musts are the rows of test/run that every big way is there for.
func musts(caller string) []string {
	var out []string
	for _, row := range []string{
		"TestTimeLimits/%s/CPU_time", "TestTimeLimits/%s/17_stopped", "TestMemoryLimit/%s/25a_the_command",
		"TestMemoryLimit/%s/26_a_child,_and_the_parent_exits_0", "TestMemoryLimit/%s/27_swap_is_no_way_out",
		"TestProcessLimit/%s/35_fork_bomb", "TestSpaceLimits/%s/36_bytes_of_/workspace",
	} {
		out = append(out, fmt.Sprintf(row, caller))
	}
	return out
}

// sessions are the tests of sessions whose outcome a kernel decides, for a user.
const sessions = "TestSession|TestExec|TestTerminal|TestOneOfMany|TestEnds$|TestKill$|TestMemoryLeftBehind|TestCommandsLeaveNothing|TestSurvivors|TestAnotherUser|" +
	"TestFiles$|TestExportImport|TestExportOfRun|TestWorkspace$|TestWorkspaceQuota|TestWorkspaceFull"

// What of the suite each of the two big ways runs, unless it is to be all: what a
// kernel, a host or its user decides. The rest is shown as well without a guest.
var (
	rootJobs = []plan.Job{
		tests("test/run", "TestTimeLimits|TestMemoryLimit|TestProcessLimit|TestLimitsAreSet|TestSwapIsDenied|TestCPUSet|TestIORate|TestPressure|TestSmallest|"+
			"TestCgroupsUntouched|TestStormEnds|TestHostUID|TestInterruptOfTheGroup", musts("root")[:6]...),
		tests("test/prereq", "TestNoDelegation|TestRootUIDs|TestHostPolicy|TestNoUserNamespaces|TestStateDirectory"),
		tests("test/crash", ""),
		tests("test/session", "TestSession|TestExec|TestOneOfMany|TestEnds$|TestKill$|TestCommandsLeaveNothing|TestAnotherUser|TestMany|TestCollectors|"+
			"TestFiles$|TestFilesHostile|TestExportOfRun|TestWorkspace$|TestWorkspaceQuota|TestTwoWriters|TestWorkspaceReadOnly|TestWorkspaceHard"), tests("test/api", ""),
		tests("cgroup", ""),
		// The host's kernel may have neither project quotas nor a newer file system.
		tests("internal/workspace", "TestProjectQuota|TestQuotaNotEnforced|TestWatch$|TestKilledHolder"),
		tests("internal/pid1", "TestCgroupV2|TestRange|TestJobIdentity|TestJobLimits|TestJobStorms|TestJobAgainstPID1"),
	}
	userJobs = []plan.Job{
		without(tests("test/run", "", musts("user")...), "TestTools|TestRequestDenied|TestRequestAccepted|TestStdin|TestEvents.*|TestClient.*|TestOutputRaw|TestOutputEvents|TestPipelines|"+
			"TestResultElsewhere|TestExitRaw|TestStrict.*|TestOwnProfile|TestPtraceRefused|TestFilterLoaded|TestStormEnds|TestManyAtOnce|TestSignalWhileStarting|"+
			"TestSeed.*|TestProgramSize|TestPrograms|TestRequestRefused|TestOutput.*|TestEnvironment|TestStdinUntouched|TestCgroupsUntouched"),
		without(tests("test/prereq", ""), "TestFewDescriptors|TestDamagedProgram"),
		tests("test/escape", ""),
		without(tests("test/crash", ""), "TestSoak"),
		tests("test/session", sessions), tests("test/presets", ""),
	}
	allJobs = []plan.Job{
		tests("test/run", ""), tests("test/tty", ""), tests("test/prereq", ""), tests("test/escape", ""),
		tests("test/crash", ""), tests("test/session", ""), tests("test/api", ""), tests("cgroup", ""), tests("internal/pid1", ""), tests("internal/host", ""), tests("internal/workspace", ""),
		tests("cmd/jailer", ""), tests("test/presets", ""),
	}
)

// delegate gives users' managers only some controllers, or all again.
func delegate(controllers string) string {
	return `
mkdir -p /run/systemd/system/user@.service.d
printf '[Service]\nDelegate=\nDelegate=` + controllers + `\n' >/run/systemd/system/user@.service.d/zz-bed.conf
systemctl daemon-reload
systemctl restart user@$(id -u plain).service`
}

// asPlain becomes the user and nothing else.
const asPlain = `setpriv --reuid=$(id -u plain) --regid=$(id -g plain) --init-groups --`

const undelegate = `
rm /run/systemd/system/user@.service.d/zz-bed.conf
systemctl daemon-reload
systemctl restart user@$(id -u plain).service`

// nestedSetup runs a container for each user of podman: the first one enables
// controllers, makes slices and, for a user, leaves a process that holds his namespaces.
const nestedSetup = `
for u in root ranged; do
	d=$(mktemp -d)
	mkdir "$d/bin" "$d/dev" "$d/proc" "$d/sys" "$d/run" "$d/etc" "$d/tmp"
	cp /bin/busybox "$d/bin/true"
	chown -R "$u" "$d"
	runuser -u "$u" -- env XDG_RUNTIME_DIR=/run/user/$(id -u "$u") HOME="$(getent passwd "$u" | cut -d: -f6)" \
		podman run --rm --network none --log-driver none --rootfs "$d" /bin/true
	rm -rf "$d"
done
# systemd removes podman's own scope when it has heard of its end.
for i in $(seq 50); do
	ls -d /sys/fs/cgroup/user.slice/user-*.slice/user@*.service/user.slice/podman-[0-9]*.scope >/dev/null 2>&1 || break
	sleep 0.2
done`

var ways = []plan.Way{
	{
		Name: "root", What: "root, cgroup v2", User: "root", Place: plan.Guest,
		// The users are the other ways, and what no kernel interface decides is
		// shown by one of them.
		Env:  env("JAILER_CALLERS", "self"),
		Jobs: append([]plan.Job{way("root"), guestIsReal}, rootJobs...),
	},
	{
		Name: "delegated", What: "a user with a delegated subtree", User: "plain", Place: plan.Own,
		// As many kills as make the point: the way "root" does them all, and the runs.
		Env:  env("JAILER_LIMITS", "required", "JAILER_LACKS", "root", "KILLS", "5"),
		Jobs: append([]plan.Job{way("delegated")}, userJobs...),
	},
	{
		Name: "ranged", What: "a user with subordinate ids", User: "ranged", Place: plan.Own,
		Env:  env("JAILER_LIMITS", "required", "JAILER_LACKS", "root"),
		Jobs: []plan.Job{way("ranged")},
	},
	{
		Name: "partial", What: "delegation of memory and pids only", User: "plain", Place: plan.Own,
		Env:   env("JAILER_LACKS", "root"),
		Setup: delegate("memory pids"), Teardown: undelegate,
		Jobs: []plan.Job{way("partial")},
	},
	{
		// As cron and services do: no delegation, and no XDG_RUNTIME_DIR.
		Name: "none", What: "no delegation, a lingering user manager", User: "plain", Place: plan.System,
		Env: env("JAILER_LIMITS", "required", "JAILER_LACKS", "root"),
		// A supervisor moves itself to a scope, and outlives who asked for it.
		Jobs: []plan.Job{way("none"), tests("test/session", "TestSession|TestOneOfMany")},
	},
	{
		// As sshd does: PAM opens a session of logind's.
		Name: "session", What: "a login session", User: "plain", Place: plan.System,
		Env: env("JAILER_LIMITS", "required", "JAILER_LACKS", "root"),
		Enter: `
names=$(env | sed -n 's/^\([A-Z_][A-Z0-9_]*\)=.*/\1/p' | paste -sd,)
exec runuser -l -w "$names" -c 'cd "$0" && exec "$@"' -- plain "$PWD" "$@"`,
		Jobs: []plan.Job{way("session")},
	},
	{
		Name: "pidns", What: "no delegation, in another pid namespace", User: "plain", Place: plan.System,
		Env:   env("JAILER_LIMITS", "required", "JAILER_LACKS", "root"),
		Enter: `exec unshare --pid --fork --kill-child --mount-proc ` + asPlain + ` "$@"`,
		Jobs:  []plan.Job{way("pidns")},
	},
	{
		Name: "container", What: "a container: private cgroup namespace, the user's cgroup its root", User: "plain", Place: plan.System,
		Env: env("JAILER_LIMITS", "required", "JAILER_LACKS", "root"),
		// What the caller's cgroups leave is the container's, and goes with it.
		Enter: `
box=/sys/fs/cgroup/bed-box
mkdir $box
chown plain $box $box/cgroup.procs $box/cgroup.threads $box/cgroup.subtree_control
status=0
(
	echo 0 >$box/cgroup.procs
	exec unshare --cgroup --mount sh -euc 'mount -t cgroup2 none /sys/fs/cgroup; exec ` + asPlain + ` "$@"' sh "$@"
) || status=$?
if find $box -type d -name 'jail-*' | grep .; then
	status=97
fi
find $box -depth -type d -exec rmdir {} ';'
exit $status`,
		Jobs: []plan.Job{way("container")},
	},
	{
		Name: "unequipped", What: "a user manager without a message bus", User: "plain", Place: plan.System,
		Env: env("JAILER_LACKS", "root"),
		Setup: `
uid=$(id -u plain)
runuser -u plain -- env XDG_RUNTIME_DIR=/run/user/$uid systemctl --user stop dbus.socket dbus.service
rm -f /run/user/$uid/bus`,
		Teardown: `systemctl restart user@$(id -u plain).service`,
		Jobs:     []plan.Job{way("unequipped")},
	},
	{
		Name: "hung", What: "a message bus that never answers", User: "plain", Place: plan.System,
		Env:  env("JAILER_LACKS", "root"),
		Jobs: []plan.Job{way("hung")},
	},
	{
		Name: "nomanager", What: "no user manager", User: "plain", Place: plan.System,
		Env: env("JAILER_LACKS", "root"),
		Setup: `
loginctl disable-linger plain
systemctl stop user@$(id -u plain).service user-runtime-dir@$(id -u plain).service user-$(id -u plain).slice`,
		Teardown: `
loginctl enable-linger plain
systemctl start user@$(id -u plain).service`,
		Jobs: []plan.Job{way("nomanager")},
	},
	{
		// What the refusal of the way before tells an administrator to do.
		Name: "dropin", What: "the hint of a refusal, followed", User: "plain", Place: plan.Own,
		Env: env("JAILER_LACKS", "root"),
		// The restriction stays, in a file that comes before the drop-in: without
		// the drop-in it is the way "partial".
		Setup: `
f=/etc/systemd/system/user@.service.d/delegate.conf
rm $f` + delegate("memory pids") + `
mv /run/systemd/system/user@.service.d/zz-bed.conf /run/systemd/system/user@.service.d/00-bed.conf
systemctl daemon-reload
systemctl restart user@$(id -u plain).service
try() {
	runuser -u plain -- env XDG_RUNTIME_DIR=/run/user/$(id -u plain) systemd-run --user --quiet --pipe --wait --collect \
		-p Delegate=yes /bed/tree/bin/jailer run -- true
}
if said=$(try 2>&1); then
	echo "it works without the drop-in"
	exit 1
fi
case $said in
*"cpu: not delegated"*) ;;
*)
	echo "refused, but not for want of the drop-in: $said"
	exit 1
	;;
esac
mkdir -p /etc/systemd/system/user@.service.d
printf '[Service]\nDelegate=cpu cpuset io memory pids\n' >$f
systemctl daemon-reload
systemctl restart user@$(id -u plain).service`,
		Teardown: "mv /run/systemd/system/user@.service.d/00-bed.conf /run/systemd/system/user@.service.d/zz-bed.conf" + undelegate,
		Jobs:     []plan.Job{way("dropin")},
	},
	{
		Name: "nouserns", What: "user namespaces switched off", User: "plain", Place: plan.Own,
		Env:      env("JAILER_LACKS", "root"),
		Setup:    "sysctl -qw user.max_user_namespaces=0",
		Teardown: "sysctl -qw user.max_user_namespaces=15000",
		Jobs:     []plan.Job{way("nouserns")},
	},
	{
		Name: "noclone", What: "user namespaces for root only", User: "plain", Place: plan.Own,
		Env:      env("JAILER_LACKS", "root"),
		Setup:    "sysctl -qw kernel.unprivileged_userns_clone=0",
		Teardown: "sysctl -qw kernel.unprivileged_userns_clone=1",
		Jobs:     []plan.Job{way("noclone")},
	},
	{
		Name: "apparmor", What: "AppArmor: a delegated user", User: "plain", Place: plan.Own,
		Env:   env("JAILER_LIMITS", "required", "JAILER_LACKS", "root", "JAILER_REQUIRE", "all,apparmor-loaded", "KILLS", "5"),
		Setup: armor, Teardown: disarm,
		Jobs: []plan.Job{
			way("apparmor"),
			tests("internal/pid1", "TestAppArmor"),
			tests("test/run", "TestTools"),
			tests("test/tty", "TestReach"),
			// AppArmor takes the parent-death signal away, and PID 1 sets it again.
			tests("test/crash", "TestKillLauncher"),
			tests("test/session", "TestSession|TestExec|TestTerminal|TestOthersEnvironment|TestFiles$|TestWorkspace$"),
		},
	},
	{
		Name: "armorroot", What: "AppArmor: root", User: "root", Place: plan.Guest,
		Env:   env("JAILER_CALLERS", "self", "JAILER_REQUIRE", "all,apparmor-loaded"),
		Setup: armor, Teardown: disarm,
		Jobs: []plan.Job{
			way("armorroot"), armorLabels,
			tests("test/escape", "TestAppArmorAlone|TestHostFeatures"),
			tests("internal/pid1", "TestAppArmor"),
			tests("test/session", "TestSession|TestExec|TestTerminal"),
		},
	},
	{
		Name: "mend", What: "a damage, and the mend that doctor and the page name", User: "root", Place: plan.Guest,
		Env:  env(),
		Jobs: []plan.Job{way("mend")},
	},
	{
		Name: "nested", What: "inside podman's containers, and inside a jail", User: "root", Place: plan.Guest,
		Env: env(),
		// What podman leaves behind is made before the cgroup tree is looked at.
		Setup: nestedSetup, Teardown: "runuser -u ranged -- env XDG_RUNTIME_DIR=/run/user/$(id -u ranged) HOME=/home/ranged podman system migrate",
		Jobs: []plan.Job{way("nested")},
	},
}

// armor loads jailer's AppArmor profiles: by the program where it is installed, to
// whose path the launcher's is attached.
const armor = `
cp /bed/tree/bin/jailer /usr/local/bin/jailer
/usr/local/bin/jailer apparmor load --install
test -s /etc/apparmor.d/jailer-default
/usr/local/bin/jailer apparmor status
`

// armorLabels are those of a jail whose user has a range of ids, for which PID 1's
// profile permits more; and of one whose launcher is unconfined only by its own
// profile, where the kernel lets no other change as it likes (a sysctl of Linux 6.7).
var armorLabels = plan.Job{Name: "labels", Limit: 5 * time.Minute, Argv: []string{"/bin/sh", "-euxc", `
policy=/run/armor.toml
printf 'version = 1\nextends = "builtin"\n[limits]\nenforce = "best-effort"\n[profiles.wide]\nextends = "default"\nids = "range"\n' >$policy
label() {
	[ "$(runuser -u "$1" -- "$2" run --policy $policy --profile "$3" --timeout 2m --apparmor required -- cat /proc/self/attr/apparmor/current)" = \
		"jailer-default//&jailer-default//job (enforce)" ]
}
label ranged /usr/local/bin/jailer wide
sysctl -qw kernel.apparmor_restrict_unprivileged_unconfined=1
label plain /usr/local/bin/jailer default
for user in plain root; do
	if said=$(label $user /bed/tree/bin/jailer default 2>&1); then
		echo "it runs without the launcher's profile"
		exit 1
	fi
	case $said in
	*'the label "jailer-default//&unconfined'*'jailer apparmor load'*) ;;
	*)
		echo "refused, but not for its label: $said"
		exit 1
		;;
	esac
done
sysctl -qw kernel.apparmor_restrict_unprivileged_unconfined=0
rm $policy
`}}

const disarm = `
apparmor_parser -R /etc/apparmor.d/jailer-default /etc/apparmor.d/jailer
rm /etc/apparmor.d/jailer-default /etc/apparmor.d/jailer /usr/local/bin/jailer
`

// in leaves out what the guest of a suite can't be, and says so: the AppArmor of
// bookworm, 3.0, knows neither user namespaces nor a profile for the launcher.
func in(suite string, p plan.Plan) (plan.Plan, error) {
	p.Ways = slices.DeleteFunc(slices.Clone(p.Ways), func(w plan.Way) bool {
		young := suite == "bookworm" && strings.Contains(w.Env["JAILER_REQUIRE"], "apparmor-loaded")
		if young {
			fmt.Printf("vm: NOT SHOWN in %s, whose AppArmor is older than 4.0: the way %s\n", suite, w.Name)
		}
		return young
	})
	if len(p.Ways) == 0 {
		return p, errors.New("nothing to run")
	}
	return p, nil
}

// whole is what a way runs if it is to be all: the big ones the suite, the others in
// which jails run the attacks.
func whole(w plan.Way) []plan.Job {
	var more []plan.Job
	switch w.Name {
	case "root", "delegated":
		more = allJobs
	case "ranged", "none", "session", "pidns", "container", "apparmor", "armorroot":
		more = []plan.Job{tests("test/escape", "")}
	}
	own := slices.DeleteFunc(slices.Clone(w.Jobs), func(j plan.Job) bool {
		return slices.ContainsFunc(more, func(k plan.Job) bool { return j.Name == k.Name })
	})
	return append(own, more...)
}

// waysOf is the plan: all ways or only some, in the big ones the whole suite if
// all, or only the jobs of some packages.
func waysOf(only, job string, all bool) (plan.Plan, error) {
	var p plan.Plan
	for _, name := range strings.FieldsFunc(only, func(c rune) bool { return c == ',' }) {
		i := slices.IndexFunc(ways, func(w plan.Way) bool { return w.Name == name })
		if i < 0 {
			return p, fmt.Errorf("no such way: %q", name)
		}
		p.Ways = append(p.Ways, ways[i])
	}
	if only == "" {
		p.Ways = slices.Clone(ways)
	}
	for i, w := range p.Ways {
		if all {
			p.Ways[i].Jobs = whole(w)
		}
	}
	if job != "" {
		// A name that no way has would be a green nothing.
		for _, name := range strings.Split(job, ",") {
			if !slices.ContainsFunc(p.Ways, func(w plan.Way) bool {
				return slices.ContainsFunc(w.Jobs, func(j plan.Job) bool { return j.Name == name })
			}) {
				return p, fmt.Errorf("no way has the job %q", name)
			}
		}
		for i := range p.Ways {
			p.Ways[i].Jobs = slices.DeleteFunc(slices.Clone(p.Ways[i].Jobs), func(j plan.Job) bool { return !slices.Contains(strings.Split(job, ","), j.Name) })
		}
	}
	p.Ways = slices.DeleteFunc(p.Ways, func(w plan.Way) bool { return len(w.Jobs) == 0 })
	if len(p.Ways) == 0 {
		return p, errors.New("nothing to run")
	}
	return p, nil
}
