package policy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/jailer-project/jailer"
)

// maxUID is the largest id: 2^32-1 is (uid_t)-1, which the kernel reads as "no
// id" (setresuid(2), chown(2)).
const maxUID = math.MaxUint32 - 1

// parseUIDRange reads "FIRST-LAST", both included.
func parseUIDRange(s string) ([2]uint32, error) {
	var r [2]uint32
	first, last, ok := strings.Cut(s, "-")
	if !ok {
		return r, fmt.Errorf("%q given, want \"FIRST-LAST\"", s)
	}
	for i, part := range []string{first, last} {
		n, err := strconv.ParseUint(part, 10, 64)
		if err != nil || strconv.FormatUint(n, 10) != part {
			return r, fmt.Errorf("%q given, want \"FIRST-LAST\"", s)
		}
		if n > maxUID {
			return r, fmt.Errorf("%q: ids end at %d", s, uint32(maxUID))
		}
		r[i] = uint32(n)
	}
	if r[0] == 0 {
		return r, fmt.Errorf("%q: contains 0, which is root", s)
	}
	if r[0] > r[1] {
		return r, fmt.Errorf("%q: ends before it begins", s)
	}
	return r, nil
}

// CheckUIDRange tells whether the ids of r, both ends included, belong to
// somebody on this host: a user or group id in the text of /etc/passwd, or a
// range in the text of /etc/subuid. A jail that shares its id with a user may
// signal and trace that user's processes. A line that can't be read is an error
// as well, since it may hold the id. The caller reads the files; an absent one
// is nil.
func CheckUIDRange(r [2]uint32, passwd, subuid []byte) error {
	fail := func(file string, line int, msg string) error {
		return &jailer.Error{
			Code: jailer.CodeInvalidPolicy, Op: "policy.uid_range", Reason: "root.uid_range", Path: fmt.Sprintf("%s:%d", file, line),
			Message: fmt.Sprintf("root.uid_range %d-%d: %s", r[0], r[1], msg),
			Hint:    "set root.uid_range in the policy to ids that nobody has, as in \"1900000000-1900065535\"",
		}
	}
	if r[0] == 0 || r[0] > r[1] || r[1] > maxUID {
		return fail("policy", 0, "is not a range of ids above 0")
	}
	if err := eachLine("/etc/passwd", passwd, 4, func(line int, f []string) error {
		for i, kind := range []string{"user", "group"} {
			id, err := strconv.ParseUint(f[2+i], 10, 64)
			if err != nil {
				return fail("/etc/passwd", line, "this line has no readable "+kind+" id")
			}
			if id >= uint64(r[0]) && id <= uint64(r[1]) {
				return fail("/etc/passwd", line, fmt.Sprintf("%s id %d is in it", kind, id))
			}
		}
		return nil
	}); err != nil {
		return err
	}
	return eachLine("/etc/subuid", subuid, 3, func(line int, f []string) error {
		first, err1 := strconv.ParseUint(f[1], 10, 64)
		count, err2 := strconv.ParseUint(f[2], 10, 64)
		if errors.Join(err1, err2) != nil || count > math.MaxUint64-first {
			return fail("/etc/subuid", line, "this line has no readable range")
		}
		if count > 0 && first <= uint64(r[1]) && first+count-1 >= uint64(r[0]) {
			return fail("/etc/subuid", line, fmt.Sprintf("the range %d-%d meets it", first, first+count-1))
		}
		return nil
	})
}

// eachLine calls f with the fields of each line that has at least n of them.
// Comments, and the + and - lines of NIS, belong to nobody here.
func eachLine(name string, data []byte, n int, f func(line int, fields []string) error) error {
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, maxBytes)
	line := 0
	for lines.Scan() {
		line++
		s := strings.TrimSpace(lines.Text())
		if s == "" || strings.ContainsAny(s[:1], "#+-") {
			continue
		}
		fields := strings.Split(s, ":")
		if len(fields) < n {
			return &jailer.Error{
				Code: jailer.CodeInvalidPolicy, Op: "policy.uid_range", Reason: "root.uid_range", Path: fmt.Sprintf("%s:%d", name, line),
				Message: fmt.Sprintf("%d fields, want %d: it may hold an id of root.uid_range", len(fields), n),
			}
		}
		if err := f(line, fields); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return &jailer.Error{Code: jailer.CodeInvalidPolicy, Op: "policy.uid_range", Reason: "root.uid_range", Path: name, Message: "can't be read", Err: err}
	}
	return nil
}
