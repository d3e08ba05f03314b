package seccomp

import (
	"slices"
	"strconv"
	"testing"
)

func arg(t *testing.T, a Arg) *Arg {
	t.Helper()
	if err := a.parse("arg"); err != nil {
		t.Fatal(err)
	}
	return &a
}

// TestExpandIsAPartition takes masks of eight bits spread over the word and goes
// over all 256 numbers that can be seen through them: each is in exactly one of
// the comparisons of in32 and notIn32 together.
func TestExpandIsAPartition(t *testing.T) {
	for _, mask := range []uint32{0xff, 0xff000000, 0x55555555 & 0xffff, 0x7e020001} {
		var numbers []uint32 // every number under the mask
		for sub := mask; ; sub = (sub - 1) & mask {
			numbers = append(numbers, sub)
			if sub == 0 {
				break
			}
		}
		for _, n := range []int{1, 2, 5, len(numbers) / 4} {
			values := []string{}
			for i := range n {
				values = append(values, strconv.FormatUint(uint64(numbers[i*len(numbers)/n]), 10))
			}
			m := []string{strconv.FormatUint(uint64(mask), 10)}
			in, out := arg(t, Arg{Mask: m, In32: values}), arg(t, Arg{Mask: m, NotIn32: values})
			for _, x := range numbers {
				hits, where := 0, ""
				for name, list := range map[string][]masked{"in32": in.expand(), "notIn32": out.expand()} {
					for _, c := range list {
						if x&c.mask == c.value {
							hits, where = hits+1, name
						}
					}
				}
				want := "notIn32"
				if slices.Contains(in.values, x) {
					want = "in32"
				}
				if hits != 1 || where != want {
					t.Fatalf("mask %#x, %d values: %#x is in %d comparisons, last %s, want one of %s", mask, n, x, hits, where, want)
				}
			}
		}
	}
}

func TestExpandSizes(t *testing.T) {
	for _, c := range []struct {
		a    Arg
		want int
	}{
		{Arg{NotIn32: []string{"1"}}, 32},
		{Arg{NotIn32: []string{"0", "1"}}, 31},
		{Arg{NotIn32: []string{"0"}, Mask: []string{"CLONE_NEWUSER", "CLONE_NEWNS"}}, 2},
		{Arg{In32: []string{"0", "7"}}, 2},
		{Arg{NotIn32: []string{"0", "1"}, Mask: []string{"1"}}, 0}, // nothing is left
	} {
		if got := len(arg(t, c.a).expand()); got != c.want {
			t.Errorf("%s: %d comparisons, want %d", c.a.text("x"), got, c.want)
		}
	}
}
