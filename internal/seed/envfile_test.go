package seed

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
)

func TestParseEnv(t *testing.T) {
	long := strings.Repeat("v", jailer.MaxArgBytes-2)
	for _, c := range []struct {
		name, in string
		want     map[string]string
		msg      string
	}{
		{"nothing", "", map[string]string{}, ""},
		{"usual", "A=1\n# a=b\n\n  # too\n \t\nB=two words \nC=\"q\"\nD=$A#x\nE=\nF==\n", map[string]string{"A": "1", "B": "two words ", "C": `"q"`, "D": "$A#x", "E": "", "F": "="}, ""},
		{"no line end", "A=1", map[string]string{"A": "1"}, ""},
		{"odd names", "http_proxy=a\nHTTP_PROXY=b\na.b-c=d", map[string]string{"http_proxy": "a", "HTTP_PROXY": "b", "a.b-c": "d"}, ""},
		{"no UTF-8 in a value", "A=\xff\x1b", map[string]string{"A": "\xff\x1b"}, ""},
		{"longest", "A=" + long, map[string]string{"A": long}, ""},

		{"longer", "A=" + long + "v", nil, "line 1: the value"},
		{"no equals", "A=1\nhunter2\n", nil, "line 2: is not KEY=VALUE"},
		{"no name", "=hunter2", nil, "line 1: the name"},
		{"export", "\n\nexport A=hunter2", nil, `line 3: the name contains space (no "export"`},
		{"space before", " A=hunter2", nil, "line 1: the name contains space"},
		{"space around", "A = hunter2", nil, "line 1: the name contains space"},
		{"twice", "A=hunter2\nB=1\nA=hunter2", nil, "line 3: names the variable of line 1 again"},
		{"CR LF", "A=hunter2\r\nB=1\r\n", nil, "line 1: ends with a carriage return"},
		{"NUL", "A=hunter2\x00", nil, "line 1: the value"},
		{"NUL in a name", "hunter2\x00=1", nil, "line 1: the name"},
		{"control in a name", "hunter2\x1b[2J=1", nil, "line 1: the name"},
		{"byte order mark", "\ufeffA=hunter2", nil, "line 1: the name"},
		{"UTF-16", "\xff\xfeA\x00=\x001\x00", nil, "line 1: the name"},
		{"name too long", strings.Repeat("hunter2", 40) + "=1", nil, "line 1: the name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ParseEnv([]byte(c.in))
			if c.msg == "" {
				if err != nil || !maps.Equal(got, c.want) {
					t.Fatalf("got %.200q, %v", got, err)
				}
				return
			}
			if err == nil || !strings.HasPrefix(err.Error(), c.msg) || got != nil {
				t.Fatalf("got %q, %v, want %q", got, err, c.msg)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("what is on the line is in %q", err)
			}
		})
	}
}

func TestReadEnvFile(t *testing.T) {
	dir := t.TempDir()
	good := file(t, dir, "good", "A=1\n", 0o600)
	if got, err := ReadEnvFile(good); err != nil || got["A"] != "1" || len(got) != 1 {
		t.Errorf("got %v, %v", got, err)
	}
	bad := file(t, dir, "bad\x1b", "A=1\nhunter2", 0o600)
	e := refused(t, second(ReadEnvFile(bad)), jailer.CodeInvalidRequest, `bad\x1b`, "line 2")
	if strings.Contains(e.Error(), "hunter2") {
		t.Error(e)
	}
	file(t, dir, "most", "#"+strings.Repeat("x", MaxEnvFileBytes-1), 0o600)
	if _, err := ReadEnvFile(filepath.Join(dir, "most")); err != nil {
		t.Error(err)
	}
	large := file(t, dir, "large", "#"+strings.Repeat("x", MaxEnvFileBytes), 0o600)
	refused(t, second(ReadEnvFile(large)), jailer.CodeFileTooLarge, "large", "1048576")
	refused(t, second(ReadEnvFile(filepath.Join(dir, "nosuch"))), jailer.CodeNotFound, "nosuch")
	refused(t, second(ReadEnvFile("/dev/zero")), jailer.CodeNotRegular, "/dev/zero")
	refused(t, second(ReadEnvFile(dir)), jailer.CodeIsDirectory)
	link, fifo := filepath.Join(dir, "link"), filepath.Join(dir, "fifo")
	if err := os.Symlink(good, link); err != nil {
		t.Fatal(err)
	}
	refused(t, second(ReadEnvFile(link)), jailer.CodeInvalidPath, "readlink -f")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, soon(t, func() error { return second(ReadEnvFile(fifo)) }), jailer.CodeNotRegular, "FIFO")
}

func second[T any](_ T, err error) error { return err }

func FuzzParseEnv(f *testing.F) {
	for _, s := range []string{"A=1\n#\n\nB=2", "=", "A", "A=1\nA=2", "A=\r\n", " A=1", "\xff=1", "A=\x00", "export A=1", "\ufeffA=1", "A=1\r"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		vars, err := ParseEnv(data)
		if err != nil {
			if vars != nil || !strings.HasPrefix(err.Error(), "line ") || len(err.Error()) > 120 {
				t.Fatalf("got %v, %q", vars, err)
			}
			return
		}
		for k, v := range vars {
			if msg := jailer.CheckEnv(k, v); msg != "" || strings.Contains(v, "\n") || !strings.Contains("\n"+string(data), "\n"+k+"="+v) {
				t.Errorf("%q=%q of %q: %s", k, v, data, msg)
			}
		}
	})
}
