package files

import (
	"context"
	"errors"
	"io"
)

// Cat copies a regular file to w. One of more than max bytes is refused before a byte
// is read; one that grows beyond that meanwhile is cut there, with the same error.
func (d *Dir) Cat(ctx context.Context, w io.Writer, p string, most int64) (int64, error) {
	const op = "fs.cat"
	p, err := cleanBelow(op, p)
	if err != nil {
		return 0, err
	}
	f, st, err := d.Regular(op, p)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if st.Size > most {
		return 0, tooLarge(op, p, st.Size, most)
	}
	n, err := copyUpTo(ctx, w, f, most)
	if errors.Is(err, errMore) {
		return n, refuse(TooLarge, op, p, "grew beyond %d bytes while it was read", most)
	}
	if in, ok := errors.AsType[writeError](err); ok {
		return n, in.err // of the receiver: nothing is wrong with the file
	}
	return n, fail(op, p, err)
}

func tooLarge(op, p string, size, most int64) error {
	return refuse(TooLarge, op, p, "has %d bytes, at most %d are allowed", size, most)
}

var errMore = errors.New("more than allowed")

// copyUpTo copies at most so many bytes. errMore: there are more.
func copyUpTo(ctx context.Context, w io.Writer, r io.Reader, most int64) (n int64, err error) {
	b := make([]byte, 64<<10)
	for {
		if err := context.Cause(ctx); err != nil {
			return n, err
		}
		m, err := r.Read(b)
		over := int64(m) > most-n
		if over {
			m = int(most - n)
		}
		if m > 0 {
			k, werr := w.Write(b[:m])
			n += int64(k)
			if werr != nil {
				return n, writeError{werr}
			}
		}
		switch {
		case over:
			return n, errMore
		case errors.Is(err, io.EOF):
			return n, nil
		case err != nil:
			return n, err
		}
	}
}

// A writeError is of the receiving side.
type writeError struct{ err error }

func (e writeError) Error() string { return e.err.Error() }
func (e writeError) Unwrap() error { return e.err }
