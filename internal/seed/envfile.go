package seed

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/jailpath"
)

// MaxEnvFileBytes is more than a command's arguments and variables may have.
const MaxEnvFileBytes = jailer.MaxArgsBytes

// ReadEnvFile reads variables from a regular file of the host; see ParseEnv. The
// error is a *jailer.Error with the file's name in it.
func ReadEnvFile(name string) (map[string]string, error) {
	f, _, err := openFile(name)
	if e, ok := errors.AsType[*jailer.Error](err); ok {
		e.Op = "env-file"
		if e.Code == jailer.CodeIsDirectory {
			e.Hint = ""
		}
		return nil, e
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxEnvFileBytes+1))
	if err != nil {
		return nil, hostError(name, err)
	}
	if len(data) > MaxEnvFileBytes {
		return nil, &jailer.Error{
			Code: jailer.CodeFileTooLarge, Op: "env-file", Path: jailpath.Quote(name),
			Message: fmt.Sprintf("has more than %d bytes", MaxEnvFileBytes),
		}
	}
	vars, err := ParseEnv(data)
	if err != nil {
		return nil, &jailer.Error{Code: jailer.CodeInvalidRequest, Op: "env-file", Path: jailpath.Quote(name), Err: err}
	}
	return vars, nil
}

// ParseEnv reads lines of KEY=VALUE. Empty lines and those that begin with #, after
// space or not, are passed over. The value is the rest of the line as it is: no
// quotes, no escapes, no expansion, no comment behind it. An error tells the line
// and nothing that is on it: a line that can't be read may well be a piece of a
// secret.
func ParseEnv(data []byte) (map[string]string, error) {
	vars := map[string]string{}
	lines := map[string]int{}
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		line = strings.TrimSuffix(line, "\n")
		if t := strings.TrimSpace(line); t == "" || t[0] == '#' {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		switch {
		case !ok:
			return nil, fmt.Errorf("line %d: is not KEY=VALUE", n)
		case strings.HasSuffix(value, "\r"):
			return nil, fmt.Errorf("line %d: ends with a carriage return, which would be part of the value", n)
		case strings.ContainsFunc(key, unicode.IsSpace):
			return nil, fmt.Errorf("line %d: the name contains space (no \"export\", nothing around the \"=\")", n)
		case jailer.CheckEnv(key, "") != "":
			return nil, fmt.Errorf("line %d: the name is empty, too long, or has a character that no name has", n)
		case jailer.CheckEnv(key, value) != "":
			return nil, fmt.Errorf("line %d: the value has a NUL byte or is too long (%d bytes at most, with the name)", n, jailer.MaxArgBytes)
		case lines[key] != 0:
			return nil, fmt.Errorf("line %d: names the variable of line %d again", n, lines[key])
		}
		vars[key], lines[key] = value, n
	}
	return vars, nil
}
