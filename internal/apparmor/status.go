package apparmor

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// Status is what the kernel has of one profile.
type Status struct {
	Name    string
	Mode    string // in which it is loaded; "" if it isn't
	Err     error  // why that could not be told
	Changed bool   // what is loaded is not this program's text
	DiffErr error  // why that could not be told
}

// Check looks a profile and its child up. Whether what is loaded is this text is
// told by the kernel's checksums of the compiled profile, which everybody may read,
// and the parser, which must be installed.
func Check(ctx context.Context, name, text string) Status {
	root := os.DirFS("/")
	s := Status{Name: name}
	names := []string{name}
	if name == Default {
		names = append(names, Job)
	}
	var dirs []string
	for _, n := range names {
		dir, err := find(root, n)
		if err != nil {
			s.Err = err
			return s
		}
		if dir == "" {
			s.Mode = ""
			return s
		}
		mode, err := Mode(root, n)
		if err != nil {
			s.Err = err
			return s
		}
		if len(dirs) == 0 || mode != "enforce" {
			s.Mode = mode
		}
		dirs = append(dirs, dir)
	}
	s.Changed, s.DiffErr = changed(ctx, root, dirs, text)
	return s
}

// changed compiles the text and compares: the parser writes a profile and its child
// one behind the other, and the kernel keeps the size and the checksum of each.
func changed(ctx context.Context, root fs.FS, dirs []string, text string) (bool, error) {
	binary, err := parse(ctx, text, "--stdout", "--skip-kernel-load")
	if err != nil {
		return false, err
	}
	for _, dir := range dirs {
		st, err := fs.Stat(root, dir+"/raw_data")
		if err != nil {
			return false, err // CONFIG_SECURITY_APPARMOR_EXPORT_BINARY is off
		}
		if st.Size() > int64(len(binary)) {
			return true, nil
		}
		part := binary[:st.Size()]
		binary = binary[len(part):]
		same, err := sum(root, dir, part)
		if !same || err != nil {
			return !same && err == nil, err
		}
	}
	return len(binary) > 0, nil
}

// sum compares with the kernel's checksum: SHA-256, before Linux 6.8 SHA-1.
func sum(root fs.FS, dir string, part []byte) (bool, error) {
	s256, s1 := sha256.Sum256(part), sha1.Sum(part)
	for file, want := range map[string][]byte{"raw_sha256": s256[:], "raw_sha1": s1[:]} {
		b, err := fs.ReadFile(root, dir+"/"+file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return false, err
		}
		have, err := hex.DecodeString(strings.TrimSpace(string(b)))
		if err != nil {
			return false, fmt.Errorf("%s: %w", file, err)
		}
		return bytes.Equal(have, want), nil
	}
	return false, errors.New("the kernel keeps no checksums of profiles")
}
