package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Base is the cgroup (on v1: one in each hierarchy) below which jails are made.
type Base struct {
	kind   Kind
	o      Options
	layout *Layout
	need   []string
	places []place
}

// place is a directory in one hierarchy, with the controllers that act there.
// On v1 there is one for each hierarchy; a v2 place without controllers is the
// one beside them, for cgroup.kill and cgroup.events.
type place struct {
	dir   string
	mount Mount
	ctls  []string
}

func (p place) child(name string) place {
	p.dir = filepath.Join(p.dir, name)
	return p
}

// launcherDir holds the launcher where BASE is its own delegated subtree.
const launcherDir = "launcher"

// Find returns the place for this caller's jails and makes it ready, or an
// *Unavailable. On v2 that is the caller's own delegated subtree, whose
// processes it moves to BASE/launcher; for root it is /sys/fs/cgroup/jailer, on
// v1 in each hierarchy. Any number of callers may do this at the same time.
//
// No lock guards it. A lock on a directory everybody can open is one that any
// user can hold for ever, and each step here can be repeated and raced.
func Find(o Options) (*Base, error) {
	o = o.withDefaults()
	l, err := detect(o)
	if err != nil {
		return nil, err
	}
	kind, u := l.choose(o.Need)
	if u != nil {
		return nil, u
	}
	if kind == V1 {
		return findV1(o, l)
	}
	return findV2(o, l)
}

// Kind tells which interface holds the limits.
func (b *Base) Kind() Kind { return b.kind }

// Has says whether a controller holds limits of jails here.
func (b *Base) Has(controller string) bool {
	return slices.ContainsFunc(b.places, func(p place) bool { return slices.Contains(p.ctls, controller) })
}

// Layout returns what Detect saw.
func (b *Base) Layout() *Layout { return b.layout }

// Dirs returns BASE, one directory for each hierarchy in use.
func (b *Base) Dirs() []string { return dirs(b.places) }

func dirs(ps []place) []string {
	out := make([]string, len(ps))
	for i, p := range ps {
		out[i] = p.dir
	}
	return out
}

// v1Refusal is the reason why v1 can't be used by this caller at all.
func v1Refusal(o Options, l *Layout, c string) *Unavailable {
	m := l.V1[c]
	if o.Getuid() != 0 {
		return &Unavailable{
			Controller: c, File: m.Point, ID: "cgroup.v1." + c, Hint: hintV1,
			Reason: "mounted as cgroup v1, which can't be delegated to a user",
		}
	}
	if m.ReadOnly {
		return readOnly(c, m)
	}
	if err := o.access(m.Point); err != nil {
		return &Unavailable{
			Controller: c, File: m.Point, ID: "cgroup.v1." + c, Hint: hintV1,
			Reason: "the cgroup v1 hierarchy is not writable", Err: err,
		}
	}
	return nil
}

func readOnly(ctl string, m Mount) *Unavailable {
	id := "cgroup.readonly"
	if !m.V2 { // one hierarchy has several controllers only on v2
		id += "." + ctl
	}
	return &Unavailable{
		Controller: ctl, File: m.Point, ID: id, Reason: "the cgroup file system is mounted read-only", Hint: hintReadOnly,
	}
}

func findV1(o Options, l *Layout) (*Base, error) {
	b := &Base{kind: V1, o: o, layout: l, need: o.Need}
	want := o.Need
	if _, ok := l.V1["cpuacct"]; ok && slices.Contains(want, "cpu") {
		want = append(slices.Clone(want), "cpuacct") // CPU time; often, not always, cpu's own mount
	}
	for _, c := range want {
		if u := v1Refusal(o, l, c); u != nil {
			return nil, u
		}
		m := l.V1[c]
		if i := slices.IndexFunc(b.places, func(p place) bool { return p.mount.Point == m.Point }); i >= 0 {
			b.places[i].ctls = append(b.places[i].ctls, c)
			continue
		}
		b.places = append(b.places, place{dir: filepath.Join(m.Point, o.Name), mount: m, ctls: []string{c}})
	}
	for _, p := range b.places {
		if err := b.makeRootBase(p.dir); err != nil {
			return nil, err
		}
	}
	// A v2 hierarchy beside is a help, not a need.
	if m := l.Unified; m != nil && !m.ReadOnly {
		p := place{dir: filepath.Join(m.Point, o.Name), mount: *m}
		if b.makeRootBase(p.dir) == nil && exists(filepath.Join(p.dir, "cgroup.kill")) {
			b.places = append(b.places, p)
		}
	}
	return b, nil
}

// makeRootBase makes root's BASE in one hierarchy; another caller may be first.
func (b *Base) makeRootBase(dir string) error {
	if err := b.o.mkdir(dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return fail("mkdir", dir, "", err)
	}
	// One that was delegated to a user would let him move jails about.
	uid, err := b.o.owner(dir)
	if err != nil {
		return fail("stat", dir, "", err)
	}
	if want := b.o.Getuid(); uid != want {
		return &Unavailable{
			File: dir, ID: "cgroup.base.owner", Reason: fmt.Sprintf("belongs to uid %d, not %d", uid, want), Hint: "remove it with rmdir",
		}
	}
	return nil
}

// candidate is a v2 directory that could be BASE.
type candidate struct {
	dir    string // BASE
	parent string // where BASE has to be made; "" = it exists
	moves  bool   // its processes have to go to BASE/launcher
}

// candidatesV2 lists, in order of preference, where BASE could be.
func candidatesV2(o Options, l *Layout) ([]candidate, *Unavailable) {
	m := *l.Unified
	own, err := ownDir(o, m)
	var out []candidate
	if o.Getuid() == 0 {
		// The true root of the hierarchy has no cgroup.type and may hold
		// processes. A container's root is an ordinary cgroup and may not: there
		// the caller's own cgroup is the place, or nothing could be enabled.
		container := exists(filepath.Join(m.Point, "cgroup.type"))
		if !container || err != nil || (own != m.Point && own != filepath.Join(m.Point, launcherDir)) {
			out = append(out, candidate{dir: filepath.Join(m.Point, o.Name), parent: m.Point})
		}
	}
	if err != nil {
		if len(out) > 0 {
			return out, nil
		}
		return nil, &Unavailable{
			File: filepath.Join(o.Proc, "cgroup"), ID: "cgroup.own", Reason: "the caller's own cgroup can't be located", Err: err, Hint: hintScope,
		}
	}
	parent := filepath.Dir(own)
	inside := own != m.Point
	switch {
	case inside && filepath.Base(own) == launcherDir:
		// An earlier jailer, of this shell perhaps, moved us here.
		return append(out, candidate{dir: parent}), nil
	case !inside && !exists(filepath.Join(own, "cgroup.type")):
		// The true root: nobody may take that over.
	default:
		out = append(out, candidate{dir: own, moves: true})
	}
	// A leaf in a subtree that root handed over whole. systemd's slices may
	// belong to the user too, but they are systemd's to arrange.
	if inside && parent != m.Point && !strings.HasSuffix(parent, ".slice") && procsEmpty(parent) {
		out = append(out, candidate{dir: parent})
	}
	if len(out) == 0 {
		return nil, undelegated(o, own, nil)
	}
	return out, nil
}

// ownDir is the caller's own cgroup in the v2 hierarchy.
func ownDir(o Options, m Mount) (string, error) {
	data, err := os.ReadFile(filepath.Join(o.Proc, "cgroup"))
	if err != nil {
		return "", err
	}
	path, err := parseProcCgroup(string(data))
	if err != nil {
		return "", err
	}
	if path == "" {
		return "", errors.New("no line that begins with 0::, so no v2 cgroup")
	}
	return m.dirOf(path)
}

func undelegated(o Options, file string, err error) *Unavailable {
	return &Unavailable{
		Controller: list(o.Need), File: file, ID: "cgroup.delegation", Err: err,
		Reason: "the caller's cgroup is not delegated to it", Hint: hintScope,
	}
}

// judge says whether c can be BASE, changing nothing.
func (o Options) judge(c candidate) *Unavailable {
	dir := c.dir
	if c.parent != "" {
		dir = c.parent
	}
	// In this order the first file that fails is the one that tells most.
	files := []string{"", "cgroup.procs", "cgroup.subtree_control"}
	for _, f := range files {
		file := filepath.Join(dir, f)
		if err := o.access(file); err != nil {
			if errors.Is(err, unix.EROFS) {
				return &Unavailable{
					Controller: list(o.Need), File: file, ID: "cgroup.readonly", Hint: hintReadOnly, Err: err,
					Reason: "the cgroup file system is mounted read-only",
				}
			}
			return undelegated(o, file, err)
		}
	}
	if t, err := readString(filepath.Join(dir, "cgroup.type")); err == nil && t != "domain" {
		return &Unavailable{
			Controller: list(o.Need), File: filepath.Join(dir, "cgroup.type"), ID: "cgroup.threaded",
			Reason: fmt.Sprintf("the caller's cgroup is %q, which can't hold memory limits", t), Hint: hintScope,
		}
	}
	have, err := readFields(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return undelegated(o, filepath.Join(dir, "cgroup.controllers"), err)
	}
	if lacks := without(o.Need, have); len(lacks) > 0 {
		return &Unavailable{
			Controller: list(lacks), File: filepath.Join(dir, "cgroup.controllers"), ID: "cgroup.delegation." + lacks[0],
			Reason: "not delegated to the caller's cgroup, which has " + orNothing(have), Hint: o.hintDelegate(),
		}
	}
	return nil
}

func orNothing(s []string) string {
	if len(s) == 0 {
		return "no controller"
	}
	return list(s)
}

// pickV2 returns the first usable candidate, else the first one's refusal.
func pickV2(o Options, l *Layout) (candidate, *Unavailable) {
	if l.Unified.ReadOnly {
		return candidate{}, readOnly(list(o.Need), *l.Unified)
	}
	// libcontainer knows no other place.
	if l.Unified.Point != o.Root {
		return candidate{}, &Unavailable{
			Controller: list(o.Need), File: l.Unified.Point, ID: "cgroup.mountpoint",
			Reason: "cgroup v2 is mounted, but not at " + o.Root, Hint: mountCommand + o.Root,
		}
	}
	cs, u := candidatesV2(o, l)
	if u != nil {
		return candidate{}, u
	}
	var first *Unavailable
	for _, c := range cs {
		u := o.judge(c)
		if u == nil {
			return c, nil
		}
		// A missing controller tells more than the same refusal of a cgroup
		// that was never ours.
		if first == nil || (first.ID == "cgroup.delegation" && u.ID != first.ID) {
			first = u
		}
	}
	return candidate{}, first
}

func findV2(o Options, l *Layout) (*Base, error) {
	c, u := pickV2(o, l)
	if u != nil {
		return nil, u
	}
	b := &Base{kind: V2, o: o, layout: l, need: o.Need}
	from := c.dir
	if c.parent != "" {
		from = c.parent
	}
	have, err := readFields(filepath.Join(from, "cgroup.controllers"))
	if err != nil {
		return nil, fail("read", filepath.Join(from, "cgroup.controllers"), "", err)
	}
	// All three, if they are there: a limit may be unwanted, its statistics not.
	var ctls []string
	for _, x := range slices.Concat(controllers, wanted) {
		if slices.Contains(have, x) && (slices.Contains(controllers, x) || slices.Contains(o.Need, x)) {
			ctls = append(ctls, x)
		}
	}
	if c.parent != "" {
		if err := o.enable(c.parent, ctls, nil); err != nil {
			return nil, err
		}
		if err := b.makeRootBase(c.dir); err != nil {
			return nil, err
		}
	}
	var again func() error
	if c.moves {
		again = func() error { return b.evacuate(c.dir) }
		if err := again(); err != nil {
			return nil, err
		}
	}
	if err := o.enable(c.dir, ctls, again); err != nil {
		return nil, err
	}
	b.places = []place{{dir: c.dir, mount: *l.Unified, ctls: ctls}}
	return b, nil
}

// evacuate moves every process of base to base/launcher: a cgroup that hands
// controllers on may hold no process itself. Processes fork and others start
// meanwhile, so it goes on until it has seen base empty.
func (b *Base) evacuate(base string) error {
	leaf := filepath.Join(base, launcherDir)
	target := filepath.Join(leaf, "cgroup.procs")
	var last error
	for range 100 {
		pids, err := readPids(base)
		if err != nil {
			return fail("read", filepath.Join(base, "cgroup.procs"), "", err)
		}
		if len(pids) == 0 {
			return nil
		}
		// Another jailer's gc may remove the leaf while it is empty.
		if err := b.o.mkdir(leaf); err != nil && !errors.Is(err, fs.ErrExist) {
			return fail("mkdir", leaf, "", err)
		}
		for _, pid := range pids {
			err := b.o.write(target, fmt.Sprint(pid))
			switch {
			case err == nil, errors.Is(err, unix.ESRCH):
			case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV), errors.Is(err, unix.EAGAIN):
				last = err
			case errors.Is(err, unix.EINVAL): // TASK_NEW, or pid 0: not of our pid namespace
				last = err
				time.Sleep(time.Millisecond)
			default:
				return err
			}
		}
	}
	if last == nil {
		last = unix.EBUSY
	}
	return fail("empty", filepath.Join(base, "cgroup.procs"), "", last)
}

// enable hands ctls on to dir's children. EBUSY means that a process is in dir,
// perhaps one that another jailer is moving just now.
func (o Options) enable(dir string, ctls []string, again func() error) error {
	file := filepath.Join(dir, "cgroup.subtree_control")
	written := false
	for wait := time.Millisecond; ; wait *= 2 {
		have, err := readFields(file)
		if err != nil {
			return fail("read", file, "", err)
		}
		lacks := without(ctls, have)
		if len(lacks) == 0 {
			return nil
		}
		if written {
			return fail("read back", file, list(lacks), errors.New("not enabled"))
		}
		// All in one write: pids alone would be accepted beside processes and
		// turn the cgroup threaded, for good.
		err = o.write(file, "+"+strings.Join(lacks, " +"))
		if err == nil {
			written = true
			continue
		}
		if !errors.Is(err, unix.EBUSY) || wait > time.Second {
			return err
		}
		if again != nil {
			if err := again(); err != nil {
				return err
			}
		}
		time.Sleep(wait)
	}
}

func without(want, have []string) []string {
	var out []string
	for _, c := range want {
		if !slices.Contains(have, c) {
			out = append(out, c)
		}
	}
	return out
}
