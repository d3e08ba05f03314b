package policy

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/jailer-project/jailer"
)

// spot is where a key, or its value, stands in a file.
type spot struct {
	from, to int // bytes
	depth    int // how much of the path that was looked for it is
}

// locate finds what comes nearest to a path as profiles.a.limits.max.memory or
// approve.rules[1]: a value, unless the key is meant, else the key or table that it should
// be in.
func locate(data []byte, path string, key bool) (best spot, ok bool) {
	want := elements(path)
	note := func(p *unstable.Parser, at []string, r unstable.Range, isKey bool) {
		if len(at) > len(want) || len(at) < best.depth || len(at) == 0 || key && !isKey {
			return
		}
		for i, k := range at {
			if k != want[i] {
				return
			}
		}
		if ok = true; r.Length > 0 {
			best = spot{int(r.Offset), int(r.Offset + r.Length), len(at)}
		}
	}
	var p unstable.Parser
	p.Reset(data)
	var table []string
	counts := map[string]int{} // tables of each array
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = keys(&p, e, nil, note)
			if e.Kind == unstable.ArrayTable {
				name := strings.Join(table, ".")
				table = append(table, "["+strconv.Itoa(counts[name])+"]")
				counts[name]++
				note(&p, table, lastKey(e), true)
			}
		case unstable.KeyValue:
			pair(&p, e, table, note)
		}
	}
	return best, ok
}

type noter func(p *unstable.Parser, at []string, r unstable.Range, key bool)

// elements splits a path: a.b[1] is a, b, [1].
func elements(path string) []string {
	return strings.FieldsFunc(strings.ReplaceAll(path, "[", ".["), func(c rune) bool { return c == '.' })
}

// keys gives the path of a dotted key, and notes each part of it.
func keys(p *unstable.Parser, n *unstable.Node, above []string, note noter) []string {
	at := append([]string(nil), above...)
	for it := n.Key(); it.Next(); {
		at = append(at, string(it.Node().Data))
		note(p, at, it.Node().Raw, true)
	}
	return at
}

func lastKey(n *unstable.Node) (r unstable.Range) {
	for it := n.Key(); it.Next(); {
		r = it.Node().Raw
	}
	return r
}

func pair(p *unstable.Parser, n *unstable.Node, above []string, note noter) {
	at := keys(p, n, above, note)
	value(p, n.Value(), at, note)
}

func value(p *unstable.Parser, v *unstable.Node, at []string, note noter) {
	switch v.Kind {
	case unstable.InlineTable:
		for it := v.Children(); it.Next(); {
			if it.Node().Kind == unstable.KeyValue {
				pair(p, it.Node(), at, note)
			}
		}
	case unstable.Array:
		i := 0
		for it := v.Children(); it.Next(); {
			if it.Node().Kind == unstable.Comment {
				continue
			}
			here := append(at[:len(at):len(at)], "["+strconv.Itoa(i)+"]")
			value(p, it.Node(), here, note)
			i++
		}
	default:
		note(p, at, v.Raw, false)
	}
}

// context is how many lines are shown above the one that is meant.
const context = 2

// show adds the line that an error is about, with a mark under what is meant. The error
// begins with its key's path (bad).
func show(err *jailer.Error, data []byte) *jailer.Error {
	path, rest, found := strings.Cut(err.Message, ": ")
	at, ok := locate(data, path, rest == oddKey)
	if !found || !ok || at.to == 0 {
		return err
	}
	lines := bytes.Split(data, []byte("\n"))
	n := bytes.Count(data[:at.from], []byte("\n"))
	column := at.from - (bytes.LastIndexByte(data[:at.from], '\n') + 1)
	width := min(at.to-at.from, len(lines[n])-column)
	var b strings.Builder
	digits := len(strconv.Itoa(n + 1))
	for i := max(0, n-context); i <= n; i++ {
		fmt.Fprintf(&b, "\n%*d| %s", digits, i+1, shown(lines[i]))
	}
	// As many columns as what stands above has, whatever it is written in.
	fmt.Fprintf(&b, "\n%*s| %s%s", digits, "", blank(lines[n][:column]), strings.Repeat("^", max(1, len([]rune(shown(lines[n][column:column+width]))))))
	e := *err
	e.Message = path + ": " + rest + b.String()
	return &e
}

func shown(line []byte) string {
	return strings.TrimRight(strings.ToValidUTF8(string(line), "\uFFFD"), "\r")
}

func blank(b []byte) string {
	return strings.Map(func(c rune) rune {
		if c == '\t' {
			return c
		}
		return ' '
	}, shown(b))
}
