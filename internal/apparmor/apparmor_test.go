package apparmor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jailer-project/jailer/spec"
	"github.com/jailer-project/jailer/test/need"
)

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text), Mode: 0o444} }

// armed is a kernel with both profiles, as its files show it.
func armed() fstest.MapFS {
	const d = loadedDir + "/"
	return fstest.MapFS{
		switchFile:                                 file("Y\n"),
		d + "other.3/name":                         file("other\n"),
		d + "other.3/mode":                         file("enforce\n"),
		d + "jailer-default.7/name":                file("jailer-default\n"),
		d + "jailer-default.7/mode":                file("enforce\n"),
		d + "jailer-default.7/profiles/x.8/name":   file("x\n"),
		d + "jailer-default.7/profiles/job.9/name": file("job\n"),
		d + "jailer-default.7/profiles/job.9/mode": file("enforce\n"),
	}
}

// closed is a file system in which one file can't be read.
type closed struct {
	fs.FS
	name string
}

func (c closed) Open(name string) (fs.File, error) {
	if name == c.name {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return c.FS.Open(name)
}

func TestReady(t *testing.T) {
	const parent = loadedDir + "/jailer-default.7"
	const child = parent + "/profiles/job.9"
	for name, tc := range map[string]struct {
		change  func(fstest.MapFS)
		closed  string
		allow   map[string]uint32 // what the rules permit, where they aren't ours
		refuses error
		id      string
		unknown bool
		word    string
	}{
		"loaded":               {},
		"another text":         {allow: map[string]uint32{Default: 0x7f}, id: "apparmor.profile", word: "jailer-default that is loaded is not"},
		"without rules":        {allow: map[string]uint32{Default: 0}, id: "apparmor.profile", word: "another text"},
		"another text for job": {allow: map[string]uint32{Job: 0x7f}, id: "apparmor.profile", word: "//job that is loaded is not"},
		"no answer":            {refuses: fs.ErrPermission, id: "apparmor.profile", unknown: true, word: "permission"},
		"no AppArmor": {change: func(m fstest.MapFS) {
			delete(m, switchFile)
			m[modulesDir+"/kernel/parameters/panic"] = file("0\n")
		}, id: "apparmor", word: "no AppArmor"},
		"no sysfs":          {change: func(m fstest.MapFS) { delete(m, switchFile) }, id: "apparmor", unknown: true, word: modulesDir},
		"off":               {change: func(m fstest.MapFS) { m[switchFile] = file("N\n") }, id: "apparmor", word: "off"},
		"switch unreadable": {closed: switchFile, id: "apparmor", unknown: true, word: "permission"},
		"not loaded": {change: func(m fstest.MapFS) {
			for f := range m {
				if strings.HasPrefix(f, parent) {
					delete(m, f)
				}
			}
		}, id: "apparmor.profile", word: "jailer-default is not loaded"},
		"nothing is loaded": {change: func(m fstest.MapFS) {
			for f := range m {
				if strings.HasPrefix(f, loadedDir) {
					delete(m, f)
				}
			}
			m[loadedDir] = &fstest.MapFile{Mode: fs.ModeDir | 0o555}
		}, id: "apparmor.profile", word: "not loaded"},
		"the child is missing":  {change: func(m fstest.MapFS) { delete(m, child+"/name"); delete(m, child+"/mode") }, id: "apparmor.profile", word: "//job is not loaded"},
		"complain":              {change: func(m fstest.MapFS) { m[parent+"/mode"] = file("complain\n") }, id: "apparmor.profile", word: `"complain"`},
		"the child in complain": {change: func(m fstest.MapFS) { m[child+"/mode"] = file("complain\n") }, id: "apparmor.profile", word: "//job is loaded in mode"},
		"no securityfs": {change: func(m fstest.MapFS) {
			for f := range m {
				if f != switchFile {
					delete(m, f)
				}
			}
		}, id: "apparmor.profile", unknown: true, word: "can't be read"},
		"a name unreadable": {closed: parent + "/name", id: "apparmor.profile", unknown: true, word: "permission"},
		"a mode unreadable": {closed: child + "/mode", id: "apparmor.profile", unknown: true, word: "permission"},
	} {
		t.Run(name, func(t *testing.T) {
			m := armed()
			if tc.change != nil {
				tc.change(m)
			}
			r := Ready(closed{m, tc.closed}, func(name, file string) (uint32, error) {
				if file != Mark() {
					t.Errorf("asked about %s", file)
				}
				if allow, ok := tc.allow[name]; ok {
					return allow, nil
				}
				return mayWrite | 0x10, tc.refuses
			})
			if tc.id == "" {
				if r != nil {
					t.Fatal(r)
				}
				return
			}
			if r == nil || r.ID != tc.id || r.Unknown != tc.unknown || !strings.Contains(r.Text, tc.word) || r.Hint == "" || r.Where == "" {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestText(t *testing.T) {
	old, young := fstest.MapFS{}, fstest.MapFS{"etc/apparmor.d/abi/4.0": file("")}
	for name, tc := range map[string]struct {
		root          fs.FS
		profile, exe  string
		has, hasNot   string
		empty, refuse bool
	}{
		"default":          {root: young, profile: Default, has: "\n  deny " + Mark() + " r,", hasNot: "TEXT"},
		"default, young":   {root: young, profile: Default, has: "\n  userns,\n", hasNot: "abi/3.0"},
		"its child":        {root: young, profile: Default, has: "\n    deny " + Mark() + " r,"},
		"default, old":     {root: old, profile: Default, has: "abi <abi/3.0>,", hasNot: "\n  userns,"},
		"launcher":         {root: young, profile: Launcher, exe: "/opt/jailer-1.2/bin/jailer", has: "\n@{jailer} = /opt/jailer-1.2/bin/jailer\n", hasNot: "/usr/"},
		"launcher, old":    {root: old, profile: Launcher, exe: "/opt/jailer", empty: true},
		"a pattern":        {root: young, profile: Launcher, exe: "/opt/*/jailer", refuse: true},
		"a blank":          {root: young, profile: Launcher, exe: "/opt/a b", refuse: true},
		"an end of line":   {root: young, profile: Launcher, exe: "/opt/a\nprofile x /** {}", refuse: true},
		"a variable":       {root: young, profile: Launcher, exe: "/opt/@{jailer}", refuse: true},
		"not absolute":     {root: young, profile: Launcher, exe: "jailer", refuse: true},
		"a deleted file":   {root: young, profile: Launcher, exe: "/usr/bin/jailer (deleted)", refuse: true},
		"no such profile":  {root: young, profile: "other", refuse: true},
		"a name with dots": {root: young, profile: "../policy/builtin.toml", refuse: true},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := Text(tc.root, tc.profile, tc.exe)
			if (err != nil) != tc.refuse || tc.empty != (text == "" && err == nil) {
				t.Fatalf("%q, %v", text, err)
			}
			if err == nil && !strings.Contains(text, tc.has) || tc.hasNot != "" && strings.Contains(text, tc.hasNot) {
				t.Errorf("%s", text)
			}
		})
	}
}

// TestParse: the parser takes both profiles, and refuses a broken one.
func TestParse(t *testing.T) {
	_, err := parser()
	need.Feature(t, "apparmor_parser", err == nil, "apparmor_parser is not installed")
	root := os.DirFS("/")
	abi := "/etc/apparmor.d/abi/4.0"
	if _, err := os.Stat(abi); err != nil {
		abi = "/etc/apparmor.d/abi/3.0"
	}
	flags := []string{"--stdout", "--skip-kernel-load", "--kernel-features", abi}
	for _, name := range Names() {
		text, err := Text(root, name, "/opt/bin/jailer")
		if err != nil {
			t.Fatal(err)
		}
		if text == "" {
			continue
		}
		if out, err := parse(t.Context(), text, flags...); err != nil || len(out) == 0 {
			t.Errorf("%s: %d bytes, %v", name, len(out), err)
		}
		if _, err := parse(t.Context(), strings.Replace(text, "{\n", "{\n nosuch,\n", 1), flags...); err == nil || !strings.Contains(err.Error(), "syntax error") {
			t.Errorf("a broken %s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := parse(ctx, "", flags...); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// The profile denies what the spec masks or makes read-only because it is an
// interface of the kernel's: it has to hold where a mount was forgotten.
func TestProfileCoversMasks(t *testing.T) {
	text, err := Text(fstest.MapFS{}, Default, "")
	if err != nil {
		t.Fatal(err)
	}
	denied := map[string]string{} // a path, and those below it as PATH/, to what is denied
	for _, m := range regexp.MustCompile(`(?m)^ +deny (/\S+) ([rwklx]+),`).FindAllStringSubmatch(text, -1) {
		for _, p := range braces(m[1]) {
			denied[strings.TrimSuffix(p, "**")] = m[2]
		}
	}
	// Telling, not dangerous, or another file for each process: the masks are enough.
	masksOnly := []string{
		"/proc/1", "/proc/cmdline", "/proc/config.gz", "/proc/interrupts", "/proc/locks",
		"/proc/timer_stats", "/proc/driver", "/proc/mtrr", "/proc/pressure",
	}
	for _, p := range append(spec.MaskedPaths(), spec.ReadonlyPaths()...) {
		if strings.HasPrefix(p, "/proc/1/") || slices.Contains(masksOnly, p) {
			continue
		}
		if has := denied[p] + denied[p+"/"]; !strings.Contains(has, "w") {
			t.Errorf("%s can be written, but for its mount: %q is denied", p, has)
		}
	}
	for _, p := range []string{"/proc/kcore", "/proc/kallsyms", "/proc/keys", "/proc/kmsg", "/dev/mem"} {
		if !strings.Contains(denied[p], "r") {
			t.Errorf("%s can be read", p)
		}
	}
}

// braces gives the alternatives of a pattern with one pair of them, or none.
func braces(pattern string) []string {
	before, rest, ok := strings.Cut(pattern, "{")
	if !ok {
		return []string{pattern}
	}
	in, after, _ := strings.Cut(rest, "}")
	var out []string
	for _, alt := range strings.Split(in, ",") {
		out = append(out, braces(before+alt+after)...)
	}
	return out
}

func TestAnswer(t *testing.T) {
	for text, want := range map[string]int64{
		"allow 0x0000007a\ndeny 0x00000000\naudit 0x00000000\nquiet 0x00000004\n": 0x7a,
		"allow 0x0000007e\ndeny 0x00000004\naudit 0x00000000\nquiet 0x00000000\n": 0x7a,
		"allow 0x0\ndeny 0x0\n": 0,
		"":                      -1,
		"allow 0x7a":            -1,
		"allow yes\ndeny no\n":  -1,
	} {
		if got, err := answer(text); (err != nil) != (want < 0) || err == nil && int64(got) != want {
			t.Errorf("%q: %#x, %v", text, got, err)
		}
	}
}

func TestAttachable(t *testing.T) {
	if err := Attachable("/usr/bin/env"); err != nil {
		t.Errorf("a program of the system's: %v", err)
	}
	if err := Attachable("/nosuch"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("none: %v", err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("/usr/bin/env", link); err != nil {
		t.Fatal(err)
	}
	if err := Attachable(link); err == nil {
		t.Error("a link in a directory that others can write to was accepted")
	}
	// /tmp itself is everybody's, sticky or not.
	if err := Attachable(t.TempDir()); err == nil {
		t.Error("a file below /tmp was accepted")
	}
}

// TestLabelOfNobody: what can't be read is an error, never a label.
func TestLabelOfNobody(t *testing.T) {
	done := exec.Command("/bin/true")
	if err := done.Run(); err != nil {
		t.Fatal(err)
	}
	if l, err := Label(done.ProcessState.Pid()); err == nil || l != "" {
		t.Errorf("%q, %v", l, err)
	}
}
