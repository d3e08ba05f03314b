package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrNotFound is returned for an id that no jail has.
var ErrNotFound = errors.New("no such session")

// An Entry is a jail as the state directory knows it.
type Entry struct {
	ID     string
	Path   string
	Record *Record // nil where there is none that can be read
	Alive  bool    // else it is a leak, which gc removes
}

// List gives the jails, by id. Those that go meanwhile are left out. With an error
// comes what could be looked at.
func (d *Dir) List() ([]Entry, error) {
	es, err := os.ReadDir(d.Path)
	if err != nil {
		return nil, err
	}
	var out []Entry
	var failed error
	for _, e := range es {
		if !e.IsDir() || CheckID(e.Name()) != nil {
			continue
		}
		entry, err := d.look(e.Name())
		switch {
		case err == nil:
			out = append(out, entry)
		case !errors.Is(err, ErrNotFound):
			failed = errors.Join(failed, err)
		}
	}
	return out, failed
}

// Find gives one jail: ErrNotFound if there is none of this id, and an error of
// CheckID for what is no id.
func (d *Dir) Find(id string) (Entry, error) {
	if err := CheckID(id); err != nil {
		return Entry{}, err
	}
	return d.look(id)
}

func (d *Dir) look(id string) (Entry, error) {
	e := Entry{ID: id, Path: filepath.Join(d.Path, id)}
	var err error
	if e.Alive, err = alive(e.Path); err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			return Entry{}, fmt.Errorf("%w: %s", ErrNotFound, id)
		}
		return Entry{}, err
	}
	e.Record, _ = readRecord(e.Path)
	return e, nil
}
