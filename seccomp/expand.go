package seccomp

import "math/bits"

// A pattern is a set of argument vectors: those for which, for each i,
// arg[i] & mask[i] == value[i]. It is what one libseccomp rule of masked-equal
// comparisons, at most one for each argument, can say. libseccomp has neither
// "not equal under a mask" nor a 32-bit comparison, so that a condition becomes
// several patterns.
type pattern struct {
	mask, value [6]uint32
}

// disjoint says whether no argument vector is in both.
func (p pattern) disjoint(q pattern) bool {
	for i := range p.mask {
		if p.mask[i]&q.mask[i]&(p.value[i]^q.value[i]) != 0 {
			return true
		}
	}
	return false
}

// fixed is the number of bits of the six arguments that the pattern says
// something of.
func (p pattern) fixed() int {
	n := 0
	for _, m := range p.mask {
		n += bits.OnesCount32(m)
	}
	return n
}

type masked struct{ mask, value uint32 }

// expand gives the condition as masked comparisons that do not overlap.
func (a *Arg) expand() []masked {
	var out []masked
	if a.In32 != nil {
		for _, v := range a.values {
			out = append(out, masked{a.mask, v})
		}
		return out
	}
	return complement(out, a.mask, a.values, masked{}, 1<<31)
}

// complement appends the comparisons that together hold for every number, seen
// through mask, that is not in values. It goes down the bits from the highest,
// as one writes a range in CIDR prefixes: where no value shares the prefix, the
// prefix is a comparison; where one does, it is split by the next bit. One value
// over 32 bits makes 32 of them.
func complement(out []masked, mask uint32, values []uint32, prefix masked, bit uint32) []masked {
	if len(values) == 0 {
		return append(out, prefix)
	}
	for bit != 0 && mask&bit == 0 {
		bit >>= 1
	}
	if bit == 0 {
		return out
	}
	for _, side := range []uint32{0, bit} {
		var in []uint32
		for _, v := range values {
			if v&bit == side {
				in = append(in, v)
			}
		}
		out = complement(out, mask, in, masked{prefix.mask | bit, prefix.value | side}, bit>>1)
	}
	return out
}

// count gives the number of patterns that the rule expands to.
func (r *Rule) count() int {
	n := 1
	for i := range r.Args {
		n = min(n, 1<<20) * len(r.Args[i].expand())
	}
	return n
}

// patterns gives the rule's arguments as sets that do not overlap: conditions
// on different arguments are ANDed, hence the product. No condition, one set.
func (r *Rule) patterns() []pattern {
	all := []pattern{{}}
	for i := range r.Args {
		var next []pattern
		for _, p := range all {
			for _, m := range r.Args[i].expand() {
				p.mask[r.Args[i].Index], p.value[r.Args[i].Index] = m.mask, m.value
				next = append(next, p)
			}
		}
		all = next
	}
	return all
}
