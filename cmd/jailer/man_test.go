package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/audit"
	"github.com/jailer-project/jailer/internal/host"
	"github.com/jailer-project/jailer/internal/state"
	"github.com/jailer-project/jailer/seccomp"
)

// manSections reads the page of jailer run: its level-one sections by name.
func manSections(t *testing.T) map[string]string { return pageSections(t, "run") }

func pageSections(t *testing.T, verb string) map[string]string {
	t.Helper()
	b, err := os.ReadFile("../../docs/man/jailer-" + verb + ".1.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(b), "% JAILER-"+strings.ToUpper(verb)+" 1\n") {
		t.Error("no title line: go-md2man makes the header of it")
	}
	out := map[string]string{}
	for part := range strings.SplitSeq("\n"+string(b), "\n# ") {
		name, text, _ := strings.Cut(part, "\n")
		out[name] = text
	}
	return out
}

// manFlags are the flags that `jailer VERB… --help` shows.
func manFlags(t *testing.T, verb ...string) []string {
	t.Helper()
	root := (&app{}).command()
	c, _, err := root.Find(verb)
	if err != nil || c.Name() != verb[len(verb)-1] {
		t.Fatalf("no command %v: %v", verb, err)
	}
	return flagsOf(c)
}

func flagsOf(c *cobra.Command) []string {
	c.InitDefaultHelpFlag()
	var names []string
	add := func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	}
	c.NonInheritedFlags().VisitAll(add)
	c.InheritedFlags().VisitAll(add)
	slices.Sort(names)
	return names
}

// TestManFlags: every flag of a verb is in its page's OPTIONS and the other way
// round, in alphabetical order; and the page mentions no flag that there isn't.
func TestManFlags(t *testing.T) {
	for page, verb := range map[string][]string{
		"run": {"run"}, "seccomp": {"seccomp", "explain"}, "apparmor": {"apparmor", "load"}, "doctor": {"doctor"}, "events": {"events"},
		"create": {"create"}, "exec": {"exec"}, "gc": {"gc"},
	} {
		t.Run(page, func(t *testing.T) { compareFlags(t, pageSections(t, page), manFlags(t, verb...)) })
	}
	for _, name := range manFlags(t, "apparmor", "status") {
		if !slices.Contains(manFlags(t, "apparmor", "load"), name) {
			t.Errorf("jailer apparmor status has --%s, and its page describes the flags of load", name)
		}
	}
}

// TestManFlagsOfVerbs is that for the pages of several verbs, whose options have the
// verbs in parentheses unless all have them.
func TestManFlagsOfVerbs(t *testing.T) {
	for page, verbs := range map[string][]string{
		"list": {"list", "state", "delete"}, "start": {"start", "ps", "logs", "stop", "kill"},
		"fs":        {"fs ls", "fs stat", "fs cat", "fs page", "fs put", "fs mkdir", "fs rm", "export", "import"},
		"workspace": {"workspace list", "workspace rm", "workspace prune"},
	} {
		t.Run(page, func(t *testing.T) {
			sections := pageSections(t, page)
			all := map[string]bool{}
			for _, verb := range verbs {
				words := strings.Fields(verb)
				flags := manFlags(t, words...)
				if listed := optionsOf(sections, words[len(words)-1]); !slices.Equal(listed, flags) {
					t.Errorf("%s: the page has   %v\nthe program has %v", verb, listed, flags)
				}
				for _, f := range flags {
					all[f] = true
				}
			}
			if listed := optionsOf(sections, ""); !slices.IsSorted(listed) {
				t.Errorf("not in order: %v", listed)
			}
			mentioned(t, sections, slices.Collect(maps.Keys(all)))
		})
	}
}

// optionsOf are the options that a page lists for a verb, or all.
func optionsOf(sections map[string]string, verb string) []string {
	var listed []string
	for line := range strings.Lines(sections["OPTIONS"]) {
		m := regexp.MustCompile(`^(?:\*\*-[a-z]\*\*, )?\*\*--([a-z-]+)\*\*[^(]*(\(.*\))?$`).FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m != nil && (verb == "" || m[2] == "" || strings.Contains(m[2], "**"+verb+"**")) {
			listed = append(listed, m[1])
		}
	}
	return listed
}

// TestManNames: each verb that a page is for is found by its name too. The page of
// `jailer list` is that of `jailer state`, by a line of the Makefile.
func TestManNames(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("../../docs/man/jailer-*.1.md")
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	for _, page := range pages {
		own := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(page), "jailer-"), ".1.md")
		names, _, ok := strings.Cut(pageSections(t, own)["NAME"], " - ")
		if !ok {
			t.Errorf("%s: no NAME", own)
		}
		for name := range strings.SplitSeq(strings.TrimSpace(names), ", ") {
			verb := strings.TrimPrefix(name, "jailer-")
			if verb != own && !strings.Contains(string(makefile), " "+own+":"+verb) {
				t.Errorf("`man %s` would find nothing: %s:%s is not in the Makefile", name, own, verb)
			}
		}
	}
}

func compareFlags(t *testing.T, sections map[string]string, flags []string) {
	t.Helper()
	if listed := optionsOf(sections, ""); !slices.Equal(listed, flags) {
		t.Errorf("the page has   %v\nthe program has %v", listed, flags)
	}
	mentioned(t, sections, flags)
}

// mentioned: no section speaks of a flag that there isn't.
func mentioned(t *testing.T, sections map[string]string, flags []string) {
	t.Helper()
	for name, text := range sections {
		for _, m := range regexp.MustCompile(`--([a-z][a-z-]*)`).FindAllStringSubmatch(text, -1) {
			if !slices.Contains(flags, m[1]) {
				t.Errorf("%s mentions --%s", name, m[1])
			}
		}
	}
}

// terms are the terms of a section's definition list: the line before ": …".
func terms(section string) []string {
	var out []string
	lines := strings.Split(section, "\n")
	for i, l := range lines {
		if i > 0 && strings.HasPrefix(l, ": ") {
			for _, m := range regexp.MustCompile(`\*\*([A-Za-z0-9.]+)\*\*`).FindAllStringSubmatch(lines[i-1], -1) {
				out = append(out, m[1])
			}
		}
	}
	return out
}

// members are the names of a type's members in JSON; those of an inner object
// are joined to its own.
func members(typ reflect.Type, prefix string) []string {
	var out []string
	for i := range typ.NumField() {
		f := typ.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		if f.Type.Kind() == reflect.Struct && f.Type.PkgPath() == typ.PkgPath() {
			out = append(out, members(f.Type, prefix+name+".")...)
			continue
		}
		out = append(out, prefix+name)
	}
	return out
}

// TestManDocuments: the page has every member of the documents, and no other.
func TestManDocuments(t *testing.T) {
	sections := manSections(t)
	compare := func(t *testing.T, listed, want []string) {
		t.Helper()
		slices.Sort(listed)
		slices.Sort(want)
		if !slices.Equal(listed, want) {
			t.Errorf("the page has      %v\nthe document has %v", listed, want)
		}
	}
	t.Run("result", func(t *testing.T) {
		want := append(members(reflect.TypeFor[jailer.Result](), ""),
			"error.code", "error.message", "error.hint", "error.op", "error.retryable", "error.details.reason")
		compare(t, terms(sections["RESULT DOCUMENT"]), want)
	})
	t.Run("event", func(t *testing.T) {
		sections := pageSections(t, "events")
		compare(t, terms(sections["DOCUMENT"]), append(members(reflect.TypeFor[audit.Event](), ""), members(reflect.TypeFor[audit.Subject](), "")...))
		var types []string
		for _, typ := range audit.Types() {
			types = append(types, string(typ))
		}
		compare(t, terms(sections["EVENTS"]), types)
		for _, r := range []audit.Reason{audit.Requested, audit.TTL, audit.Idle, audit.OwnerExited, audit.LimitHit, audit.Failed} {
			if !strings.Contains(sections["EVENTS"], "**"+string(r)+"**") {
				t.Errorf("the reason %s is missing", r)
			}
		}
		for _, data := range []reflect.Type{
			reflect.TypeFor[audit.Created](), reflect.TypeFor[audit.Destroyed](), reflect.TypeFor[audit.Exceeded](),
			reflect.TypeFor[audit.Denied](), reflect.TypeFor[audit.Failure](), reflect.TypeFor[audit.Reaped](), reflect.TypeFor[audit.Changed](), reflect.TypeFor[audit.Moved](), reflect.TypeFor[audit.Finished](),
		} {
			for _, name := range members(data, "") {
				if !strings.Contains(sections["EVENTS"], "**data."+name+"**") && !strings.Contains(sections["EVENTS"], "**"+name+"**") {
					t.Errorf("%s: %s is missing", data.Name(), name)
				}
			}
		}
	})
	t.Run("state", func(t *testing.T) {
		compare(t, terms(pageSections(t, "list")["DOCUMENT"]), members(reflect.TypeFor[jailer.SessionState](), ""))
		for _, s := range []jailer.SessionStatus{jailer.SessionCreating, jailer.SessionCreated, jailer.SessionRunning, jailer.SessionStopped} {
			if !strings.Contains(pageSections(t, "list")["DOCUMENT"], "**"+string(s)+"**: ") {
				t.Errorf("%s is missing", s)
			}
		}
	})
	t.Run("process", func(t *testing.T) {
		section := pageSections(t, "start")["DOCUMENT"]
		compare(t, terms(section), members(reflect.TypeFor[jailer.Process](), ""))
		for _, s := range []jailer.ProcessStatus{jailer.ProcessStarting, jailer.ProcessRunning, jailer.ProcessExited} {
			if !strings.Contains(section, "**"+string(s)+"**") {
				t.Errorf("%s is missing", s)
			}
		}
	})
	t.Run("leak", func(t *testing.T) {
		compare(t, terms(pageSections(t, "gc")["DOCUMENT"]), members(reflect.TypeFor[state.Leak](), ""))
	})
	t.Run("explanation", func(t *testing.T) {
		want := members(reflect.TypeFor[explanation](), "")
		want = append(want, "syscall.name", "syscall.number", "names")
		want = append(want, members(reflect.TypeFor[seccomp.Line](), "")...)
		want = slices.DeleteFunc(want, func(s string) bool { return s == "syscall" })
		compare(t, terms(pageSections(t, "seccomp")["DOCUMENT"]), want)
	})
	t.Run("profiles", func(t *testing.T) {
		want := append(members(reflect.TypeFor[profileState](), ""), "loaded", "program", "path")
		compare(t, terms(pageSections(t, "apparmor")["DOCUMENT"]), want)
	})
	t.Run("diagnosis", func(t *testing.T) {
		want := append(members(reflect.TypeFor[diagnosis](), ""), members(reflect.TypeFor[host.Finding](), "")...)
		compare(t, terms(pageSections(t, "doctor")["DOCUMENT"]), want)
	})
	t.Run("request", func(t *testing.T) {
		section := sections["REQUEST DOCUMENT"]
		want := members(reflect.TypeFor[jailer.Request](), "")
		var inner []string
		want = slices.DeleteFunc(want, func(s string) bool {
			name, limit := strings.CutPrefix(s, "limits.")
			if limit {
				inner = append(inner, name)
			}
			return limit
		})
		compare(t, terms(section), append(want, "limits"))
		for _, name := range inner {
			if !strings.Contains(section, "**"+name+"**") {
				t.Errorf("limits.%s is missing", name)
			}
		}
	})
	t.Run("status", func(t *testing.T) {
		for _, s := range []jailer.Status{
			jailer.StatusExited, jailer.StatusSignaled, jailer.StatusTimedOut, jailer.StatusOOMKilled,
			jailer.StatusOutputLimitExceeded, jailer.StatusAborted, jailer.StatusExpired,
		} {
			if !strings.Contains(sections["RESULT DOCUMENT"], "**"+string(s)+"**") {
				t.Errorf("%s is missing", s)
			}
		}
	})
}

// TestManExitStatus: each exit status that is ours has its entry.
func TestManExitStatus(t *testing.T) {
	section := manSections(t)["EXIT STATUS"]
	for _, n := range []int{exitDeadline, exitFailed, exitNotExecutable, exitNotFound} {
		if !strings.Contains(section, fmt.Sprintf("\n%d\n: ", n)) {
			t.Errorf("%d is missing", n)
		}
	}
	if !strings.Contains(section, fmt.Sprintf("\n%d+*n*\n: ", exitSignal)) {
		t.Error("128+n is missing")
	}
}

// TestManEnvironment compares the variables with those of a golden spec.
func TestManEnvironment(t *testing.T) {
	b, err := os.ReadFile("../../internal/launch/testdata/default-root.txtar")
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(b), `"env": [`)
	if !ok {
		t.Fatal("the golden spec has no env")
	}
	text, _, _ = strings.Cut(text, "]")
	want := map[string]string{}
	for _, m := range regexp.MustCompile(`"([A-Za-z_]+)=(.*)"`).FindAllStringSubmatch(text, -1) {
		want[m[1]] = m[2]
	}
	got := map[string]string{}
	for line := range strings.Lines(manSections(t)["ENVIRONMENT"]) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 2 || strings.HasPrefix(cells[0], "---") || strings.TrimSpace(cells[0]) == "variable" {
			continue
		}
		for name := range strings.SplitSeq(cells[0], ",") {
			got[strings.TrimSpace(name)] = strings.TrimSpace(cells[1])
		}
	}
	if !slices.Equal(slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want))) {
		t.Errorf("the page has %v\nthe job has %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
	for name, value := range got {
		w := want[name]
		switch value {
		case "below the home directory":
			if !strings.HasPrefix(w, "/home/jail/") {
				t.Errorf("%s is %s", name, w)
			}
		case "**--cpus**, rounded up":
			if w != "1" {
				t.Errorf("%s is %s for one CPU", name, w)
			}
		default:
			if w != value {
				t.Errorf("%s is %s, the page says %s", name, w, value)
			}
		}
	}
}
