package artifact

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// ManifestName is the last member of every export. An import skips it.
const ManifestName = ".jailer-manifest.json"

// A Manifest says what was moved.
type Manifest struct {
	Files       []Entry   // by the bytes of their paths
	Directories int       // made, or in the tar
	Bytes       int64     // content of all files
	Skipped     []Skipped // what is there and was left out, at most maxSkipped of it
	SkippedMore int       // those that are not listed
}

// An Entry is one file.
type Entry struct {
	Path      string // relative; any bytes but NUL
	Bytes     int64
	SHA256    string // hex, of the content that was moved
	Mode      uint32 // permission bits
	Links     int64  // names that it had in the workspace, where these are more than one
	Changed   bool   // it, its mode or its names changed between the look for it and the end of reading
	Protected bool   // a name of the policy's list
}

// Skipped is a name that was left out.
type Skipped struct {
	Path   string
	Reason string
}

const maxSkipped = 100

func (m *Manifest) skip(path, reason string) {
	if len(m.Skipped) < maxSkipped {
		m.Skipped = append(m.Skipped, Skipped{path, reason})
	} else {
		m.SkippedMore++
	}
}

type encodedPath struct {
	Path     string `json:"path"`
	Encoding string `json:"pathEncoding,omitempty"` // base64, where the path is no UTF-8
}

func encode(path string) encodedPath {
	if utf8.ValidString(path) {
		return encodedPath{Path: path}
	}
	return encodedPath{base64.StdEncoding.EncodeToString([]byte(path)), "base64"}
}

func (e encodedPath) decode() (string, error) {
	if e.Encoding == "" {
		return e.Path, nil
	}
	b, err := base64.StdEncoding.DecodeString(e.Path)
	return string(b), err
}

type entryJSON struct {
	encodedPath
	Bytes     int64  `json:"bytes"`
	SHA256    string `json:"sha256"`
	Mode      string `json:"mode"` // octal
	Links     int64  `json:"links,omitempty"`
	Changed   bool   `json:"changed,omitempty"`
	Protected bool   `json:"protected,omitempty"`
}

type skippedJSON struct {
	encodedPath
	Reason string `json:"reason"`
}

type manifestJSON struct {
	V           int           `json:"v"`
	Files       []entryJSON   `json:"files"`
	Directories int           `json:"directories"`
	Bytes       int64         `json:"bytes"`
	Skipped     []skippedJSON `json:"skipped"`
	SkippedMore int           `json:"skippedMore,omitempty"`
}

// version of the manifest.
const version = 1

// MarshalJSON writes the manifest's document.
func (m Manifest) MarshalJSON() ([]byte, error) {
	j := manifestJSON{version, []entryJSON{}, m.Directories, m.Bytes, []skippedJSON{}, m.SkippedMore}
	for _, e := range m.Files {
		j.Files = append(j.Files, entryJSON{encode(e.Path), e.Bytes, e.SHA256, fmt.Sprintf("%04o", e.Mode), e.Links, e.Changed, e.Protected})
	}
	for _, s := range m.Skipped {
		j.Skipped = append(j.Skipped, skippedJSON{encode(s.Path), s.Reason})
	}
	return json.Marshal(j)
}

// UnmarshalJSON reads it, and ignores members that it does not know.
func (m *Manifest) UnmarshalJSON(data []byte) error {
	var j manifestJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	*m = Manifest{Directories: j.Directories, Bytes: j.Bytes, SkippedMore: j.SkippedMore}
	for _, e := range j.Files {
		path, err := e.decode()
		if err != nil {
			return err
		}
		mode, err := strconv.ParseUint(e.Mode, 8, 32)
		if err != nil {
			return err
		}
		m.Files = append(m.Files, Entry{path, e.Bytes, e.SHA256, uint32(mode), e.Links, e.Changed, e.Protected})
	}
	for _, s := range j.Skipped {
		path, err := s.decode()
		if err != nil {
			return err
		}
		m.Skipped = append(m.Skipped, Skipped{path, s.Reason})
	}
	return nil
}
