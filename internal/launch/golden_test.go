package launch

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/jailer-project/jailer/cgroup"
	"github.com/jailer-project/jailer/internal/terminal"
	"github.com/jailer-project/jailer/policy"
	"github.com/jailer-project/jailer/rootfs"
	"github.com/jailer-project/jailer/spec"
)

var update = flag.Bool("update", false, "write the config.json of the golden files anew")

// TestSpec reads testdata/*.txtar: policy.toml and request.json in, the OCI
// config.json out, and the process that libcontainer starts in the command's
// place. A change of the jail is a diff of these files. The filter is left out:
// profiles/seccomp is what to read there.
func TestSpec(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txtar"), func(t *testing.T) { golden(t, f) })
	}
}

func golden(t *testing.T, file string) {
	ar, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	in := map[string]string{}
	for _, f := range ar.Files {
		in[f.Name] = string(f.Data)
	}
	p, err := policy.Parse("policy.toml", []byte(in["policy.toml"]))
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Policy: p, Overrides: policy.Overrides{HostCPUs: 4}}
	if in["request.json"] != "" {
		o.Request = []byte(in["request.json"])
	}
	r := newJail(t.Context(), o)
	r.only = r.newCommand(t.Context(), o.command())
	if err := r.readRequest(); err != nil {
		t.Fatal(err)
	}
	plan, err := policy.Resolve(p, r.request, o.Overrides)
	if err != nil {
		t.Fatal(err)
	}
	r.plan = plan
	r.ids = ids{uid: 1234, gid: 1234}
	switch strings.TrimSpace(in["host"]) {
	case "root":
		r.ids = ids{uid: 1900000007, gid: 1900000007, owned: true}
		r.base, r.held = new(cgroup.Base), cgroup.Controllers()
	case "delegated":
		r.base, r.held = new(cgroup.Base), cgroup.Controllers()
	case "range":
		r.base, r.held = new(cgroup.Base), cgroup.Controllers()
		r.ids.subUID, r.ids.subGID, r.ids.n = 100000, 100000, rangeSize
	case "best-effort":
	default:
		t.Fatalf("host %q", in["host"])
	}
	if in["tty"] != "" {
		size, err := terminal.ParseSize(strings.TrimSpace(in["tty"]))
		if err != nil {
			t.Fatal(err)
		}
		r.o.TTY = &TTY{Size: size, Type: "xterm"}
	}
	layout := rootfs.Layout{Path: "/run/jailer/ID/root", Binds: []rootfs.Bind{
		{Source: "/usr", Target: "/usr"},
		{Source: "/run/jailer/ID/dev", Target: "/dev"},
		{Source: "/dev/null", Target: "/dev/null", Device: true},
	}}
	c, err := r.specConfig(layout)
	if err != nil {
		t.Fatal(err)
	}
	s, err := spec.Build(c)
	if err != nil {
		t.Fatal(err)
	}
	if r.base != nil {
		s.Linux.CgroupsPath = "/jailer/jail-ID/init"
	}
	for name, v := range map[string]any{
		"config.json":  s,
		"process.json": spec.ForInit(s, []string{"/proc/self/fd/4"}).Process,
	} {
		got := marshal(t, v)
		if *update {
			set(ar, name, got)
		} else if d := cmp.Diff(in[name], got); d != "" {
			t.Errorf("%s: %s (run with -update after reading the difference):\n%s", file, name, d)
		}
	}
	if *update {
		slices.SortStableFunc(ar.Files[3:], func(a, b txtar.File) int { return strings.Compare(a.Name, b.Name) })
		if err := os.WriteFile(file, txtar.Format(ar), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b) + "\n"
}

func set(ar *txtar.Archive, name, data string) {
	for i := range ar.Files {
		if ar.Files[i].Name == name {
			ar.Files[i].Data = []byte(data)
			return
		}
	}
	ar.Files = append(ar.Files, txtar.File{Name: name, Data: []byte(data)})
}
