package stream

import (
	"context"
	"io"
	"os"
)

// Feed copies src to dst, the job's stdin pipe, in a goroutine of its own and
// closes dst at the end of src, when the job no longer reads (EPIPE: no error,
// `yes | jailer run --stdin - -- true` is a success) or when ctx ends. It owns
// dst. Nobody waits for it: src may be a terminal that never says another word,
// and a read that blocks there must not hold up the answer.
func Feed(ctx context.Context, src io.Reader, dst *os.File) {
	dst = pollable(dst)
	stop := context.AfterFunc(ctx, func() { dst.Close() })
	go func() {
		defer stop()
		defer dst.Close()
		buf := make([]byte, chunk)
		for {
			n, err := src.Read(buf)
			if n > 0 {
				if _, werr := dst.Write(buf[:n]); werr != nil {
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
}
