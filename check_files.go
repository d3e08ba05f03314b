package jailer

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/jailer-project/jailer/internal/jailpath"
)

// defaultFileMode is that of a RequestFile without one.
const defaultFileMode fs.FileMode = 0o644

// Data is the content as bytes.
func (f *RequestFile) Data() ([]byte, error) { return DecodeText(f.Content, f.Encoding) }

// FileMode is the mode as a number, without the bit for the owner that is added.
func (f *RequestFile) FileMode() (fs.FileMode, error) {
	if f.Mode == "" {
		return defaultFileMode, nil
	}
	// A string, since JSON has no octal numbers: 755 would be 01363, and 400 a mode.
	n, err := strconv.ParseUint(f.Mode, 8, 32)
	if err != nil || len(f.Mode) < 3 || len(f.Mode) > 4 || n > 0o777 {
		return 0, fmt.Errorf("%s given, want octal digits from \"0000\" to \"0777\"", quote(f.Mode))
	}
	return fs.FileMode(n), nil
}

// place resolves a path of a request, which must be in its shortest form: of two
// spellings of one path, only one is looked for by whoever reads the document.
func place(p string) (string, error) {
	abs, err := jailpath.Resolve(p)
	if err != nil {
		return "", err
	}
	if clean := path.Clean(p); clean != p {
		return "", fmt.Errorf("%s is not clean, want %s", quote(p), quote(clean))
	}
	if abs == jailpath.Mount(abs) {
		return "", fmt.Errorf("%s is there already", quote(p))
	}
	return abs, nil
}

// checkFiles wants each path once, and nothing below a file.
func checkFiles(files []RequestFile, dirs []string) error {
	at := make(map[string]string, len(files)+len(dirs)) // path to the member that has it
	places := make([]string, 0, len(files)+len(dirs))
	add := func(field, p string) error {
		abs, err := place(p)
		if err != nil {
			return invalid(field, err.Error())
		}
		if first, twice := at[abs]; twice {
			return invalid(field, fmt.Sprintf("%s is that of %s too", quote(p), first))
		}
		at[abs] = field
		places = append(places, abs)
		return nil
	}
	for i := range files {
		f, field := &files[i], fmt.Sprintf("files[%d]", i)
		if err := add(field+".path", f.Path); err != nil {
			return err
		}
		if !slices.Contains([]string{"", EncodingUTF8, EncodingBase64}, f.Encoding) {
			return invalid(field+".encoding", fmt.Sprintf("%s given, want utf-8 or base64", quote(f.Encoding)))
		}
		if _, err := f.Data(); err != nil {
			// Of bad base64 the message tells the offset, never the text.
			return invalid(field+".content", err.Error())
		}
		if _, err := f.FileMode(); err != nil {
			return invalid(field+".mode", err.Error())
		}
	}
	for i, d := range dirs {
		if err := add(fmt.Sprintf("directories[%d]", i), d); err != nil {
			return err
		}
	}
	return checkBelow(places, len(files), at)
}

// checkBelow refuses a place below one of the first n, which are files.
func checkBelow(places []string, n int, at map[string]string) error {
	// With the separator before every other byte, what is below a path follows it.
	keys := make([]string, len(places))
	isFile := make(map[string]bool, n)
	for i, p := range places {
		keys[i] = strings.ReplaceAll(p, "/", "\x00")
		if i < n {
			isFile[keys[i]] = true
		}
	}
	slices.Sort(keys)
	for i, k := range keys[:max(len(keys)-1, 0)] {
		if isFile[k] && strings.HasPrefix(keys[i+1], k+"\x00") {
			file, below := strings.ReplaceAll(k, "\x00", "/"), strings.ReplaceAll(keys[i+1], "\x00", "/")
			return invalid(at[below], fmt.Sprintf("%s is below the file of %s", quote(below), at[file]))
		}
	}
	return nil
}
