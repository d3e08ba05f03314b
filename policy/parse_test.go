package policy

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/limits"
)

// example has every key that a policy may have.
const example = `version = 1
extends = "builtin"
locked = true

[limits]
enforce = "best-effort"

[root]
uid_range = "1800000000-1800000999"

[rootfs.py312]
path = "/srv/roots/py312"

[profiles.agent]
extends = "default"
rootfs = "py312"
capabilities = ["exec", "fs.read"]
env = { set = { LANG = "C.UTF-8", http_proxy = "a", HTTP_PROXY = "b" }, allow = ["REPORT_LOCALE"] }
network = { modes = ["none"] }
seccomp = "default"
apparmor = "required"
ids = "range"
limits = { default = { memory = "1G", pids = 64, cpus = 0.5 }, max = { memory = "2G", timeout = "60s", cpus = "2", pids = "100" } }
require = ["userns", "memory"]
output = { keep = "tail", on_limit = "kill" }

[seccomp.own]
path = "/etc/jailer/own.json"

[profiles.small]
extends = "agent"
seccomp = "own"
env = { set = { LANG = "C" } }
limits = { max = { memory = "1G" } }

[profiles.bare]
rootfs = "host"

[events]
path = "/var/log/jailer/events.ndjson"
sink_on_error = "log"
`

func mustParse(t testing.TB, text string) *Policy {
	t.Helper()
	p, err := Parse("test.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestParse(t *testing.T) {
	p := mustParse(t, example)
	if !p.Locked || p.Enforce != EnforceBestEffort || p.UIDRange != [2]uint32{1800000000, 1800000999} {
		t.Errorf("got %+v", p)
	}
	agent, small, bare := p.profiles["agent"], p.profiles["small"], p.profiles["bare"]
	ceilings := Builtin().profiles["default"].max
	ceilings.Swap = 0 // granted by those who name it
	for _, c := range []struct {
		name      string
		got, want any
	}{
		{"profiles", p.Profiles(), []string{"agent", "bare", "default", "small"}},
		{"rootfs", agent.rootfs, "py312"},
		{"path", p.roots["py312"], "/srv/roots/py312"},
		{"capabilities", agent.capabilities, []string{"exec", "fs.read"}},
		{"env.set", agent.envSet, map[string]string{"LANG": "C.UTF-8", "http_proxy": "a", "HTTP_PROXY": "b"}},
		{"env.allow replaces", agent.envAllow, []string{"REPORT_LOCALE"}},
		{"apparmor", agent.apparmor, AppArmorRequired},
		{"ids", agent.ids, IDsRange},
		{"keep", agent.keep, jailer.KeepTail},
		{"on limit", agent.onLimit, jailer.OnLimitKill},
		{"require", agent.require, []string{"memory", "userns"}},
		{"memory", agent.defaults.Memory, int64(1 << 30)},
		{"cpus", agent.defaults.CPUs, limits.CPUs(500)},
		{"cpus max", agent.max.CPUs, limits.CPUs(2000)},
		{"cpus not the host's", agent.maxHostCPUs, false},
		{"pids max", agent.max.PIDs, int64(100)},
		{"timeout max", agent.max.Timeout, 60 * time.Second},
		{"timeout from default", agent.defaults.Timeout, 30 * time.Second},
		{"child keeps", small.capabilities, []string{"exec", "fs.read"}},
		{"child's own max", small.max.Memory, int64(1 << 30)},
		{"parent's max stays", agent.max.Memory, int64(2 << 30)},
		{"events", p.Events, Events{"/var/log/jailer/events.ndjson", SinkLog}},
		{"events of the built-in policy", Builtin().Events, Events{"", SinkFail}},
		{"events by default", mustParse(t, "version = 1\n").Events, Events{"", SinkFail}},
		{"seccomp file", p.filters, map[string]string{"own": "/etc/jailer/own.json"}},
		{"seccomp files", p.SeccompFiles(), []string{"own"}},
		{"seccomp", []string{agent.seccomp, small.seccomp}, []string{"default", "own"}},
		{"child's variable", small.envSet["LANG"], "C"},
		{"child's other variable", small.envSet["http_proxy"], "a"},
		{"parent's variable stays", agent.envSet["LANG"], "C.UTF-8"},
		{"bare grants nothing", bare.capabilities, []string(nil)},
		{"bare takes no variables", bare.envAllow, []string(nil)},
		{"bare has limits", bare.defaults, Builtin().profiles["default"].defaults},
		{"bare has ceilings", bare.max, ceilings},
		{"bare has the host's cpus", bare.maxHostCPUs, true},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s: got %#v, want %#v", c.name, c.got, c.want)
		}
	}
}

func TestBuiltin(t *testing.T) {
	p := Builtin()
	d := p.profiles[DefaultProfile]
	if d == nil || len(p.profiles) != 1 {
		t.Fatalf("profiles %v", p.Profiles())
	}
	if !reflect.DeepEqual(len(d.capabilities), len(jailer.Capabilities())) {
		t.Errorf("capabilities %v", d.capabilities)
	}
	if want := (limits.Limits{
		Timeout: 30 * time.Second, TTL: 30 * time.Minute, Idle: 5 * time.Minute,
		Memory: 1 << 30, CPUs: 1000, PIDs: 128, Workspace: 256 << 20, WorkspaceInodes: 16 << 10,
		TmpSize: 64 << 20, TmpInodes: 16 << 10, MaxOutput: 1 << 20, MaxFile: 10 << 20,
	}); d.defaults != want {
		t.Errorf("defaults %+v\nwant     %+v", d.defaults, want)
	}
	if want := (limits.Limits{
		Timeout: 300 * time.Second, TTL: 24 * time.Hour, Idle: 24 * time.Hour,
		Memory: 16 << 30, Swap: 16 << 30, PIDs: 4096, Workspace: 16 << 30, WorkspaceInodes: 1 << 20,
		TmpSize: 16 << 30, TmpInodes: 1 << 20, MaxOutput: 64 << 20, MaxFile: 1 << 30,
	}); d.max != want || !d.maxHostCPUs {
		t.Errorf("ceilings %+v\nwant     %+v", d.max, want)
	}
	if p.Locked || p.Enforce != EnforceRequired || p.UIDRange != [2]uint32{1900000000, 1900065535} {
		t.Errorf("got %+v", p)
	}
	// Nobody can change it for the next caller.
	p.Enforce = EnforceBestEffort
	if Builtin().Enforce != EnforceRequired {
		t.Error("the built-in policy was changed")
	}
}

// TestExtendsBuiltin: a file that starts from the built-in policy changes only
// what it names; one that doesn't has nothing of it.
func TestExtendsBuiltin(t *testing.T) {
	p := mustParse(t, "version = 1\nextends = \"builtin\"\n[profiles.default]\napparmor = \"required\"\n")
	d := p.profiles[DefaultProfile]
	if d.apparmor != AppArmorRequired || len(d.capabilities) != len(jailer.Capabilities()) {
		t.Errorf("got %+v", d)
	}
	if Builtin().profiles[DefaultProfile].apparmor != AppArmorAuto {
		t.Error("the built-in policy was changed")
	}
	p = mustParse(t, "version = 1\nextends = \"builtin\"\n[profiles.default]\nextends = \"default\"\nids = \"range\"\n")
	if d := p.profiles[DefaultProfile]; d.ids != IDsRange || len(d.capabilities) == 0 {
		t.Errorf("got %+v", d)
	}
	p = mustParse(t, "version = 1\n[profiles.default]\napparmor = \"required\"\n")
	if d := p.profiles[DefaultProfile]; d.capabilities != nil || d.envAllow != nil {
		t.Errorf("grants %+v", d)
	}
	if p = mustParse(t, "version = 1\n"); len(p.profiles) != 0 {
		t.Errorf("an empty policy has the profiles %v", p.Profiles())
	}
	// A child of a changed default sees the change, wherever it stands.
	p = mustParse(t, "version = 1\nextends = \"builtin\"\n[profiles.agent]\nextends = \"default\"\n[profiles.default]\nids = \"range\"\n")
	if p.profiles["agent"].ids != IDsRange {
		t.Error("the child extends the built-in default, not the file's")
	}
}

func TestParseRefuses(t *testing.T) {
	// in is put below version = 1 and extends = "builtin".
	for _, c := range []struct{ name, in, msg string }{
		{"unknown key", "foo = 1", "1| version = 1"},
		{"unknown key, drawn", "foo = 1", "^^^ unknown field"},
		{"unknown table", "[gateways]\nmax_sessions = 1", "[gateways]"},
		{"unknown empty table", "[aprove]", "[aprove]"},
		{"events relative", "[events]\npath = \"events.ndjson\"", "events.path: path \"events.ndjson\" is not absolute"},
		{"events not clean", "[events]\npath = \"/var/log/../e\"", "not clean"},
		{"events empty", "[events]\npath = \"\"", "not absolute"},
		{"events sink", "[events]\nsink_on_error = \"ignore\"", "events.sink_on_error: \"ignore\" given, want one of: fail log"},
		{"unknown in events", "[events]\ninclude_args = true", "unknown key"},
		{"unknown array", "[[gateways]]\nuid = 1", "[[gateways]]"},
		{"unknown in profile", "[profiles.a]\nvolumes = []", "volumes"},
		{"exec without a list", "[profiles.a]\nexec = {}", "profiles.a.exec: allow: is missing"},
		{"exec of nothing", "[profiles.a]\nexec = { allow = [] }", "0 files given"},
		{"exec relative", "[profiles.a]\nexec = { allow = [\"git\"] }", "not absolute"},
		{"exec of a shell", "[profiles.a]\nexec = { allow = [\"/bin/dash\"] }", "allow[0]: /bin/dash runs code"},
		{"exec of an interpreter", "[profiles.a]\nexec = { allow = [\"/usr/bin/git\", \"/usr/bin/python3.12\"] }", "allow[1]: /usr/bin/python3.12 runs code"},
		{"exec of the loader", "[profiles.a]\nexec = { allow = [\"/lib64/ld-linux-x86-64.so.2\"] }", "runs code"},
		{"exec of busybox", "[profiles.a]\nexec = { allow = [{ path = \"/bin/busybox\" }] }", "runs code"},
		{"exec twice", "[profiles.a]\nexec = { allow = [\"/a\", { path = \"/a\" }] }", "/a is there twice"},
		{"exec sum", "[profiles.a]\nexec = { allow = [{ path = \"/a\", sha256 = \"ABC\" }] }", "64 digits"},
		{"exec unknown", "[profiles.a]\nexec = { allow = [{ path = \"/a\", md5 = \"x\" }] }", "md5"},
		{"exec number", "[profiles.a]\nexec = { allow = [1] }", "want a path"},
		{"exec enforce", "[profiles.a]\nexec = { allow = [\"/a\"], enforce = \"maybe\" }", "enforce: "},
		{"exec key", "[profiles.a]\nexec = { allow = [\"/a\"], deny = [\"/b\"] }", "deny"},
		{"mount without source", "[profiles.a]\nmounts = [{ target = \"/m\" }]", "profiles.a.mounts[0]: source: path is missing"},
		{"mount without target", "[profiles.a]\nmounts = [{ source = \"/srv/m\" }]", "target: path is missing"},
		{"mount relative", "[profiles.a]\nmounts = [{ source = \"m\", target = \"/m\" }]", "not absolute"},
		{"mount upwards", "[profiles.a]\nmounts = [{ source = \"/srv/../etc\", target = \"/m\" }]", "not clean"},
		{"mount of all", "[profiles.a]\nmounts = [{ source = \"/\", target = \"/m\" }]", "the whole host"},
		{"mount of a socket", "[profiles.a]\nmounts = [{ source = \"/var/run/docker.sock\", target = \"/m\" }]", "no jail may see"},
		{"mount unknown key", "[profiles.a]\nmounts = [{ source = \"/srv/m\", target = \"/m\", readonly = false }]", "readonly"},
		{"mount on the root", "[profiles.a]\nmounts = [{ source = \"/srv/m\", target = \"/\" }]", "the root of the jail"},
		{"mount over etc", "[profiles.a]\nmounts = [{ source = \"/srv/m\", target = \"/etc/x\" }]", "/etc is the jail's own"},
		{"mount in the workspace", "[profiles.a]\nmounts = [{ source = \"/srv/m\", target = \"/workspace/x\" }]", "/workspace is the jail's own"},
		{"mounts in another", "[profiles.a]\nmounts = [{ source = \"/srv/m\", target = \"/m\" }, { source = \"/srv/n\", target = \"/m/n\" }]", "mounts[1]: target: /m and /m/n lie in one another"},
		{"unknown limit", "[profiles.a.limits.max]\nmemroy = \"1G\"", "memroy"},
		{"not yet known", "[rootfs.a]\npath = \"/a\"\nimage = \"sha256:0\"", "image"},
		{"capitals", "[profiles.a.limits.max]\nMEMORY = \"1G\"", "profiles.a.limits.max.MEMORY: keys are written in lower case"},
		{"capitals beside", "[profiles.a.limits.max]\nmemory = \"1G\"\nMemory = \"2G\"", "lower case"},
		{"capitals at the top", "Locked = true", "Locked: keys"},
		{"capitals in a profile", "[profiles.A]", "profiles.A: keys"},
		{"capitals beside env", "[profiles.a.env]\nSET = { A = \"1\" }", "profiles.a.env.SET: keys"},
		{"capitals in an array", "profiles.a.require = [{ X = 1 }]", "lower case"},
		{"look-alike", "[profiles.a]\nıds = \"range\"", ""},
		{"folds to s", "[profiles.a]\n\"ſeccomp\" = \"default\"", "in ASCII"},
		{"folds to k", "[profiles.a.output]\n\"Keep\" = \"tail\"", "in ASCII"},
		{"duplicate key", "locked = true\nlocked = false", "already defined"},
		{"duplicate table", "[root]\n[root]", "exists"},
		{"trailing garbage", "[root]\n}", "}"},
		{"not TOML", "{\"version\": 1}", ""},
		{"control character", "a = \"\x00\"", ""},
		{"not UTF-8", "a = \"\xff\"", ""},
		{"wrong type", "locked = \"true\"", "locked = "},
		{"wrong type of list", "[profiles.a]\ncapabilities = \"exec\"", "capabilities"},
		{"deep", strings.Repeat("a.", 100) + "a = 1", ""},
		{"deep arrays", "a = " + strings.Repeat("[", 20000), "nested"},
		{"enforce", "[limits]\nenforce = \"no\"", "limits.enforce"},
		{"rootfs relative", "[rootfs.a]\npath = \"srv/a\"", "not absolute"},
		{"rootfs not clean", "[rootfs.a]\npath = \"/srv/../a\"", "not clean"},
		{"rootfs is all", "[rootfs.a]\npath = \"/\"", "the host itself"},
		{"rootfs without path", "[rootfs.a]", "path is missing"},
		{"rootfs host", "[rootfs.host]\npath = \"/srv\"", "taken"},
		{"rootfs name", "[rootfs.\"../a\"]\npath = \"/srv\"", "no name"},
		{"rootfs unknown", "[profiles.a]\nrootfs = \"b\"", `there is no rootfs "b"`},
		{"rootfs path in profile", "[profiles.a]\nrootfs = \"/srv\"", "there is no rootfs"},
		{"profile name", "[profiles.\"a/b\"]", "no name"},
		{"profile parent", "[profiles.a]\nextends = \"b\"", `there is no profile "b"`},
		{"cycle", "[profiles.a]\nextends = \"b\"\n[profiles.b]\nextends = \"c\"\n[profiles.c]\nextends = \"a\"", "a → b → c → a"},
		{"cycle of one", "[profiles.a]\nextends = \"a\"", "a → a"},
		{"cycle through default", "[profiles.a]\nextends = \"default\"\n[profiles.default]\nextends = \"a\"", "cycle"},
		{"capability", "[profiles.a]\ncapabilities = [\"exec\", \"all\"]", `"all" is unknown`},
		{"capability twice", "[profiles.a]\ncapabilities = [\"exec\", \"exec\"]", "twice"},
		{"env name", "[profiles.a.env]\nset = { \"A=B\" = \"1\" }", "env.set"},
		{"env NUL", "[profiles.a.env]\nset = { A = \"\\u0000\" }", "NUL"},
		{"env pattern", "[profiles.a.env]\nallow = [\"LC_*\"]", "patterns"},
		{"env empty name", "[profiles.a.env]\nallow = [\"\"]", "no name"},
		{"network", "[profiles.a.network]\nmodes = [\"host\"]", `"host" is unknown`},
		{"no network mode", "[profiles.a.network]\nmodes = []", "is empty"},
		{"seccomp", "[profiles.a]\nseccomp = \"unconfined\"", "seccomp"},
		{"seccomp path", "[profiles.a]\nseccomp = \"../policy/builtin\"", "seccomp"},
		{"seccomp of another table", "[seccomp.b]\npath = \"/etc/jailer/b.json\"\n[profiles.a]\nseccomp = \"c\"", `there is no seccomp profile "c"`},
		{"seccomp without path", "[seccomp.b]", "path is missing"},
		{"seccomp relative", "[seccomp.b]\npath = \"b.json\"", "not absolute"},
		{"seccomp not clean", "[seccomp.b]\npath = \"/etc/../b.json\"", "not clean"},
		{"seccomp NUL", "[seccomp.b]\npath = \"/b\\u0000\"", "NUL"},
		{"seccomp name", "[seccomp.\"a/b\"]\npath = \"/b\"", "no name"},
		{"seccomp default", "[seccomp.default]\npath = \"/b\"", "taken"},
		{"seccomp strict", "[seccomp.strict]\npath = \"/b\"", "taken"},
		{"unknown in seccomp", "[seccomp.b]\npath = \"/b\"\nmode = 1", "unknown key"},
		{"apparmor", "[profiles.a]\napparmor = \"unconfined\"", "apparmor"},
		{"ids", "[profiles.a]\nids = \"host\"", "ids"},
		{"keep", "[profiles.a.output]\nkeep = \"none\"", "output.keep"},
		{"on limit", "[profiles.a.output]\non_limit = \"ignore\"", "output.on_limit"},
		{"require", "[profiles.a]\nrequire = [\"luck\"]", `"luck" is unknown`},
		{"limit without unit", "[profiles.a.limits.default]\ntimeout = 30", "with a unit"},
		{"limit negative", "[profiles.a.limits.default]\npids = -1", "profiles.a.limits.default.pids"},
		{"limit zero", "[profiles.a.limits.max]\npids = 0", "positive"},
		{"limit fraction", "[profiles.a.limits.max]\npids = 1.5", "fraction"},
		{"limit infinite", "[profiles.a.limits.max]\ncpus = inf", "cpus"},
		{"limit date", "[profiles.a.limits.max]\npids = 2026-01-01", "want a string"},
		{"limit unlimited", "[profiles.a.limits.max]\nmemory = \"max\"", "memory"},
		{"memory per cent", "[profiles.a.limits.max]\nmemory = \"50%\"", "memory"},
		{"host memory", "[profiles.a.limits.max]\nmemory = \"host\"", "memory"},
		{"default host cpus", "[profiles.a.limits.default]\ncpus = \"host\"", "cpus"},
		{"max below default", "[profiles.a.limits]\ndefault = { pids = 10 }\nmax = { pids = 9 }", "9 is below the default of 10"},
		{"max below inherited", "[profiles.a]\nextends = \"default\"\nlimits = { max = { memory = \"512M\" } }", "512M is below the default of 1G"},
		{"max below cpu default", "[profiles.a.limits]\ndefault = { cpu_time = \"10s\" }\nmax = { cpu_time = \"9s\" }", "below the default"},
		{"little memory", "[profiles.a.limits.default]\nmemory = \"512K\"", "at least 1M"},
		{"range empty", "[root]\nuid_range = \"\"", "FIRST-LAST"},
		{"range one", "[root]\nuid_range = \"5\"", "FIRST-LAST"},
		{"range with root", "[root]\nuid_range = \"0-5\"", "root"},
		{"range reversed", "[root]\nuid_range = \"9-5\"", "before it begins"},
		{"range too high", "[root]\nuid_range = \"1-4294967295\"", "4294967294"},
		{"range wraps", "[root]\nuid_range = \"1-4294967297\"", "4294967294"},
		{"range signs", "[root]\nuid_range = \"-1-5\"", "FIRST-LAST"},
		{"range spaces", "[root]\nuid_range = \"1 - 5\"", "FIRST-LAST"},
		{"range zeros", "[root]\nuid_range = \"01-5\"", "FIRST-LAST"},
	} {
		t.Run(c.name, func(t *testing.T) {
			checkRefused(t, "version = 1\nextends = \"builtin\"\n"+c.in+"\n", c.msg)
		})
	}
	for _, c := range []struct{ name, in, msg string }{
		{"empty", "", "version = 1"},
		{"no version", "locked = true", "version: is missing"},
		{"version 2", "version = 2", "reads version 1"},
		{"version as text", "version = \"1\"", "version"},
		{"version in capitals", "VERSION = 1", "VERSION"},
		{"extends a file", "version = 1\nextends = \"/etc/other.toml\"", "extends"},
		{"extends nothing", "version = 1\nextends = \"\"", "extends"},
		{"parent of no builtin", "version = 1\n[profiles.a]\nextends = \"default\"", `no profile "default"`},
		{"too long", "version = 1\n#" + strings.Repeat("x", 1<<20), "more than"},
	} {
		t.Run(c.name, func(t *testing.T) { checkRefused(t, c.in, c.msg) })
	}
}

func checkRefused(t *testing.T, text, msg string) {
	t.Helper()
	p, err := Parse("test.toml", []byte(text))
	e, ok := errors.AsType[*jailer.Error](err)
	if !ok || p != nil {
		t.Fatalf("got %+v, %v", p, err)
	}
	if e.Code != jailer.CodeInvalidPolicy || e.Path != "test.toml" || !strings.Contains(e.Message, msg) {
		t.Errorf("got %s %q %q, want %q", e.Code, e.Path, e.Message, msg)
	}
	if len(e.Error()) > 3<<10 {
		t.Errorf("the message has %d bytes", len(e.Error()))
	}
}

// TestLimitTable: each limit has its key, or it could not be set.
func TestLimitTable(t *testing.T) {
	typ := reflect.TypeFor[limitTable]()
	if typ.NumField() != len(limits.Fields())+1 || len(limitTable{}.byName()) != len(limits.Fields()) {
		t.Errorf("%d keys for %d limits", typ.NumField(), len(limits.Fields()))
	}
	for i := range typ.NumField() {
		name := typ.Field(i).Tag.Get("toml")
		if name == "cpuset" { // a list and no number: TestCPUSet
			continue
		}
		if _, ok := limits.ByName(name); !ok {
			t.Errorf("%s is no limit", name)
		}
		var l limitTable
		reflect.ValueOf(&l).Elem().Field(i).Set(reflect.ValueOf("x"))
		if l.byName()[name] != "x" {
			t.Errorf("%s has no effect", name)
		}
	}
}

func TestCheckUIDRange(t *testing.T) {
	r := [2]uint32{1000, 1999}
	for _, c := range []struct {
		name           string
		passwd, subuid string
		msg            string
	}{
		{"free", "root:x:0:0::/:/bin/sh\na:x:999:2000::/:/bin/sh\n", "a:100000:65536\n", ""},
		{"no files", "", "", ""},
		{"comments and NIS", "# a\n\n+::::::\n-x\n", "# b\n", ""},
		{"first user", "a:x:1000:0::/:/x\n", "", "user id 1000"},
		{"last user", "a:x:1999:0::/:/x\n", "", "user id 1999"},
		{"group", "a:x:0:1500::/:/x\n", "", "group id 1500"},
		{"second line", "root:x:0:0::/:/x\nb:x:1500:0::/:/x\n", "", "/etc/passwd:2"},
		{"no id", "a:x:::/:/x\n", "", "readable"},
		{"few fields", "a:x\n", "", "fields"},
		{"range below", "", "a:500:500\n", ""},
		{"range meets the first", "", "a:500:501\n", "500-1000"},
		{"range above", "", "a:2000:10\n", ""},
		{"range meets the last", "", "a:1999:1\n", "1999-1999"},
		{"range inside", "", "a:1500:1\n", "1500-1500"},
		{"range around", "", "1:1:100000\n", "1-100000"},
		{"range empty", "", "a:1500:0\n", ""},
		{"range wraps", "", "a:1500:18446744073709551615\n", "readable"},
		{"range not a number", "", "a:b:c\n", "readable"},
		{"no newline at the end", "a:x:1500:0::/:/x", "", "user id 1500"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := CheckUIDRange(r, []byte(c.passwd), []byte(c.subuid))
			if c.msg == "" && err != nil || c.msg != "" && (err == nil || !strings.Contains(err.Error(), c.msg)) {
				t.Fatalf("got %v, want %q", err, c.msg)
			}
		})
	}
	if err := CheckUIDRange([2]uint32{0, 5}, nil, nil); err == nil {
		t.Error("a range with root in it is taken")
	}
	if err := CheckUIDRange([2]uint32{}, nil, nil); err == nil {
		t.Error("no range is taken for one")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(example))
	f.Add([]byte("version = 1\n"))
	f.Add([]byte("version = 1\nextends = \"builtin\"\n[profiles.default.limits.max]\ncpus = \"host\"\n"))
	f.Add([]byte("VERSION = 1"))
	f.Add([]byte("version = 1\n[profiles.a]\nextends = \"a\""))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Parse("fuzz.toml", data)
		if err != nil {
			if e, ok := errors.AsType[*jailer.Error](err); !ok || e.Code != jailer.CodeInvalidPolicy || p != nil {
				t.Fatalf("got %v, %v", p, err)
			}
			return
		}
		if p.UIDRange[0] == 0 || p.UIDRange[0] > p.UIDRange[1] {
			t.Fatalf("range %v", p.UIDRange)
		}
		for name, f := range p.profiles {
			if f.seccomp == "" || f.rootfs == "" || len(f.networks) == 0 || f.networks[0] != NetworkNone {
				t.Fatalf("profile %q: %+v", name, f)
			}
			c := f.ceiling(1)
			for _, x := range limits.Fields() {
				if x.Get(c) <= 0 && !x.Optional() {
					t.Fatalf("profile %q: %s has no ceiling", name, x.Name)
				}
			}
		}
	})
}
