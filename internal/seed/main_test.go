package seed

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/limits"
	"github.com/jailer-project/jailer/policy"
)

// plan has room for everything that the tests put in.
func plan() *policy.Plan {
	return &policy.Plan{Limits: limits.Limits{Workspace: 1 << 40, WorkspaceInodes: 1 << 21, TmpSize: 1 << 40, TmpInodes: 1 << 21}}
}

// frame is what PID 1 would make of one.
type frame struct {
	Type, Mode uint32
	Path       string
	Data       string
}

// decode reads frames as strictly as the protocol asks.
func decode(b []byte) ([]frame, error) {
	var out []frame
	dirs := map[string]bool{"/workspace": true, "/tmp": true, "/home/jail": true}
	made := map[string]bool{}
	for r := bytes.NewReader(b); ; {
		var h header
		if err := binary.Read(r, binary.LittleEndian, &h); err != nil {
			return out, fmt.Errorf("header: %w", err)
		}
		if h.Zero != 0 {
			return out, errors.New("zero is not")
		}
		if h.Type == frameEnd {
			if h != (header{Type: frameEnd}) || r.Len() != 0 {
				return out, fmt.Errorf("end: %+v, %d bytes after it", h, r.Len())
			}
			return out, nil
		}
		if h.PathBytes < 2 || h.PathBytes > 4096 || h.Mode&^0o777 != 0 {
			return out, fmt.Errorf("header: %+v", h)
		}
		p := make([]byte, h.PathBytes)
		if _, err := io.ReadFull(r, p); err != nil {
			return out, fmt.Errorf("path: %w", err)
		}
		path, rest, ok := strings.Cut(string(p), "\x00")
		if !ok || rest != "" || path[0] != '/' || strings.Contains(path+"/", "/../") || strings.Contains(path, "//") {
			return out, fmt.Errorf("path %q", p)
		}
		if !dirs[filepath.Dir(path)] {
			return out, fmt.Errorf("nothing above %q", path)
		}
		if made[path] {
			return out, fmt.Errorf("%q twice", path)
		}
		made[path] = true
		data := make([]byte, h.Size)
		if _, err := io.ReadFull(r, data); err != nil {
			return out, fmt.Errorf("data: %w", err)
		}
		switch {
		case h.Type == frameDir && h.Size == 0:
			dirs[path] = true
		case h.Type != frameFile:
			return out, fmt.Errorf("header: %+v", h)
		}
		out = append(out, frame{h.Type, h.Mode, path, string(data)})
	}
}

// frames encodes s twice, which must give the same, and decodes it.
func frames(t *testing.T, s *Set) []frame {
	t.Helper()
	var a, b bytes.Buffer
	if err := errors.Join(s.Encode(&a), s.Encode(&b)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Error("two times the same set, and other frames")
	}
	out, err := decode(a.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// file writes one and gives its path.
func file(t *testing.T, dir, name, content string, mode os.FileMode) string {
	t.Helper()
	p := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(p, mode); err != nil {
		t.Fatal(err)
	}
	return p
}

// refused wants an error of ours with this code and these words.
func refused(t *testing.T, err error, code jailer.Code, words ...string) *jailer.Error {
	t.Helper()
	e, ok := errors.AsType[*jailer.Error](err)
	if !ok {
		t.Fatalf("got %v, want %s", err, code)
	}
	if e.Code != code {
		t.Errorf("got %s: %v, want %s", e.Code, e, code)
	}
	all := e.Error() + " " + e.Hint
	for _, w := range words {
		if !strings.Contains(all, w) {
			t.Errorf("no %q in %q", w, all)
		}
	}
	if strings.ContainsAny(all, "\n\x1b\x00") {
		t.Errorf("a control character in %q", all)
	}
	return e
}
