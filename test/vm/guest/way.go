package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jailer-project/jailer/test/vm/plan"
)

// way sets the guest up, runs the jobs, and looks whether the cgroup tree is as
// it was.
func (r *runner) way(w plan.Way) {
	r.send(plan.Event{Kind: plan.WayBegin, Way: w.Name})
	end := plan.Event{Kind: plan.WayEnd, Way: w.Name}
	defer func() { r.send(end) }()
	if err := r.script(w, w.Setup); err != nil {
		end.Error = "setup: " + err.Error()
		return
	}
	before := cgroups()
	for _, j := range w.Jobs {
		r.send(plan.Event{Kind: plan.JobBegin, Way: w.Name, Job: j.Name})
		code := r.job(w, j)
		r.send(plan.Event{Kind: plan.JobEnd, Way: w.Name, Job: j.Name, Code: code})
	}
	if err := unchanged(before); err != nil {
		end.Error = err.Error()
	}
	if err := r.script(w, w.Teardown); err != nil {
		end.Error = strings.TrimPrefix(end.Error+"; teardown: "+err.Error(), "; ")
	}
}

func (r *runner) script(w plan.Way, text string) error {
	if text == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "/bin/sh", "-euc", text).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// job runs one command and returns its exit status, or -1.
func (r *runner) job(w plan.Way, j plan.Job) int {
	argv, err := place(w, j)
	if err != nil {
		r.send(plan.Event{Kind: plan.Output, Way: w.Name, Job: j.Name, Text: err.Error()})
		return -1
	}
	if err := r.follow(w, j, argv); err != nil {
		if e := (&exec.ExitError{}); errors.As(err, &e) {
			return e.ExitCode()
		}
		r.send(plan.Event{Kind: plan.Output, Way: w.Name, Job: j.Name, Text: err.Error()})
		return -1
	}
	return 0
}

// follow runs argv and sends what it says, through test2json if it is a test.
// test2json does not start it: it would hand on that it ignores SIGINT.
func (r *runner) follow(w plan.Way, j plan.Job, argv []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), j.Limit)
	defer cancel()
	said, say, err := os.Pipe()
	if err != nil {
		return err
	}
	defer said.Close()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = filepath.Join(bed, "tree", j.Dir)
	cmd.Env = environ(w)
	cmd.Stdout, cmd.Stderr = say, say
	cmd.WaitDelay = patience

	var in io.Reader = said
	filter := exec.Command(bed+"/test2json", "-t")
	if j.Test {
		filter.Stdin = said
		if in, err = filter.StdoutPipe(); err != nil {
			return err
		}
		if err := filter.Start(); err != nil {
			return err
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.lines(in, w.Name, j.Name)
	}()
	err = cmd.Run()
	say.Close()
	select {
	case <-done:
	case <-time.After(patience):
		err = errors.Join(err, errors.New("somebody outlived the job and holds its output"))
	}
	if j.Test {
		_ = filter.Process.Kill() // it has nothing more to say
		_ = filter.Wait()
	}
	return err
}

// patience is how long the end of a job's output is waited for.
const patience = 30 * time.Second

// environ is the environment of a way's jobs.
func environ(w plan.Way) []string {
	env := []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"LANG=C.UTF-8", "HOME=/root", "JAILER_BIN=" + bed + "/tree/bin/jailer", "JAILER_WAY=" + w.Name,
	}
	if u, err := user.Lookup(w.User); err == nil {
		env = append(env, "HOME="+u.HomeDir, "USER="+u.Username, "LOGNAME="+u.Username)
		if w.Place == plan.Own {
			env = append(env, "XDG_RUNTIME_DIR=/run/user/"+u.Uid)
		}
	}
	for _, k := range keys(w.Env) {
		env = append(env, k+"="+w.Env[k])
	}
	return env
}

func keys(m map[string]string) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// place is the command line that puts j where its way belongs.
func place(w plan.Way, j plan.Job) ([]string, error) {
	argv := slices.Clone(j.Argv)
	if strings.HasSuffix(argv[0], ".test") {
		argv[0] = filepath.Join(bed, argv[0])
	}
	if w.Place == plan.Guest {
		return argv, nil
	}
	u, err := user.Lookup(w.User)
	if err != nil {
		return nil, err
	}
	run := []string{
		"/usr/bin/systemd-run", "--quiet", "--pipe", "--wait", "--collect",
		"--working-directory=" + filepath.Join(bed, "tree", j.Dir), "--property=TasksMax=infinity", "--property=UMask=0022",
		fmt.Sprintf("--property=RuntimeMaxSec=%d", int(j.Limit.Seconds())+5),
	}
	for _, kv := range environ(w) {
		run = append(run, "--setenv="+kv)
	}
	// The unit goes with all that is in it when the job has ended: what a jail
	// left is looked for before.
	argv = append([]string{"/bin/sh", "-c", tidy, "sh"}, argv...)
	switch w.Place {
	case plan.Own:
		run = slices.Insert(run, 1, "--user", "--property=Delegate=yes")
		as := []string{"/sbin/runuser", "-u", u.Username, "--", "/usr/bin/env", "XDG_RUNTIME_DIR=/run/user/" + u.Uid}
		return slices.Concat(as, run, argv), nil
	case plan.System:
		if w.Enter != "" {
			return slices.Concat(run, []string{"/bin/sh", "-euc", w.Enter, "sh"}, argv), nil
		}
		return slices.Concat(run, []string{"--uid=" + u.Uid, "--gid=" + u.Gid}, argv), nil
	}
	return nil, fmt.Errorf("no such place: %q", w.Place)
}

// tidy runs a command and fails if there are cgroups of jails below its own.
const tidy = `base=/sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup)
"$@"
status=$?
left=$(find "$base" -mindepth 1 -type d -name 'jail-*')
[ -z "$left" ] || { echo "the job left $left"; exit 97; }
exit $status`

const hierarchy = "/sys/fs/cgroup"

// cgroups is the whole cgroup tree: each directory and the controllers that it
// gives its children.
func cgroups() map[string]string {
	all := map[string]string{}
	_ = filepath.WalkDir(hierarchy, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			if b, err := os.ReadFile(p + "/cgroup.subtree_control"); err == nil {
				all[strings.TrimPrefix(p, hierarchy)] = strings.TrimSpace(string(b))
			}
		}
		return nil
	})
	return all
}

// settle waits for the managers of users who linger: while they start, the cgroup
// tree changes.
func settle() {
	names, _ := filepath.Glob("/var/lib/systemd/linger/*")
	for _, n := range names {
		u, err := user.Lookup(filepath.Base(n))
		for range 300 {
			if err != nil || exec.Command("/usr/bin/systemctl", "--quiet", "is-active", "user@"+u.Uid+".service").Run() == nil {
				break
			}
			time.Sleep(200 * time.Millisecond)
		}
	}
}

// others matches what may appear: the directory of root's jails, which stays, and
// what systemd starts in a user's manager when somebody first speaks to it.
var others = regexp.MustCompile(`^/jailer$|/user@\d+\.service/(session|app)\.slice(/dbus[^/]*)?$`)

// managers matches where a user's systemd gives controllers on, and does not take
// them back at once when the unit that wanted them has gone; and where jailer gives
// on what a run asked for, cpuset or io, until that directory is made anew.
var managers = regexp.MustCompile(`/user@\d+\.service(/app\.slice)?$|^/jailer$`)

// unchanged waits a while for the tree to be as before: systemd removes the units
// of jobs when it has heard of their end.
func unchanged(before map[string]string) error {
	var diff []string
	for range 50 {
		diff = nil
		after := cgroups()
		for _, d := range keys(after) {
			was, ok := before[d]
			if !ok && others.MatchString(d) {
				continue
			}
			if !ok {
				diff = append(diff, "new: "+d)
			} else if was != after[d] && !managers.MatchString(d) {
				diff = append(diff, fmt.Sprintf("%s: controllers of the children were %q, are %q", d, was, after[d]))
			}
		}
		for _, d := range keys(before) {
			if _, ok := after[d]; !ok {
				diff = append(diff, "gone: "+d)
			}
		}
		if len(diff) == 0 {
			return nil
		}
		time.Sleep(200 * time.Millisecond)
	}
	return fmt.Errorf("the cgroup tree changed: %s", strings.Join(diff, "; "))
}
