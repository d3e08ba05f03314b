package jailer

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of a request's strings. One string of argv or env may have
// MaxArgBytes: the kernel's MAX_ARG_STRLEN is 32 pages, the NUL included
// (execve(2)). All of them together stay far below the kernel's bound, which
// depends on RLIMIT_STACK.
const (
	MaxArgBytes     = 128<<10 - 1
	MaxArgsBytes    = 1 << 20
	MaxLabels       = 32
	MaxLabelBytes   = 256 // of a value
	maxCwdBytes     = 4095
	maxEnvNameBytes = 256
)

var (
	labelKey = regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]{0,62}$`)
	// Tenants and profiles become parts of paths and cgroup names. One small
	// alphabet without a dot, without capitals and without Unicode leaves no
	// "..", no look-alikes and no two spellings of one name.
	plainName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)
)

// Check tells whether each given value is possible at all, whatever the policy
// grants. It does not ask for a command: one may come from the command line. The
// error is an *Error with the code invalid_request and the field's path.
func (r *Request) Check() error {
	if r.V != 0 && r.V != ProtocolVersion {
		return invalid("v", fmt.Sprintf("version %d given, this program speaks %d", r.V, ProtocolVersion))
	}
	if r.Profile != "" && !plainName.MatchString(r.Profile) {
		return invalid("profile", fmt.Sprintf("%s is no name (a-z 0-9 _ -, at most 63)", quote(r.Profile)))
	}
	if r.Tenant != "" && !plainName.MatchString(r.Tenant) {
		return invalid("tenant", fmt.Sprintf("%s is no name (a-z 0-9 _ -, at most 63)", quote(r.Tenant)))
	}
	if err := checkLabels(r.Labels); err != nil {
		return err
	}
	if r.TraceParent != "" && !ValidTraceParent(r.TraceParent) {
		return invalid("traceparent", fmt.Sprintf("%s is none of W3C Trace Context (00-TRACE-PARENT-FLAGS in lower-case hex)", quote(r.TraceParent)))
	}
	if err := checkArgs(r.Argv, r.Env); err != nil {
		return err
	}
	if r.Cwd != "" {
		if msg := checkCwd(r.Cwd); msg != "" {
			return invalid("cwd", msg)
		}
	}
	if _, err := r.StdinData(); err != nil {
		return err
	}
	if r.Workspace != "" {
		if _, _, err := ParseWorkspace(r.Workspace); err != nil {
			return err
		}
	}
	if err := checkFiles(r.Files, r.Directories); err != nil {
		return err
	}
	if _, err := r.Limits.Limits(); err != nil {
		return err
	}
	for i, c := range r.Capabilities {
		if !slices.Contains(Capabilities(), c) {
			return invalid(fmt.Sprintf("capabilities[%d]", i), fmt.Sprintf("%s is no capability (%s)", quote(c), strings.Join(Capabilities(), " ")))
		}
	}
	if r.OutputKeep != "" && !slices.Contains([]string{KeepHead, KeepTail, KeepBoth}, r.OutputKeep) {
		return invalid("outputKeep", fmt.Sprintf("%s given, want head, tail or both", quote(r.OutputKeep)))
	}
	if r.OnOutputLimit != "" && !slices.Contains([]string{OnLimitTruncate, OnLimitKill}, r.OnOutputLimit) {
		return invalid("onOutputLimit", fmt.Sprintf("%s given, want truncate or kill", quote(r.OnOutputLimit)))
	}
	return nil
}

// ParseWorkspace takes the name of a persistent workspace apart, TENANT/RESOURCE. A
// tenant is a-z 0-9 _ -, a resource these and dots; each begins with a letter or digit
// and has at most 63 bytes. No two names are one after any normalising: there are no
// capitals, and nothing beyond ASCII.
func ParseWorkspace(name string) (tenant, resource string, err error) {
	tenant, resource, ok := strings.Cut(name, "/")
	switch {
	case !ok:
		return "", "", invalid("workspace", fmt.Sprintf("%s given, want TENANT/RESOURCE", quote(name)))
	case !plainName.MatchString(tenant):
		return "", "", invalid("workspace", fmt.Sprintf("%s is no tenant (a-z 0-9 _ -, at most 63)", quote(tenant)))
	case !labelKey.MatchString(resource):
		return "", "", invalid("workspace", fmt.Sprintf("%s is no resource (a-z 0-9 _ . -, at most 63)", quote(resource)))
	}
	return tenant, resource, nil
}

// StdinData is the inline stdin as bytes, nil when there is none.
func (r *Request) StdinData() ([]byte, error) {
	if r.Stdin == nil {
		if r.StdinEncoding != "" {
			return nil, invalid("stdinEncoding", "given without stdin")
		}
		return nil, nil
	}
	data, err := DecodeText(*r.Stdin, r.StdinEncoding)
	if err != nil {
		field := "stdin"
		if r.StdinEncoding != EncodingBase64 {
			field = "stdinEncoding"
		}
		return nil, invalid(field, err.Error())
	}
	return data, nil
}

func checkLabels(labels map[string]string) error {
	if len(labels) > MaxLabels {
		return invalid("labels", fmt.Sprintf("%d given, at most %d are possible", len(labels), MaxLabels))
	}
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		if !labelKey.MatchString(k) {
			return invalid("labels", fmt.Sprintf("%s is no label name (a-z 0-9 _ . -, at most 63)", quote(k)))
		}
		v := labels[k]
		if len(v) > MaxLabelBytes {
			return invalid("labels."+k, fmt.Sprintf("%d bytes given, at most %d are possible", len(v), MaxLabelBytes))
		}
		// A label ends up in logs and on terminals.
		if !utf8.ValidString(v) || strings.ContainsFunc(v, unprintable) {
			return invalid("labels."+k, "contains a control character or is not valid UTF-8")
		}
	}
	return nil
}

// unprintable finds control characters, and format characters with them: a
// right-to-left override makes a log line read as another one.
func unprintable(c rune) bool {
	return unicode.Is(unicode.C, c) || c == '\u2028' || c == '\u2029'
}

func checkArgs(argv []string, env map[string]string) error {
	if argv != nil && len(argv) == 0 {
		return invalid("argv", "is empty")
	}
	total := 0
	for i, a := range argv {
		field := fmt.Sprintf("argv[%d]", i)
		if i == 0 && a == "" {
			return invalid(field, "is empty")
		}
		if msg := checkArg(a); msg != "" {
			return invalid(field, msg)
		}
		total += len(a) + 1
	}
	for _, k := range slices.Sorted(maps.Keys(env)) {
		if msg := CheckEnv(k, env[k]); msg != "" {
			return invalid("env", msg)
		}
		total += len(k) + len(env[k]) + 2
	}
	if total > MaxArgsBytes {
		return invalid("argv", fmt.Sprintf("argv and env have %d bytes together, at most %d are possible", total, MaxArgsBytes))
	}
	return nil
}

func checkArg(s string) string {
	if strings.IndexByte(s, 0) >= 0 {
		return "contains a NUL byte"
	}
	if len(s) > MaxArgBytes {
		return fmt.Sprintf("%d bytes given, at most %d are possible", len(s), MaxArgBytes)
	}
	return ""
}

// CheckEnv tells what is wrong with one variable, "" if nothing is. The value
// is never in the message, since it may be a secret.
func CheckEnv(name, value string) string {
	switch {
	case name == "":
		return "a variable has no name"
	case len(name) > maxEnvNameBytes:
		return fmt.Sprintf("a name has %d bytes, at most %d are possible", len(name), maxEnvNameBytes)
	case strings.ContainsAny(name, "=\x00"):
		return fmt.Sprintf("the name %s contains '=' or a NUL byte", quote(name))
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unprintable):
		return fmt.Sprintf("the name %s contains a control character or is not valid UTF-8", quote(name))
	case strings.IndexByte(value, 0) >= 0:
		return fmt.Sprintf("the value of %s contains a NUL byte", quote(name))
	case len(name)+1+len(value) > MaxArgBytes:
		return fmt.Sprintf("%s has %d bytes, at most %d are possible", quote(name), len(name)+1+len(value), MaxArgBytes)
	}
	return ""
}

// checkCwd refuses a directory below /proc above all: with a leaked descriptor
// /proc/self/fd/N as working directory is the host's file system
// (CVE-2024-21626). Nothing below /proc, /sys and /dev is a place to work in.
func checkCwd(cwd string) string {
	switch {
	case !path.IsAbs(cwd):
		return fmt.Sprintf("%s is not absolute", quote(cwd))
	case len(cwd) > maxCwdBytes:
		return fmt.Sprintf("%d bytes given, at most %d are possible", len(cwd), maxCwdBytes)
	case strings.IndexByte(cwd, 0) >= 0:
		return "contains a NUL byte"
	case slices.Contains(strings.Split(cwd, "/"), ".."):
		return fmt.Sprintf("%s contains \"..\"", quote(cwd))
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(path.Clean(cwd), "/"), "/")
	if slices.Contains([]string{"proc", "sys", "dev"}, first) {
		return fmt.Sprintf("%s is below /%s", quote(cwd), first)
	}
	return ""
}

// quote keeps a message short and free of control characters, whatever was
// given.
func quote(s string) string {
	const most = 64
	if len(s) > most {
		return fmt.Sprintf("%.*q…", most, s[:most])
	}
	return fmt.Sprintf("%q", s)
}
