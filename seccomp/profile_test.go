package seccomp

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jailer-project/jailer/internal/strictjson"
	"github.com/jailer-project/jailer/profiles"
	"github.com/opencontainers/runtime-spec/specs-go"
)

func load(t testing.TB) *Profile { return loadNamed(t, "default") }

func loadNamed(t testing.TB, name string) *Profile {
	t.Helper()
	p, err := Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// doc makes a profile of the given rules, in JSON.
func doc(rules string) string {
	return `{"comment":"c","because":"b","defaultAction":"SCMP_ACT_ERRNO","defaultErrno":"ENOSYS","badArchAction":"SCMP_ACT_KILL_PROCESS","syscalls":[` + rules + `]}`
}

// rule makes one rule, in JSON.
func rule(name, action, rest string) string {
	return `{"comment":"c","because":"b","names":["` + name + `"],"action":"` + action + `"` + rest + `}`
}

func TestDefaultPassesCheck(t *testing.T) {
	if err := load(t).Check(); err != nil {
		t.Fatal(err)
	}
}

func TestStrictPassesCheck(t *testing.T) {
	if err := loadNamed(t, "strict").Check(); err != nil {
		t.Fatal(err)
	}
}

func TestBuiltin(t *testing.T) {
	if got := Builtin(); !slices.Equal(got, []string{"default", "strict"}) {
		t.Errorf("built in: %v", got)
	}
	for _, name := range Builtin() {
		loadNamed(t, name)
	}
}

func TestLoadRefuses(t *testing.T) {
	for _, name := range []string{"", "nosuch", "../policy/builtin", "default.json", "Default", "a/b", strings.Repeat("a", 40)} {
		if p, err := Load(name); err == nil || p != nil {
			t.Errorf("Load(%q) gave %v, %v", name, p, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	ok := rule("read", "SCMP_ACT_ALLOW", "")
	if _, err := Parse([]byte(doc(ok))); err != nil {
		t.Fatalf("control: %v", err)
	}
	for _, c := range []struct{ name, in, path, msg string }{
		{"no rules", doc(""), "syscalls", "1 to"},
		{"unknown key", doc(rule("read", "SCMP_ACT_ALLOW", `,"x":1`)), "syscalls[0].x", "unknown field"},
		{"odd case", doc(rule("read", "SCMP_ACT_ALLOW", `,"Args":[]`)), "syscalls[0].Args", "name is args"},
		{"duplicate", doc(rule("read", "SCMP_ACT_ALLOW", `,"names":["bpf"]`)), "syscalls[0].names", "given twice"},
		{"trailing", doc(ok) + "{}", "", "after the end"},
		{"log action", doc(rule("read", "SCMP_ACT_LOG", "")), "syscalls[0].action", "want SCMP_ACT_ALLOW"},
		{"notify action", doc(rule("read", "SCMP_ACT_NOTIFY", "")), "syscalls[0].action", "want SCMP_ACT_ALLOW"},
		{"trace default", strings.Replace(doc(ok), "SCMP_ACT_ERRNO", "SCMP_ACT_TRACE", 1), "defaultAction", "want SCMP_ACT_ALLOW"},
		{"errno missing", doc(rule("read", "SCMP_ACT_ERRNO", "")), "syscalls[0].action", "needs an errno"},
		{"errno unknown", doc(rule("read", "SCMP_ACT_ERRNO", `,"errno":"OK"`)), "syscalls[0].action", "needs an errno"},
		{"errno on allow", doc(rule("read", "SCMP_ACT_ALLOW", `,"errno":"EPERM"`)), "syscalls[0].action", "takes no errno"},
		{"bad arch", strings.Replace(doc(ok), "KILL_PROCESS", "ALLOW", 1), "badArchAction", "must be"},
		{"no bad arch", strings.Replace(doc(ok), `"badArchAction":"SCMP_ACT_KILL_PROCESS",`, "", 1), "badArchAction", "must be"},
		{"call name", doc(rule("re ad", "SCMP_ACT_ALLOW", "")), "syscalls[0].names[0]", "not a system call"},
		{"no names", doc(`{"comment":"c","because":"b","names":[],"action":"SCMP_ACT_ALLOW"}`), "syscalls[0].names", "1 to"},
		{"both sets", doc(rule("read", "SCMP_ACT_ALLOW", `,"args":[{"index":0,"in32":["1"],"notIn32":["2"]}]`)), "syscalls[0].args[0]", "one of"},
		{"no set", doc(rule("read", "SCMP_ACT_ALLOW", `,"args":[{"index":0}]`)), "syscalls[0].args[0]", "one of"},
		{"empty set", doc(rule("read", "SCMP_ACT_ALLOW", `,"args":[{"index":0,"notIn32":[]}]`)), "syscalls[0].args[0]", "1 to"},
		{"OCI condition", doc(rule("read", "SCMP_ACT_ALLOW", `,"args":[{"index":0,"value":1,"op":"SCMP_CMP_EQ"}]`)), "syscalls[0].args[0].value", "unknown field"},
		{"64-bit value", doc(rule("read", "SCMP_ACT_ALLOW", `,"args":[{"index":0,"in32":["0x100000001"]}]`)), "syscalls[0].args[0].in32[0]", "32-bit"},
		{"negative value", doc(rule("read", "SCMP_ACT_ALLOW", `,"args":[{"index":0,"in32":["-1"]}]`)), "syscalls[0].args[0].in32[0]", "32-bit"},
		{"unknown constant", doc(rule("read", "SCMP_ACT_ALLOW", `,"args":[{"index":0,"in32":["AF_NOPE"]}]`)), "syscalls[0].args[0].in32[0]", "neither"},
		{"outside mask", doc(rule("read", "SCMP_ACT_ALLOW", `,"args":[{"index":0,"mask":["0xf"],"in32":["16"]}]`)), "syscalls[0].args[0].in32[0]", "outside the mask"},
		{"zero mask", doc(rule("read", "SCMP_ACT_ALLOW", `,"args":[{"index":0,"mask":["0"],"in32":["0"]}]`)), "syscalls[0].args[0].mask", "zero"},
		{"value twice", doc(rule("read", "SCMP_ACT_ALLOW", `,"args":[{"index":0,"in32":["AF_UNIX","1"]}]`)), "syscalls[0].args[0].in32[1]", "already"},
		{"index 6", doc(rule("read", "SCMP_ACT_ALLOW", `,"args":[{"index":6,"in32":["1"]}]`)), "syscalls[0].args[0].index", "0 to 5"},
		{"index -1", doc(rule("read", "SCMP_ACT_ALLOW", `,"args":[{"index":-1,"in32":["1"]}]`)), "syscalls[0].args[0].index", "out of range"},
		{"same argument twice", doc(rule("read", "SCMP_ACT_ALLOW", `,"args":[{"index":0,"notIn32":["1"]},{"index":0,"notIn32":["2"]}]`)), "syscalls[0].args[1]", "second condition"},
		{"too wide", doc(rule("read", "SCMP_ACT_ALLOW", `,"args":[{"index":0,"notIn32":["1"]},{"index":1,"notIn32":["1"]},{"index":2,"notIn32":["1"]}]`)), "syscalls[0]", "32768 comparisons"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse([]byte(c.in))
			e, ok := errors.AsType[*strictjson.Error](err)
			if !ok || e.Path != c.path || !strings.Contains(e.Msg, c.msg) || e.Line != 1 {
				t.Fatalf("got %v, want %s: …%s…", err, c.path, c.msg)
			}
		})
	}
}

// TestLines wants the line of a fault that is deep in a file of several lines.
func TestLines(t *testing.T) {
	text := strings.ReplaceAll(doc(rule("read", "SCMP_ACT_ALLOW", "")+","+rule("write", "SCMP_ACT_ALLOW", `,"args":[{"index":0,"in32":["1","x"]}]`)), "{", "\n{")
	_, err := Parse([]byte(text))
	if err == nil || !strings.HasPrefix(err.Error(), "line 5: syscalls[1].args[0].in32[1]: ") {
		t.Errorf("a bad value: %v", err)
	}
	_, err = Parse([]byte(strings.Replace(text, `"errno":`, "", 1)))
	if err == nil || !strings.HasPrefix(err.Error(), "line 5: ") {
		t.Errorf("%v", err)
	}
	p, err := Parse([]byte(strings.ReplaceAll(doc(rule("read", "SCMP_ACT_ALLOW", "")+","+rule("bpf", "SCMP_ACT_ALLOW", "")), "{", "\n{")))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Check(); err == nil || !strings.HasPrefix(err.Error(), "line 4: syscalls[1]: bpf: never allowed: ") {
		t.Errorf("a rule: %v", err)
	}
}

// TestCheckRefuses adds one rule to the default profile, or takes something
// away, and wants Check to say so.
func TestCheckRefuses(t *testing.T) {
	for _, c := range []struct{ name, extra, msg string }{
		{"overlap", rule("read", "SCMP_ACT_ERRNO", `,"errno":"EPERM"`), "overlaps another rule for read"},
		{"overlap in part", rule("mknod", "SCMP_ACT_ALLOW", `,"args":[{"index":0,"in32":["5"]}]`), "overlaps another rule for mknod"},
		{"twice in a rule", `{"comment":"c","because":"b","names":["swapcontext","swapcontext"],"action":"SCMP_ACT_ALLOW"}`, "there twice"},
		{"no because", `{"comment":"c","because":"","names":["swapcontext"],"action":"SCMP_ACT_ALLOW"}`, "needs a comment and a because"},
		{"socketcall", rule("socketcall", "SCMP_ACT_ALLOW", ""), "socketcall: never allowed"},
		{"one bpf command", rule("bpf", "SCMP_ACT_ALLOW", `,"args":[{"index":0,"in32":["5"]}]`), "bpf: never allowed"},
		{"io_uring", rule("io_uring_setup", "SCMP_ACT_ALLOW", ""), "io_uring_setup: never allowed"},
		{"AF_ALG", rule("socket", "SCMP_ACT_ALLOW", `,"args":[{"index":0,"in32":["38"]}]`), "socket: never allowed"},
		{"all but AF_ALG", rule("socket", "SCMP_ACT_ALLOW", `,"args":[{"index":0,"notIn32":["38"]}]`), "socket: never allowed"},
		{"any family", rule("socket", "SCMP_ACT_ALLOW", ""), "socket: never allowed"},
		{"netlink xfrm", rule("socket", "SCMP_ACT_ALLOW", `,"args":[{"index":0,"in32":["AF_NETLINK"]},{"index":2,"in32":["6"]}]`), "socket: never allowed"},
		{"raw", rule("socket", "SCMP_ACT_ALLOW", `,"args":[{"index":0,"in32":["AF_INET"]},{"index":1,"in32":["SOCK_RAW"]}]`), "never allowed: a raw socket"},
		{"user namespace with flags", rule("clone", "SCMP_ACT_ALLOW", `,"args":[{"index":0,"in32":["0x10000311"]}]`), "clone: never allowed"},
		{"TIOCSTI", rule("ioctl", "SCMP_ACT_ALLOW", `,"args":[{"index":1,"in32":["0x5412"]}]`), "ioctl: never allowed"},
		{"prlimit of pid 1", rule("prlimit64", "SCMP_ACT_ALLOW", `,"args":[{"index":0,"in32":["1"]},{"index":1,"in32":["3"]}]`), "prlimit64: never allowed"},
		{"block device", rule("mknodat", "SCMP_ACT_ALLOW", `,"args":[{"index":2,"in32":["0x61b6"]}]`), "a device node"},
		{"clone3", rule("clone3", "SCMP_ACT_ALLOW", ""), "clone3: never allowed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			data, err := profiles.FS.ReadFile("seccomp/default.json")
			if err != nil {
				t.Fatal(err)
			}
			p, err := Parse([]byte(strings.Replace(string(data), `"syscalls": [`, `"syscalls": [`+c.extra+",", 1)))
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Check(); err == nil || !strings.Contains(err.Error(), c.msg) || !strings.Contains(err.Error(), "line ") {
				t.Fatalf("got %v, want …%s…, with the line", err, c.msg)
			}
		})
	}
	for name, spoil := range map[string]func(*Profile){
		"default allow": func(p *Profile) { p.DefaultAction, p.DefaultErrno = specs.ActAllow, "" },
		"default EPERM": func(p *Profile) { p.DefaultErrno = "EPERM" },
	} {
		t.Run(name, func(t *testing.T) {
			p := load(t)
			spoil(p)
			if p.Check() == nil {
				t.Fatal("passed")
			}
		})
	}
}

// TestToOCI holds the output to what libseccomp, runc and crun read alike.
func TestToOCI(t *testing.T) {
	p := load(t)
	if _, err := p.ToOCI("riscv64"); err == nil {
		t.Error("riscv64 was accepted")
	}
	for arch, want := range map[string]specs.Arch{"amd64": specs.ArchX86_64, "arm64": specs.ArchAARCH64} {
		oci, err := p.ToOCI(arch)
		if err != nil {
			t.Fatal(err)
		}
		if len(oci.Architectures) != 1 || oci.Architectures[0] != want {
			t.Errorf("%s: architectures %v", arch, oci.Architectures)
		}
		if oci.DefaultAction != specs.ActErrno || oci.DefaultErrnoRet == nil || *oci.DefaultErrnoRet != 38 || oci.Flags == nil {
			t.Errorf("%s: default %s %v, flags %v", arch, oci.DefaultAction, oci.DefaultErrnoRet, oci.Flags)
		}
		for _, call := range oci.Syscalls {
			if call.Action == specs.ActErrno && (call.ErrnoRet == nil || *call.ErrnoRet == 38 || *call.ErrnoRet == 0) {
				t.Errorf("%v: errno %v", call.Names, call.ErrnoRet)
			}
			seen := map[uint]bool{}
			for _, a := range call.Args {
				if seen[a.Index] || a.Op != specs.OpMaskedEqual || a.Value > 0xffffffff || a.ValueTwo&^a.Value != 0 {
					t.Errorf("%v: condition %+v", call.Names, a)
				}
				seen[a.Index] = true
			}
		}
	}
	a, _ := p.ToOCI("amd64")
	b, _ := load(t).ToOCI("amd64")
	ja, _ := json.Marshal(a)
	jb, _ := json.Marshal(b)
	if string(ja) != string(jb) {
		t.Error("two calls give different bytes")
	}
}

// FuzzParse holds that what passes Parse and Check can be written as OCI and
// denies a hand-written sample of the never-allowed list.
func FuzzParse(f *testing.F) {
	data, err := profiles.FS.ReadFile("seccomp/default.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	if data, err = profiles.FS.ReadFile("seccomp/strict.json"); err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(doc(rule("read", "SCMP_ACT_ALLOW", ""))))
	f.Add([]byte(doc(rule("socket", "SCMP_ACT_ALLOW", `,"args":[{"index":0,"in32":["1"]}]`))))
	f.Add([]byte(doc(rule("clone", "SCMP_ACT_ALLOW", `,"args":[{"index":0,"mask":["0x7e020000"],"in32":["0"]}]`))))
	f.Add([]byte(doc(rule("ioctl", "SCMP_ACT_ALLOW", `,"args":[{"index":1,"notIn32":["0x5412","0x541c","0x541d","0x5423"]}]`))))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Parse(data)
		if err != nil {
			return
		}
		oci, err := p.ToOCI("amd64")
		if err != nil {
			t.Fatal(err)
		}
		if p.Check() != nil {
			return
		}
		for i, r := range p.Rules {
			for _, name := range r.Names {
				for _, l := range p.Explain(name) {
					if l.Action == "" || l.Because == "" {
						t.Fatalf("%s, %s: %+v", p.Place(i), name, l)
					}
				}
			}
		}
		for _, call := range oci.Syscalls {
			if call.Names == nil {
				t.Fatal("a rule without names")
			}
		}
		for _, c := range []struct {
			name string
			args [6]uint64
		}{
			{"bpf", [6]uint64{5}},
			{"keyctl", [6]uint64{}},
			{"io_uring_setup", [6]uint64{1}},
			{"clone3", [6]uint64{}},
			{"socket", [6]uint64{38, 5}},
			{"socket", [6]uint64{1<<32 | 40, 1}},
			{"socket", [6]uint64{16, 3, 6}},
			{"socket", [6]uint64{2, 3, 1}},
			{"clone", [6]uint64{0x10000011}},
			{"clone", [6]uint64{0x7e020000}},
			{"ioctl", [6]uint64{0, 1<<32 | 0x5412}},
			{"prlimit64", [6]uint64{1<<32 | 1}},
			{"mknodat", [6]uint64{0, 0, 0x21b6}},
			{"personality", [6]uint64{0x40000}},
		} {
			if v := p.Evaluate(c.name, c.args); v.Action == specs.ActAllow {
				t.Fatalf("%s%v is allowed, and Check passed", c.name, c.args)
			}
		}
	})
}
