package artifact

import (
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/jailer-project/jailer/internal/files"
)

// A glob is a path of patterns: *, ? and […] within an element (path.Match), and ** as
// an element for any number of directories, none included. What it matches is taken
// with all that is in it.
type glob []string

const (
	anyDepth    = "**"
	maxElements = 64
)

// CheckGlob refuses what no Export takes.
func CheckGlob(s string) error {
	if _, err := parseGlob(s); err != nil {
		return refuse(exportOp, files.InvalidPath, s, "%v", err)
	}
	return nil
}

func parseGlob(s string) (glob, error) {
	switch {
	case s == "":
		return nil, errors.New("is empty")
	case len(s) > 4095:
		return nil, errors.New("is too long")
	case strings.IndexByte(s, 0) >= 0:
		return nil, errors.New("contains a NUL byte")
	case path.IsAbs(s):
		return nil, errors.New("is absolute; globs are relative to the workspace")
	}
	var g glob
	for e := range strings.SplitSeq(s, "/") {
		switch {
		case e == "" || e == ".":
			continue
		case e == "..":
			return nil, errors.New(`contains ".."`)
		case e == anyDepth && len(g) > 0 && g[len(g)-1] == anyDepth:
			continue // as one
		}
		if _, err := path.Match(e, ""); err != nil {
			return nil, errors.New("has a [ without its ]")
		}
		g = append(g, e)
	}
	if len(g) > maxElements {
		return nil, errors.New("has too many elements")
	}
	return g, nil // of "." none: all there is
}

// A position is how far into each glob a directory's path has come: a bit for each
// element that its entries may match next. A walk carries it along, and so takes as long
// as the tree is large, whatever the globs say.
type position []uint64

// begin is the position of the root, and which globs match that itself.
func begin(globs []glob) (position, []bool) {
	p := make(position, len(globs))
	for i := range p {
		p[i] = 1
	}
	return p.settle(globs)
}

// settle adds what can be reached without another element: ** may be nothing.
func (p position) settle(globs []glob) (position, []bool) {
	done := make([]bool, len(globs))
	for i, g := range globs {
		for n, e := range g {
			if e == anyDepth && p[i]&(1<<n) != 0 && n+1 < len(g) {
				p[i] |= 1 << (n + 1)
			}
		}
		if len(g) == 0 {
			done[i] = true
		}
	}
	return p, done
}

// literals are the only names that can match next, where no pattern is among them.
func (p position) literals(globs []glob) (names []string, ok bool) {
	for i, g := range globs {
		for n, e := range g {
			if p[i]&(1<<n) == 0 {
				continue
			}
			if strings.ContainsAny(e, `*?[\`) {
				return nil, false
			}
			if !slices.Contains(names, e) {
				names = append(names, e)
			}
		}
	}
	return names, true
}

// enter is the position of an entry, which of the globs match it, and whether anything
// below it may match.
func (p position) enter(globs []glob, name string) (next position, matches []bool, on bool) {
	next = make(position, len(globs))
	matches = make([]bool, len(globs))
	for i, g := range globs {
		for n, e := range g {
			if p[i]&(1<<n) == 0 {
				continue
			}
			if e == anyDepth {
				next[i] |= 1 << n
				if n+1 == len(g) {
					matches[i] = true
				}
				continue
			}
			if ok, _ := path.Match(e, name); !ok {
				continue
			}
			if n+1 == len(g) || n+2 == len(g) && g[n+1] == anyDepth {
				matches[i] = true // a/** is a too, with all that is in it
			}
			if n+1 < len(g) {
				next[i] |= 1 << (n + 1)
			}
		}
	}
	next, _ = next.settle(globs)
	for i := range next {
		on = on || next[i] != 0
	}
	return next, matches, on
}
