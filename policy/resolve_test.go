package policy

import (
	"errors"
	"math"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/jailpath"
	"github.com/jailer-project/jailer/limits"
)

func TestResolveDefaults(t *testing.T) {
	got, err := Resolve(Builtin(), nil, Overrides{Argv: []string{"true"}})
	if err != nil {
		t.Fatal(err)
	}
	want := &Plan{
		Profile: "default", Argv: []string{"true"}, Env: []string{}, Cwd: "/workspace",
		Rootfs: Rootfs{Name: RootfsHost},
		Limits: limits.Limits{
			Timeout: 30 * time.Second, CPUTime: 30 * time.Second, TTL: 30 * time.Minute, Idle: 5 * time.Minute,
			Memory: 1 << 30, CPUs: 1000, PIDs: 128, Workspace: 256 << 20, WorkspaceInodes: 16 << 10,
			TmpSize: 64 << 20, TmpInodes: 16 << 10, MaxOutput: 1 << 20, MaxFile: 10 << 20,
		},
		Enforce: EnforceRequired, IDs: IDsSingle, UIDRange: [2]uint32{1900000000, 1900065535},
		Seccomp: "default", AppArmor: AppArmorAuto, Network: NetworkNone,
		Capabilities: []string{"exec", "export", "fs.list", "fs.read", "fs.write", "import", "process"},
		OutputKeep:   "head", OnOutputLimit: "truncate", Protected: []string{}, OnProtected: "mark",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestResolveNarrows(t *testing.T) {
	p := mustParse(t, example)
	r := &jailer.Request{
		Profile: "agent", Tenant: "acme", Labels: map[string]string{"job": "42"},
		Argv: []string{"python3", "-"}, Cwd: "/workspace//a/.", Stdin: new(""),
		Env:    map[string]string{"REPORT_LOCALE": "de"},
		Limits: jailer.RequestLimits{TimeoutMs: 2000, MemoryBytes: 64 << 20, CPUMilli: 200},
	}
	o := Overrides{
		Labels: map[string]string{"host": "a"}, Limits: limits.Limits{PIDs: 16},
		Capabilities: []string{"exec"}, OutputKeep: "both", HostCPUs: 8,
	}
	got, err := Resolve(p, r, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name      string
		got, want any
	}{
		{"labels", got.Labels, map[string]string{"job": "42", "host": "a"}},
		{"cwd", got.Cwd, "/workspace/a"},
		{"env", got.Env, []string{"HTTP_PROXY=b", "LANG=C.UTF-8", "REPORT_LOCALE=de", "http_proxy=a"}},
		{"rootfs", got.Rootfs, Rootfs{Name: "py312", Path: "/srv/roots/py312"}},
		{"enforce", got.Enforce, EnforceBestEffort},
		{"timeout", got.Limits.Timeout, 2 * time.Second},
		{"cpu time", got.Limits.CPUTime, 400 * time.Millisecond},
		{"memory", got.Limits.Memory, int64(64 << 20)},
		{"pids", got.Limits.PIDs, int64(16)},
		{"capabilities", got.Capabilities, []string{"exec"}},
		{"keep", got.OutputKeep, "both"},
		{"on limit", got.OnOutputLimit, "kill"},
		{"stdin", got.HasStdin, true},
		{"require", got.Require, []string{"memory", "userns"}},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s: got %#v, want %#v", c.name, c.got, c.want)
		}
	}
	if len(r.Labels) != 1 || r.Limits.Pids != 0 {
		t.Error("the request was changed")
	}
	got.Capabilities[0], got.Argv[0] = "x", "x"
	if p.profiles["agent"].capabilities[0] != "exec" || r.Argv[0] != "python3" {
		t.Error("the plan shares memory with the policy or the request")
	}
}

func TestResolveRefuses(t *testing.T) {
	const policies = `version = 1
extends = "builtin"
[rootfs.a]
path = "/srv/a"
[rootfs.b]
path = "/srv/b"
[profiles.dir]
extends = "default"
rootfs = "a"
env = { set = { LANG = "C" } }
[profiles.closed]
capabilities = ["exec"]
env = { set = { LANG = "C" }, allow = [] }
output = { on_limit = "kill" }
limits = { max = { cpu_time = "20s" } }
[profiles.reader]
capabilities = ["fs.read"]
[profiles.none]
[profiles.vast]
extends = "default"
limits = { max = { memory = "8388607T", swap = "8388607T" } }
`
	type req = jailer.Request
	type lim = jailer.RequestLimits
	type vars = map[string]string
	for _, c := range []struct {
		name string
		r    req
		o    Overrides
		code jailer.Code
		path string
		msg  string
	}{
		{"no command", req{Argv: []string{}}, Overrides{}, jailer.CodeInvalidRequest, "argv", ""},
		{"unknown profile", req{Profile: "x"}, Overrides{}, jailer.CodePolicyDenied, "profile", `no profile "x"`},
		{"timeout over", req{Limits: lim{TimeoutMs: 300001}}, Overrides{}, jailer.CodePolicyDenied, "limits.timeout", "5m0.001s asked, the ceiling is 5m0s"},
		{"memory and swap over an int64", req{Profile: "vast"}, Overrides{Limits: limits.Limits{Memory: 8388607 << 40, Swap: 8388607 << 40}}, jailer.CodeInvalidRequest, "limits.swap", "8388607T of swap and 8388607T of memory"},
		{"memory over", req{}, Overrides{Limits: limits.Limits{Memory: 32 << 30}}, jailer.CodePolicyDenied, "limits.memory", "32G asked, the ceiling is 16G"},
		{"huge memory", req{Limits: lim{MemoryBytes: math.MaxInt64}}, Overrides{}, jailer.CodePolicyDenied, "limits.memory", "16G"},
		{"pids over", req{Limits: lim{Pids: 4097}}, Overrides{}, jailer.CodePolicyDenied, "limits.pids", "4097 asked, the ceiling is 4096"},
		{"cpus over the host's", req{}, Overrides{Limits: limits.Limits{CPUs: 2001}}, jailer.CodePolicyDenied, "limits.cpus", "2.001 asked, the ceiling is 2"},
		{"output over", req{Limits: lim{OutputBytes: 64<<20 + 1}}, Overrides{}, jailer.CodePolicyDenied, "limits.output", ""},
		{"cpu time over the product", req{}, Overrides{Limits: limits.Limits{CPUTime: 601 * time.Second}}, jailer.CodePolicyDenied, "limits.cpu_time", "10m0s"},
		{"cpu time over its own", req{Profile: "closed"}, Overrides{Limits: limits.Limits{CPUTime: 21 * time.Second}}, jailer.CodePolicyDenied, "limits.cpu_time", "20s"},
		{"negative", req{Limits: lim{MemoryBytes: -1}}, Overrides{}, jailer.CodeInvalidRequest, "limits.memoryBytes", "positive"},
		{"negative flag", req{}, Overrides{Limits: limits.Limits{Memory: -1}}, jailer.CodeInvalidRequest, "limits", "out of range"},
		{"little memory", req{Limits: lim{MemoryBytes: 1<<20 - 1}}, Overrides{}, jailer.CodeInvalidRequest, "limits.memory", "at least 1M"},
		{"workspace over half", req{Limits: lim{MemoryBytes: 64 << 20, WorkspaceBytes: 33 << 20}}, Overrides{}, jailer.CodeInvalidRequest, "limits", "half of memory"},
		{"workspace takes all", req{Limits: lim{MemoryBytes: 64 << 20, WorkspaceBytes: 32 << 20}}, Overrides{}, jailer.CodeInvalidRequest, "limits", "half of memory"},
		{"tmp over half", req{}, Overrides{Limits: limits.Limits{TmpSize: 200 << 20}}, jailer.CodeInvalidRequest, "limits", "half of memory"},
		{"both over half", req{Limits: lim{TmpBytes: 100 << 20}}, Overrides{Limits: limits.Limits{Workspace: 300 << 20}}, jailer.CodeInvalidRequest, "limits", "half of memory"},
		{"tmp overflows", req{Profile: "default", Limits: lim{TmpBytes: 16 << 30}}, Overrides{}, jailer.CodeInvalidRequest, "limits", "half of memory"},
		{"no exec", req{Profile: "reader"}, Overrides{}, jailer.CodePolicyDenied, "capabilities", "does not grant"},
		{"nothing granted", req{Profile: "none"}, Overrides{}, jailer.CodePolicyDenied, "capabilities", "does not grant"},
		{"exec not asked for", req{Capabilities: []string{"fs.read"}}, Overrides{}, jailer.CodePolicyDenied, "capabilities", "not asked for"},
		{"nothing asked for", req{Capabilities: []string{}}, Overrides{}, jailer.CodePolicyDenied, "capabilities", "not asked for"},
		{"not granted", req{Profile: "closed"}, Overrides{Capabilities: []string{"exec", "fs.write"}}, jailer.CodePolicyDenied, "capabilities", `"fs.write" is not granted`},
		{"unknown capability", req{}, Overrides{Capabilities: []string{"root"}}, jailer.CodeInvalidRequest, "capabilities[0]", ""},
		{"variable", req{Profile: "closed", Env: vars{"A": "secret"}}, Overrides{}, jailer.CodePolicyDenied, "env", `"A" is not allowed`},
		{"variable by flag", req{Profile: "closed"}, Overrides{Env: vars{"A": "secret"}}, jailer.CodePolicyDenied, "env", `"A" is not allowed`},
		{"the policy's variable", req{Profile: "dir", Env: vars{"LANG": "secret"}}, Overrides{}, jailer.CodePolicyDenied, "env", `"LANG" is not allowed`},
		{"variable by flag, bad", req{}, Overrides{Env: vars{"A=B": ""}}, jailer.CodeInvalidRequest, "env", "'='"},
		{"files without fs.write", req{Profile: "closed", Files: []jailer.RequestFile{{Path: "a", Content: "secret"}}}, Overrides{}, jailer.CodePolicyDenied, "files", `"fs.write", which the profile does not grant`},
		{"directories without fs.write", req{Profile: "closed", Directories: []string{"a"}}, Overrides{}, jailer.CodePolicyDenied, "directories", "does not grant"},
		{"files, fs.write not asked for", req{Files: []jailer.RequestFile{{Path: "a"}}, Capabilities: []string{"exec", "fs.read"}}, Overrides{}, jailer.CodePolicyDenied, "files", "not asked for"},
		{"files, narrowed by flag", req{Files: []jailer.RequestFile{{Path: "a"}}}, Overrides{Capabilities: []string{"exec"}}, jailer.CodePolicyDenied, "files", "not asked for"},
		{"file elsewhere", req{Files: []jailer.RequestFile{{Path: "/etc/a"}}}, Overrides{}, jailer.CodeInvalidRequest, "files[0].path", "not below"},
		{"rootfs unknown", req{}, Overrides{Rootfs: "c"}, jailer.CodePolicyDenied, "rootfs", `no rootfs "c"`},
		{"rootfs as a path", req{}, Overrides{Rootfs: "/srv/a"}, jailer.CodePolicyDenied, "rootfs", "no rootfs"},
		{"rootfs back to the host", req{Profile: "dir"}, Overrides{Rootfs: "host"}, jailer.CodePolicyDenied, "rootfs", `"host" asked`},
		{"rootfs sideways", req{Profile: "dir"}, Overrides{Rootfs: "b"}, jailer.CodePolicyDenied, "rootfs", `"b" asked`},
		{"truncate", req{Profile: "closed", OnOutputLimit: "truncate"}, Overrides{}, jailer.CodePolicyDenied, "onOutputLimit", "kill"},
		{"cwd", req{}, Overrides{Cwd: "/proc/self/fd/9"}, jailer.CodeInvalidRequest, "cwd", "/proc"},
		{"tenant", req{}, Overrides{Tenant: "../b"}, jailer.CodeInvalidRequest, "tenant", ""},
		{"profile twice", req{Profile: "dir"}, Overrides{Profile: "dir"}, jailer.CodeInvalidRequest, "profile", "both"},
		{"tenant twice", req{Tenant: "a"}, Overrides{Tenant: "b"}, jailer.CodeInvalidRequest, "tenant", "both"},
		{"cwd twice", req{Cwd: "/a"}, Overrides{Cwd: "/a"}, jailer.CodeInvalidRequest, "cwd", "both"},
		{"argv twice", req{Argv: []string{"a"}}, Overrides{Argv: []string{"b"}}, jailer.CodeInvalidRequest, "argv", "both"},
		{"variable twice", req{Env: vars{"A": "1"}}, Overrides{Env: vars{"A": "1"}}, jailer.CodeInvalidRequest, `env."A"`, "both"},
		{"label twice", req{Labels: vars{"a": "1"}}, Overrides{Labels: vars{"a": "2"}}, jailer.CodeInvalidRequest, `labels."a"`, "both"},
		{"limit twice", req{Limits: lim{Pids: 5}}, Overrides{Limits: limits.Limits{PIDs: 5}}, jailer.CodeInvalidRequest, "limits.pids", "both"},
		{"capabilities twice", req{Capabilities: []string{"exec"}}, Overrides{Capabilities: []string{"exec"}}, jailer.CodeInvalidRequest, "capabilities", "both"},
		{"keep twice", req{OutputKeep: "head"}, Overrides{OutputKeep: "tail"}, jailer.CodeInvalidRequest, "outputKeep", "both"},
		{"on limit twice", req{OnOutputLimit: "kill"}, Overrides{OnOutputLimit: "kill"}, jailer.CodeInvalidRequest, "onOutputLimit", "both"},
		{"stdin twice", req{Stdin: new("")}, Overrides{Stdin: true}, jailer.CodeInvalidRequest, "stdin", "both"},
		{"version", req{V: 2}, Overrides{}, jailer.CodeInvalidRequest, "v", "version"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.r.Argv == nil && c.o.Argv == nil {
				c.r.Argv = []string{"true"}
			}
			c.o.HostCPUs = 2
			plan, err := Resolve(mustParse(t, policies), &c.r, c.o)
			e, ok := errors.AsType[*jailer.Error](err)
			if !ok || plan != nil {
				t.Fatalf("got %+v, %v", plan, err)
			}
			if e.Code != c.code || e.Path != c.path || !strings.Contains(e.Message, c.msg) {
				t.Errorf("got %s %q %q", e.Code, e.Path, e.Message)
			}
			if strings.Contains(e.Error(), "secret") {
				t.Errorf("the value of a variable is in %q", e.Error())
			}
		})
	}
}

func TestResolveAllows(t *testing.T) {
	p := mustParse(t, `version = 1
extends = "builtin"
[rootfs.a]
path = "/srv/a"
[profiles.named]
extends = "default"
env = { set = { LANG = "C" }, allow = ["LANG"] }
apparmor = "off"
`)
	for _, c := range []struct {
		name string
		r    jailer.Request
		o    Overrides
		ok   func(*Plan) bool
	}{
		{
			"at the ceiling",
			jailer.Request{},
			Overrides{Limits: limits.Limits{Timeout: 300 * time.Second, Memory: 16 << 30, PIDs: 4096, CPUs: 2000}},
			func(p *Plan) bool { return p.Limits.CPUTime == 600*time.Second },
		},
		{"any variable", jailer.Request{Env: map[string]string{"LD_PRELOAD": "x"}}, Overrides{}, func(p *Plan) bool { return slices.Equal(p.Env, []string{"LD_PRELOAD=x"}) }},
		{"named variable", jailer.Request{Profile: "named", Env: map[string]string{"LANG": "de"}}, Overrides{}, func(p *Plan) bool { return slices.Equal(p.Env, []string{"LANG=de"}) }},
		{"from the host to a directory", jailer.Request{}, Overrides{Rootfs: "a"}, func(p *Plan) bool { return p.Rootfs == Rootfs{"a", "/srv/a"} }},
		{"the same rootfs", jailer.Request{}, Overrides{Rootfs: "host"}, func(p *Plan) bool { return p.Rootfs == Rootfs{Name: "host"} }},
		{"apparmor", jailer.Request{Profile: "named"}, Overrides{AppArmorRequired: true}, func(p *Plan) bool { return p.AppArmor == AppArmorRequired }},
		{"apparmor as it is", jailer.Request{Profile: "named"}, Overrides{}, func(p *Plan) bool { return p.AppArmor == AppArmorOff }},
		{
			"files",
			jailer.Request{
				Files:       []jailer.RequestFile{{Path: "b", Content: "/w==", Encoding: "base64", Mode: "0750"}, {Path: "/tmp/a", Content: "x"}},
				Directories: []string{"d"}, Capabilities: []string{"exec", "fs.write"},
			},
			Overrides{},
			func(p *Plan) bool {
				return cmp.Equal(p.Files, []File{{"/workspace/b", 0o750, []byte("\xff")}, {"/tmp/a", 0o644, []byte("x")}}) && slices.Equal(p.Directories, []string{"/workspace/d"})
			},
		},
		{"no command by flag", jailer.Request{}, Overrides{Argv: []string{}}, func(p *Plan) bool { return p.Argv[0] == "true" }},
		{"kill", jailer.Request{OnOutputLimit: "kill"}, Overrides{}, func(p *Plan) bool { return p.OnOutputLimit == "kill" }},
		{"stdin by flag", jailer.Request{}, Overrides{Stdin: true}, func(p *Plan) bool { return !p.HasStdin }},
		{"unknown number of cpus", jailer.Request{}, Overrides{HostCPUs: -1}, func(p *Plan) bool { return p.Limits.CPUs == 1000 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.r.Argv = []string{"true"}
			if c.o.HostCPUs == 0 {
				c.o.HostCPUs = 2
			}
			plan, err := Resolve(p, &c.r, c.o)
			if err != nil {
				t.Fatal(err)
			}
			if !c.ok(plan) {
				t.Errorf("got %+v", plan)
			}
		})
	}
}

func TestFitTmpfs(t *testing.T) {
	const m = 1 << 20
	for _, c := range []struct {
		name           string
		memory         int64
		given          limits.Limits
		workspace, tmp int64 // 0: refused
	}{
		{"enough", 1 << 30, limits.Limits{}, 256 * m, 64 * m},
		{"just enough", 896 * m, limits.Limits{}, 256 * m, 64 * m},
		{"the proportion stays", 448 * m, limits.Limits{}, 128 * m, 32*m - 4096},
		{"least memory", 1 * m, limits.Limits{}, 292 * 1024, 68 * 1024},
		{"given workspace", 64 * m, limits.Limits{Workspace: 26 * m}, 26 * m, 2 * m},
		{"given workspace to the last page", 64 * m, limits.Limits{Workspace: 32*m - 3*4096}, 32*m - 3*4096, 4096},
		{"a page less", 64 * m, limits.Limits{Workspace: 32*m - 3*4096 + 1}, 0, 0},
		{"given tmp", 64 * m, limits.Limits{TmpSize: 10 * m}, 2 * m, 10 * m},
		{"given tmp is too much", 64 * m, limits.Limits{TmpSize: 11 * m}, 0, 0},
		{"both given", 64 * m, limits.Limits{TmpSize: 10 * m, Workspace: 2 * m}, 2 * m, 10 * m},
		{"both given, a byte more", 64 * m, limits.Limits{TmpSize: 10 * m, Workspace: 2*m + 1}, 0, 0},
		{"given and as large as can be", 64 * m, limits.Limits{TmpSize: math.MaxInt64, Workspace: math.MaxInt64}, 0, 0},
		{"given larger than the default", 4 << 30, limits.Limits{Workspace: 1 << 30}, 1 << 30, 64 * m},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := limits.Limits{Memory: c.memory, Workspace: 256 * m, TmpSize: 64 * m}
			if c.given.Workspace != 0 {
				l.Workspace = c.given.Workspace
			}
			if c.given.TmpSize != 0 {
				l.TmpSize = c.given.TmpSize
			}
			msg := fitTmpfs(&l, c.given)
			if c.workspace == 0 {
				if msg == "" {
					t.Fatalf("taken: %+v", l)
				}
				return
			}
			if msg != "" || abs(l.Workspace-c.workspace) > 8192 || abs(l.TmpSize-c.tmp) > 4096 {
				t.Errorf("workspace %d, tmp %d, %q; want %d, %d", l.Workspace, l.TmpSize, msg, c.workspace, c.tmp)
			}
			if c.given.Workspace == 0 && l.Workspace%4096 != 0 || c.given.TmpSize == 0 && l.TmpSize%4096 != 0 || l.Workspace == 0 || l.TmpSize == 0 {
				t.Errorf("workspace %d, tmp %d: not whole pages", l.Workspace, l.TmpSize)
			}
			if l.Workspace+limits.TmpMounts*l.TmpSize > c.memory/2 {
				t.Errorf("%d + 3×%d is more than half of %d", l.Workspace, l.TmpSize, c.memory)
			}
		})
	}
}

func abs(n int64) int64 { return max(n, -n) }

func TestPlanJSON(t *testing.T) {
	plan, err := Resolve(Builtin(), &jailer.Request{
		Argv: []string{"cat"}, Stdin: new("secret"), Directories: []string{"d"}, Files: []jailer.RequestFile{{Path: "a", Content: "secret", Mode: "600"}},
	}, Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := plan.JSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"{\n  \"v\": 1,\n  \"profile\": \"default\"", `"timeoutMs": 30000`, `"memoryBytes": 1073741824`, `"stdinBytes": 6`, `"path": "/workspace/a"`, `"mode": "0600"`, `"bytes": 6`, "\"directories\": [\n    \"/workspace/d\"", `"apparmor": "auto"`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no %s in\n%s", want, b)
		}
	}
	if strings.Contains(string(b), "secret") {
		t.Error("stdin or a file is shown")
	}
}

// FuzzResolve holds the promise of the package: whatever is asked for, and by
// whomever, the plan is not wider than the profile.
func FuzzResolve(f *testing.F) {
	const narrow = `version = 1
extends = "builtin"
[limits]
enforce = "required"
[rootfs.a]
path = "/srv/a"
[rootfs.b]
path = "/srv/b"
[seccomp.own]
path = "/etc/jailer/own.json"
[profiles.default]
env = { set = { LANG = "C" }, allow = ["*"] }
[profiles.agent]
rootfs = "a"
seccomp = "own"
mounts = [{ source = "/srv/m", target = "/m" }]
exec = { allow = ["/usr/bin/git"] }
capabilities = ["exec", "fs.read"]
env = { set = { LANG = "C", A = "1" }, allow = ["A", "B"] }
apparmor = "required"
output = { keep = "tail", on_limit = "kill" }
limits = { default = { memory = "64M", cpu_time = "2s" }, max = { memory = "128M", timeout = "60s", cpu_time = "20s", cpus = "1.5" } }
require = ["userns"]
`
	p, err := Parse("narrow.toml", []byte(narrow))
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(`{"argv":["a"]}`), "", "", "", int64(0), int64(0), int64(0), uint8(0))
	f.Add([]byte(`{"argv":["a"],"profile":"agent","env":{"B":"1"},"capabilities":["exec"]}`), "a", "", "", int64(0), int64(1<<20), int64(5), uint8(1))
	f.Add([]byte(`{"argv":["a"],"profile":"agent","limits":{"memoryBytes":134217728,"tmpBytes":1}}`), "b", "A", "exec", int64(60e9), int64(0), int64(2), uint8(3))
	f.Add([]byte(`{"argv":["a"],"limits":{"workspaceBytes":1,"cpuMilli":1,"timeoutMs":1}}`), "host", "LANG", "process", int64(0), int64(1<<62), int64(64), uint8(7))
	f.Add([]byte(`{"argv":["a"],"files":[{"path":"a"}],"directories":["/tmp/b"]}`), "", "", "fs.write", int64(0), int64(0), int64(0), uint8(0))
	f.Add([]byte(`{"argv":["a"],"profile":"agent","directories":["b"]}`), "", "", "", int64(0), int64(0), int64(0), uint8(0))
	f.Add([]byte(`{"argv":["a"],"capabilities":[],"onOutputLimit":"truncate"}`), "../a", "X", "", int64(-1), int64(-1), int64(-1), uint8(255))
	f.Fuzz(func(t *testing.T, doc []byte, rootfs, variable, capability string, timeout, memory, cpus int64, bits uint8) {
		r, err := jailer.ParseRequest(doc)
		if err != nil {
			return
		}
		o := Overrides{
			Rootfs:           rootfs,
			Limits:           limits.Limits{Timeout: time.Duration(timeout), Memory: memory, CPUs: limits.CPUs(cpus)},
			AppArmorRequired: bits&1 != 0,
			Stdin:            bits&2 != 0,
			HostCPUs:         int(bits >> 4),
		}
		if bits&4 != 0 {
			o.Profile = "agent"
		}
		if variable != "" {
			o.Env = map[string]string{variable: "x"}
		}
		if capability != "" {
			o.Capabilities = []string{"exec", capability}
		}
		plan, err := Resolve(p, r, o)
		if err != nil {
			if e, ok := errors.AsType[*jailer.Error](err); !ok || plan != nil || e.Code != jailer.CodeInvalidRequest && e.Code != jailer.CodePolicyDenied {
				t.Fatalf("got %v, %v", plan, err)
			}
			return
		}
		checkNotWider(t, p, plan, o)
	})
}

func checkNotWider(t *testing.T, p *Policy, plan *Plan, o Overrides) {
	t.Helper()
	f := p.profiles[plan.Profile]
	if f == nil {
		t.Fatalf("profile %q", plan.Profile)
	}
	top := f.max
	if f.maxHostCPUs {
		top.CPUs = limits.CPUs(1000 * max(o.HostCPUs, 1))
	}
	if plan.Exec != f.exec {
		t.Fatalf("exec %v", plan.Exec)
	}
	if !slices.Equal(plan.Mounts, f.mounts) {
		t.Fatalf("mounts %v", plan.Mounts)
	}
	for _, x := range limits.Fields() {
		got, most := x.Get(plan.Limits), x.Get(top)
		if most == 0 && x.Name == "cpu_time" {
			most = int64(top.CPUs.Time(top.Timeout))
		}
		if x.Optional() {
			// No swap is the narrowest; where 0 is no bound, a ceiling must be kept.
			if unbounded := x.Name != "swap"; unbounded && most == 0 || got >= 0 && got <= most && (got > 0 || !unbounded) {
				continue
			}
		}
		if got <= 0 || got > most {
			t.Errorf("%s: %d, the ceiling is %d", x.Name, got, most)
		}
	}
	if l := plan.Limits; l.Workspace > l.Memory/2 || limits.TmpMounts*l.TmpSize > l.Memory/2-l.Workspace {
		t.Errorf("tmpfs: %+v", l)
	}
	for _, c := range plan.Capabilities {
		if !slices.Contains(f.capabilities, c) {
			t.Errorf("capability %q", c)
		}
	}
	if !slices.Contains(plan.Capabilities, jailer.CapExec) {
		t.Errorf("a run without exec: %v", plan.Capabilities)
	}
	if len(plan.Files)+len(plan.Directories) > 0 && !slices.Contains(plan.Capabilities, jailer.CapFSWrite) {
		t.Error("files without fs.write")
	}
	places := slices.Clone(plan.Directories)
	for _, f := range plan.Files {
		places = append(places, f.Path)
		if f.Mode&^0o777 != 0 {
			t.Errorf("the mode of %q is %v", f.Path, f.Mode)
		}
	}
	for _, abs := range places {
		if m := jailpath.Mount(abs); m == "" || m == abs || path.Clean(abs) != abs {
			t.Errorf("a file at %q", abs)
		}
	}
	slices.Sort(places)
	if len(slices.Compact(places)) != len(plan.Files)+len(plan.Directories) {
		t.Error("a place twice")
	}
	seen := map[string]bool{}
	for _, kv := range plan.Env {
		k, v, ok := strings.Cut(kv, "=")
		set, isSet := f.envSet[k]
		byName := slices.Contains(f.envAllow, k)
		if !ok || seen[k] || !byName && !(isSet && v == set) && (isSet || !slices.Contains(f.envAllow, "*")) {
			t.Errorf("variable %q", kv)
		}
		seen[k] = true
	}
	for k := range f.envSet {
		if !seen[k] {
			t.Errorf("the policy's %s is lost", k)
		}
	}
	if plan.Rootfs.Name != f.rootfs && (f.rootfs != RootfsHost || p.roots[plan.Rootfs.Name] == "") || plan.Rootfs.Path != p.roots[plan.Rootfs.Name] {
		t.Errorf("rootfs %+v", plan.Rootfs)
	}
	if plan.AppArmor != f.apparmor && plan.AppArmor != AppArmorRequired {
		t.Errorf("apparmor %q", plan.AppArmor)
	}
	if f.onLimit == jailer.OnLimitKill && plan.OnOutputLimit != jailer.OnLimitKill {
		t.Errorf("on output limit %q", plan.OnOutputLimit)
	}
	if plan.Enforce != p.Enforce || plan.Seccomp != f.seccomp || plan.SeccompPath != p.filters[f.seccomp] || plan.IDs != f.ids || plan.UIDRange != p.UIDRange ||
		plan.Network != NetworkNone || !slices.Equal(plan.Require, f.require) {
		t.Errorf("got %+v", plan)
	}
	if len(plan.Argv) == 0 || plan.Cwd[0] != '/' || strings.HasPrefix(plan.Cwd+"/", "/proc/") || strings.Contains(plan.Cwd+"/", "/../") {
		t.Errorf("argv %q, cwd %q", plan.Argv, plan.Cwd)
	}
}
