package seccomp

import (
	"cmp"
	"slices"
	"strings"
)

// Newer are calls that not every libseccomp can name, with the numbers that they
// have on every architecture (scripts/syscall.tbl of Linux). Rules that named them
// would not compile everywhere, so that they meet the default action.
func Newer() map[string]int {
	return map[string]int{
		"cachestat": 451, "fchmodat2": 452, "map_shadow_stack": 453, "futex_wake": 454, "futex_wait": 455,
		"futex_requeue": 456, "statmount": 457, "listmount": 458, "lsm_get_self_attr": 459, "lsm_set_self_attr": 460,
		"lsm_list_modules": 461, "mseal": 462, "setxattrat": 463, "getxattrat": 464, "listxattrat": 465,
		"removexattrat": 466, "open_tree_attr": 467, "file_getattr": 468, "file_setattr": 469, "listns": 470,
	}
}

// Close gives at most three of the known names that a mistyped one may stand
// for, the closest first.
func Close(name string, known []string) []string {
	type match struct {
		name string
		far  int
	}
	var found []match
	for _, k := range known {
		far, limit := distance(name, k), min(2, (len(name)+1)/3)
		if len(name) >= 4 && strings.HasPrefix(k, name) {
			far = min(far, limit)
		}
		if far <= limit {
			found = append(found, match{k, far})
		}
	}
	slices.SortFunc(found, func(a, b match) int {
		return cmp.Or(cmp.Compare(a.far, b.far), cmp.Compare(a.name, b.name))
	})
	var names []string
	for _, m := range found[:min(len(found), 3)] {
		names = append(names, m.name)
	}
	return names
}

// distance is the number of bytes to insert, remove, replace or swap with the
// next one to make a of b.
func distance(a, b string) int {
	before, last, row := []int(nil), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, make([]int, len(b)+1)
	}
	return last[len(b)]
}
