package audit

import (
	"bytes"
	"os"
)

// A tail is how a log ends.
type tail struct {
	size int64
	seq  int64 // of the last record; 0 in an empty log
	torn bool  // the last line has no end
}

// first is how every record begins, as far as it is the same in each.
const first = `{"v":1,"seq":`

// tailMost bounds the search for the last record, in bytes. More damage than that
// is no crash's.
const tailMost = 16 << 20

// readTail finds the last record. Lines that are none are passed over: a crash
// may have left half of one, a lost disk worse. A file without any is refused:
// it is another program's, named by mistake.
func readTail(f *os.File) (tail, error) {
	st, err := f.Stat()
	if err != nil {
		return tail{}, err
	}
	t := tail{size: st.Size()}
	if t.size == 0 {
		return t, nil
	}
	for window := int64(4 << 10); ; window *= 16 {
		from := max(t.size-window, 0)
		buf := make([]byte, t.size-from)
		if _, err := f.ReadAt(buf, from); err != nil {
			return t, err
		}
		t.torn = buf[len(buf)-1] != '\n'
		if h, ok := lastRecord(buf, from == 0); ok {
			t.seq = h.Seq
			return t, nil
		}
		// The very first writer may have died in the middle of its first line.
		if n := min(len(buf), len(first)); from == 0 && string(buf[:n]) == first[:n] {
			return t, nil
		}
		if from == 0 || window >= tailMost {
			return t, refused(f.Name(), "holds no event where it ends: it is no event log, or damaged", "move it away")
		}
	}
}

// lastRecord finds the last record in buf. Unless whole, buf begins in the middle
// of a line.
func lastRecord(buf []byte, whole bool) (Head, bool) {
	for len(buf) > 0 {
		buf = bytes.TrimSuffix(buf, []byte("\n"))
		at := bytes.LastIndexByte(buf, '\n')
		if at < 0 && !whole {
			break
		}
		if h, ok := parse(buf[at+1:]); ok {
			return h, true
		}
		buf = buf[:at+1]
	}
	return Head{}, false
}
