package seed

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/jailpath"
)

// Types of a frame, those of internal/pid1/src/protocol.h.
const (
	frameDir  = 1
	frameFile = 2
	frameEnd  = 3
)

// header is what begins a frame, in little-endian order. The path follows with its
// NUL, then Size bytes of data.
type header struct {
	Type, Mode, PathBytes, Zero uint32
	Size                        uint64
}

// Encode writes the frames of s. A *jailer.Error is a fault of a host file, and
// names it; the writer must then be closed without more, which PID 1 takes for what
// it is, a list that is cut short. Any other error is the writer's: of EPIPE the
// reader, who left, knows the reason.
func (s *Set) Encode(w io.Writer) error {
	b := bufio.NewWriterSize(w, 64<<10) // what a pipe holds (pipe(7))
	for _, e := range s.list() {
		if err := e.encode(b); err != nil {
			return err
		}
	}
	if err := binary.Write(b, binary.LittleEndian, header{Type: frameEnd}); err != nil {
		return err
	}
	return b.Flush()
}

func (e *entry) encode(w *bufio.Writer) error {
	h := header{Type: frameDir, Mode: uint32(e.mode.Perm()), PathBytes: uint32(len(e.path) + 1)}
	if e.dir {
		return h.write(w, e.path)
	}
	r, size, done, err := e.from.open()
	if err != nil {
		return err
	}
	defer done()
	h.Type, h.Size = frameFile, uint64(size)
	if err := h.write(w, e.path); err != nil {
		return err
	}
	n, err := io.Copy(w, faulty{io.NewSectionReader(r, 0, size), e.from.String()})
	if err != nil {
		return err
	}
	// The size is said before the data. What is no longer true of it would be a
	// torn file in the jail.
	if n < size {
		return changed(e.from.String(), fmt.Sprintf("had %d bytes, and %d when it was read", size, n))
	}
	switch n, err := r.ReadAt(make([]byte, 1), size); {
	case n > 0:
		return changed(e.from.String(), fmt.Sprintf("had %d bytes, and more when it was read", size))
	case !errors.Is(err, io.EOF):
		return hostError(e.from.String(), err)
	}
	return nil
}

func (h header) write(w io.Writer, path string) error {
	if err := binary.Write(w, binary.LittleEndian, h); err != nil {
		return err
	}
	_, err := io.WriteString(w, path+"\x00")
	return err
}

// faulty turns the errors of a host file into ours, so that they are told from the
// writer's.
type faulty struct {
	r    io.Reader
	name string
}

func (f faulty) Read(b []byte) (int, error) {
	n, err := f.r.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		err = hostError(f.name, err)
	}
	return n, err
}

func changed(name, msg string) *jailer.Error {
	return &jailer.Error{
		Code: jailer.CodeInvalidState, Op: op, Path: jailpath.Quote(name), Message: msg, Retryable: true,
		Hint: "copy it when nothing writes to it; files of /proc and /sys have no size and can't be copied",
	}
}
