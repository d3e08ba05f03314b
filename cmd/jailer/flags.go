package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/jailer-project/jailer/limits"
	"github.com/jailer-project/jailer/policy"
)

// requestFlags are those that say what to run, under which policy.
type requestFlags struct {
	policy, profile, request string
	tenant, rootfs, cwd      string
	workspace                string
	labels, env, caps        []string
	seedFlags
	limits                  limits.Limits
	cpuset                  string
	keep, onLimit, apparmor string
	stdin                   string
	ttyFlags
	set *pflag.FlagSet
}

// policyGiven tells an empty --policy from none: a variable that was not set
// must not lead to the built-in policy.
func (f *requestFlags) policyGiven() bool { return f.set.Changed("policy") }

func (f *requestFlags) register(fs *pflag.FlagSet) {
	f.set = fs
	fs.StringVar(&f.policy, "policy", "", "operator's policy `FILE` (default /etc/jailer/policy.toml, else the built-in one)")
	fs.StringVar(&f.profile, "profile", "", "profile `NAME` of the policy (default \"default\")")
	fs.StringVar(&f.request, "request", "", "read a request document from `FILE`, - for standard input")
	fs.StringVar(&f.tenant, "tenant", "", "tenant `T` that the run belongs to, in the result")
	fs.StringArrayVar(&f.labels, "label", nil, "label `K=V` for the result (repeatable)")
	fs.StringVar(&f.workspace, "workspace", "", "make the persistent workspace `TENANT/RESOURCE` the jail's /workspace")
	fs.StringVar(&f.rootfs, "rootfs", "", "root `NAME` of the policy (\"host\": a read-only view of the host's /usr)")
	fs.StringArrayVar(&f.env, "env", nil, "environment variable `K=V` (repeatable); nothing is inherited")
	f.seedFlags.register(fs)
	fs.StringVar(&f.cwd, "cwd", "", "working `DIR` in the jail (default /workspace)")
	fs.StringVar(&f.stdin, "stdin", "", "the command's standard input: - for jailer's own, or a `FILE` (default none)")
	f.ttyFlags.register(fs)
	for _, l := range limits.Fields() {
		if usage, ok := limitUsage[l.Flag]; ok {
			fs.Var(&limitFlag{field: l, in: &f.limits}, l.Flag, usage)
		}
	}
	fs.StringVar(&f.cpuset, "cpuset", "", "run on these CPUs alone: a `LIST` as 0-1,3")
	fs.StringVar(&f.keep, "output-keep", "", "what to keep of output over the cap: `head`, tail or both")
	fs.StringVar(&f.onLimit, "on-output-limit", "", "at the output cap: `truncate` or kill")
	fs.StringVar(&f.apparmor, "apparmor", "", "`required`: refuse to run without an AppArmor profile")
	fs.StringArrayVar(&f.caps, "cap", nil, "narrow the capabilities to `NAMES`, comma-separated (exec,fs.read,…)")
}

// limitUsage has the limits that a run knows, with their help.
var limitUsage = map[string]string{
	"timeout":    "end the command after `DURATION` of wall-clock time, as 30s",
	"cpu-time":   "end it after `DURATION` of CPU time, all processes together",
	"ttl":        "end it `DURATION` after jailer began, set-up included",
	"memory":     "memory of all its processes and tmpfs files, as `SIZE` 64M or 1G, at least 1M",
	"cpus":       "`N` CPUs, in steps of 0.001",
	"pids":       "at most `N` processes and threads",
	"tmp-size":   "`SIZE` of each of /tmp, $HOME and /dev/shm",
	"swap":       "`SIZE` of swap beyond --memory (default none)",
	"io-read":    "read at most `SIZE` a second from each block device",
	"io-write":   "write at most `SIZE` a second to each block device",
	"max-output": "keep `SIZE` of each output stream; the rest is counted and thrown away",
}

// limitFlag is one limit as a flag. Given twice it is an error: which of the
// two was meant can't be told.
type limitFlag struct {
	field limits.Field
	in    *limits.Limits
	set   bool
}

func (l *limitFlag) String() string { return "" }
func (l *limitFlag) Type() string   { return "" }

func (l *limitFlag) Set(s string) error {
	if l.set {
		return errors.New("given twice")
	}
	v, err := l.field.Parse(s)
	if err != nil {
		return err
	}
	l.set = true
	l.field.Set(l.in, v)
	return nil
}

// overrides are the flags as the policy sees them.
func (f *requestFlags) overrides(argv []string) (policy.Overrides, error) {
	o := policy.Overrides{
		Profile: f.profile, Tenant: f.tenant, Argv: argv, Cwd: f.cwd, Rootfs: f.rootfs, Workspace: f.workspace,
		Limits: f.limits, CPUSet: f.cpuset, OutputKeep: f.keep, OnOutputLimit: f.onLimit, Stdin: f.stdin != "",
	}
	switch f.apparmor {
	case "":
	case "required":
		o.AppArmorRequired = true
	default:
		return o, usagef("--apparmor %q: only \"required\" can be asked for; what weakens is in the policy", f.apparmor)
	}
	if f.cpuset == "" && f.set.Changed("cpuset") {
		return o, usagef("--cpuset: empty")
	}
	var err error
	if o.Env, err = keyValues("--env", f.env); err != nil {
		return o, err
	}
	if o.Env, err = f.addEnvFiles(o.Env); err != nil {
		return o, err
	}
	if o.Labels, err = keyValues("--label", f.labels); err != nil {
		return o, err
	}
	if f.set.Changed("cap") {
		o.Capabilities = []string{} // given but empty asks for none; nil would ask for all
	}
	for _, c := range f.caps {
		if c == "" {
			continue
		}
		o.Capabilities = append(o.Capabilities, strings.Split(c, ",")...)
	}
	return o, nil
}

func keyValues(flag string, in []string) (map[string]string, error) {
	if len(in) == 0 {
		return nil, nil
	}
	out := make(map[string]string, len(in))
	for _, kv := range in {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return nil, usagef("%s %q: must be KEY=VALUE", flag, kv)
		}
		if _, dup := out[k]; dup {
			return nil, usagef("%s %s: given twice", flag, k)
		}
		out[k] = v
	}
	return out, nil
}

// usagef is an error of the command that runs.
func usagef(format string, args ...any) error {
	return &usageError{err: fmt.Errorf(format, args...)}
}
