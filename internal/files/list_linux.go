package files

import (
	"container/heap"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/internal/jailpath"
)

// Bounds of a listing, in entries.
const (
	DefaultEntries = 1000
	MaxEntries     = 10_000
)

// A Listing is a part of a directory, by the bytes of the names.
type Listing struct {
	Entries []Info
	Cursor  string // for the next part; "" at the end
}

// List gives the entries of a directory that come after the cursor, limit of them at
// most; 0 is DefaultEntries. The cursor is a name: what is made, removed or renamed
// meanwhile changes nothing for the other names. A directory of any size takes the
// memory of one part, and one reading of its names.
func (d *Dir) List(ctx context.Context, p, cursor string, limit int) (Listing, error) {
	const op = "fs.ls"
	if limit == 0 {
		limit = DefaultEntries
	}
	if limit < 0 || limit > MaxEntries {
		return Listing{}, refuse(InvalidRequest, op, p, "a limit of %d given, want 1 to %d", limit, MaxEntries)
	}
	after, err := parseListCursor(cursor)
	if err != nil {
		return Listing{}, refuse(InvalidRequest, op, p, "the cursor is none of a listing's")
	}
	p, err = Clean(op, p)
	if err != nil {
		return Listing{}, err
	}
	dir, err := d.Open(p, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return Listing{}, fail(op, p, err)
	}
	defer dir.Close()
	var least names // the first limit+1 names after the cursor; the last of them on top
	for {
		some, err := dir.Readdirnames(1024)
		for _, name := range some {
			if name <= after || len(least) > limit && name >= least[0] {
				continue
			}
			heap.Push(&least, name)
			if len(least) > limit+1 {
				heap.Pop(&least)
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return Listing{}, fail(op, p, err)
		}
	}
	l := Listing{Entries: []Info{}}
	sorted := make([]string, len(least))
	for i := len(least) - 1; i >= 0; i-- {
		sorted[i] = heap.Pop(&least).(string)
	}
	if len(sorted) > limit {
		sorted = sorted[:limit]
		l.Cursor = listCursor(sorted[limit-1])
	}
	for _, name := range sorted {
		i, err := at(dir, name)
		if errors.Is(err, unix.ENOENT) {
			continue // removed meanwhile
		}
		if err != nil {
			return Listing{}, fail(op, p, err)
		}
		l.Entries = append(l.Entries, i)
	}
	return l, nil
}

const listMark = "l1."

func listCursor(name string) string {
	return listMark + base64.RawURLEncoding.EncodeToString([]byte(name))
}

// IsListCursor says whether s could be one.
func IsListCursor(s string) bool { _, err := parseListCursor(s); return err == nil }

func parseListCursor(s string) (after string, err error) {
	if s == "" {
		return "", nil
	}
	rest, ok := strings.CutPrefix(s, listMark)
	if !ok || len(rest) > 2*jailpath.MaxNameBytes || strings.ContainsAny(rest, "\r\n") {
		return "", errors.New("malformed")
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(rest)
	return string(b), err
}

// names is a heap with the last name on top.
type names []string

func (n names) Len() int           { return len(n) }
func (n names) Less(i, j int) bool { return n[i] > n[j] }
func (n names) Swap(i, j int)      { n[i], n[j] = n[j], n[i] }
func (n *names) Push(x any)        { *n = append(*n, x.(string)) }
func (n *names) Pop() any {
	last := (*n)[len(*n)-1]
	*n = (*n)[:len(*n)-1]
	return last
}
