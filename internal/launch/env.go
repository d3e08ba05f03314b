package launch

import (
	"slices"
	"strconv"
	"strings"

	"github.com/jailer-project/jailer/policy"
	"github.com/jailer-project/jailer/rootfs"
)

// environment is the job's whole environment: the base that programs expect,
// and over it what the plan says. Nothing of the caller's is inherited but, with a
// terminal, its kind.
func environment(p *policy.Plan, tty *TTY) []string {
	env := map[string]string{
		"PATH":    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME":    rootfs.Home,
		"USER":    rootfs.UserName,
		"LOGNAME": rootfs.UserName,
		"SHELL":   "/bin/sh",
		"LANG":    "C.UTF-8",
		"TZ":      "UTC",
		"TMPDIR":  rootfs.Tmp,

		"XDG_CACHE_HOME":  rootfs.Home + "/.cache",
		"XDG_CONFIG_HOME": rootfs.Home + "/.config",
		"XDG_DATA_HOME":   rootfs.Home + "/.local/share",
		"XDG_STATE_HOME":  rootfs.Home + "/.local/state",

		// Tools that would otherwise write beside themselves, below read-only /usr.
		"GOCACHE":          rootfs.Home + "/.cache/go-build",
		"GOPATH":           rootfs.Home + "/go",
		"CARGO_HOME":       rootfs.Home + "/.cargo",
		"npm_config_cache": rootfs.Home + "/.cache/npm",
		"PIP_CACHE_DIR":    rootfs.Home + "/.cache/pip",
	}
	n := strconv.Itoa(cpuCount(p.Limits.CPUs))
	for _, name := range jobCounts {
		env[name] = n
	}
	if tty != nil {
		env["TERM"] = tty.Type
	}
	for _, kv := range p.Env {
		k, v, _ := strings.Cut(kv, "=")
		env[k] = v
	}
	out := make([]string, 0, len(env))
	for k, v := range env {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return out
}

// jobCounts are the variables by which programs are told how parallel to be,
// for those that count the host's CPUs in spite of the affinity mask.
var jobCounts = []string{
	"GOMAXPROCS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS",
	"NUMEXPR_NUM_THREADS", "RAYON_NUM_THREADS", "CARGO_BUILD_JOBS",
	"CMAKE_BUILD_PARALLEL_LEVEL", "PYTHON_CPU_COUNT",
}
