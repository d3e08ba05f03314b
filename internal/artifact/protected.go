package artifact

import (
	"strings"
	"unicode"
)

// protected is a list of names, as elements of paths, folded.
type protected [][]string

func parseProtected(list []string) protected {
	var p protected
	for _, s := range list {
		var rule []string
		for e := range strings.SplitSeq(s, "/") {
			if e != "" && e != "." {
				rule = append(rule, fold(e))
			}
		}
		if len(rule) > 0 {
			p = append(p, rule)
		}
	}
	return p
}

// covers says whether a path is one of the names, at any depth, or below one.
func (p protected) covers(path string) bool {
	if len(p) == 0 {
		return false
	}
	elements := strings.Split(path, "/")
	for i, e := range elements {
		elements[i] = fold(e)
	}
	for _, rule := range p {
		for i := 0; i+len(rule) <= len(elements); i++ {
			n := 0
			for n < len(rule) && rule[n] == elements[i+n] {
				n++
			}
			if n == len(rule) {
				return true
			}
		}
	}
	return false
}

// fold makes one of all spellings that a file system of another kind takes for the same
// name: case (macOS, Windows), characters that HFS+ ignores (CVE-2014-9390), and the
// dots, spaces and stream names that Windows drops from the end.
func fold(name string) string {
	if i := strings.IndexByte(name, ':'); i > 0 {
		name = name[:i]
	}
	name = strings.TrimRight(strings.Map(func(r rune) rune {
		switch {
		case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
			return -1
		}
		least := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		return least
	}, name), ". ")
	return name
}
