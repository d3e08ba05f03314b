// Package ring keeps the end of a stream: as much of what a managed process
// writes as fits into a fixed size, for readers that come later, follow, or
// fall behind. The writer never waits for any of them.
package ring

import (
	"context"
	"io"
	"sync"
)

const (
	firstSize = 4 << 10  // bytes; a log that says little costs little
	nextLimit = 64 << 10 // bytes that one Next gives, so that a crowd of slow followers is cheap too
)

// A Log holds the last bytes of one stream. Offsets count from the stream's
// first byte. It may be used by many at once.
type Log struct {
	limit int64

	mu     sync.Mutex
	buf    []byte // the byte at offset o is buf[o % len(buf)]
	total  int64  // bytes written
	closed bool
	news   chan struct{} // closed at the next change; nil when nobody waits
}

// New gives a log that keeps the last limit bytes; none if limit is not above 0.
// It has memory for what was written, up to that.
func New(limit int) *Log { return &Log{limit: int64(max(limit, 0))} }

// Write takes all of p. It never fails, and waits for nobody but for other
// callers that copy. p is not kept.
func (l *Log) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.grow(l.total + int64(len(p)))
	l.total += int64(len(p))
	if size := int64(len(l.buf)); size > 0 {
		keep := p[max(0, int64(len(p))-size):]
		at := (l.total - int64(len(keep))) % size
		n := copy(l.buf[at:], keep)
		copy(l.buf, keep[n:])
	}
	l.wake()
	return len(p), nil
}

// grow makes room for a stream of so many bytes. Until the buffer has its last
// size nothing has wrapped around in it, so that offsets are places.
func (l *Log) grow(total int64) {
	size := int64(len(l.buf))
	if size >= total || size == l.limit {
		return
	}
	size = max(size, firstSize)
	for size < total && size < l.limit {
		size *= 2
	}
	buf := make([]byte, min(size, l.limit))
	copy(buf, l.buf[:min(l.total, int64(len(l.buf)))])
	l.buf = buf
}

// Close says that the stream has ended: followers get what is left, then io.EOF.
// What is kept can still be read. It returns nil.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.wake()
	return nil
}

func (l *Log) wake() {
	if l.news != nil {
		close(l.news)
		l.news = nil
	}
}

// Count gives the number of bytes written, and of those at the beginning of the
// stream that are kept no more.
func (l *Log) Count() (total, lost int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total, l.lost()
}

func (l *Log) lost() int64 { return max(0, l.total-int64(len(l.buf))) }

// Tail gives the last n bytes, or all that is kept if that is less or n is
// negative. lost counts the bytes of the stream that are kept no more: what is
// before data and not there.
func (l *Log) Tail(n int64) (data []byte, lost int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lost = l.lost()
	from := lost
	if n >= 0 {
		from = max(from, l.total-n)
	}
	return l.copy(from, l.total), lost
}

// copy gives the bytes of [from, to), which are kept.
func (l *Log) copy(from, to int64) []byte {
	out := make([]byte, to-from)
	if len(out) > 0 {
		n := copy(out, l.buf[from%int64(len(l.buf)):])
		copy(out[n:], l.buf)
	}
	return out
}

// Next waits for bytes at the offset from, or after it if those there are kept
// no more, and gives some of them and the offset at which they are: at-from
// bytes were lost. The next call is for at+len(data). At the end of the stream
// the error is io.EOF; when ctx ends first, its own.
func (l *Log) Next(ctx context.Context, from int64) (data []byte, at int64, err error) {
	from = max(from, 0)
	for {
		if err := ctx.Err(); err != nil {
			return nil, from, err
		}
		l.mu.Lock()
		at := max(from, l.lost())
		switch {
		case at < l.total:
			data := l.copy(at, min(l.total, at+nextLimit))
			l.mu.Unlock()
			return data, at, nil
		case l.closed:
			l.mu.Unlock()
			return nil, at, io.EOF
		}
		if l.news == nil {
			l.news = make(chan struct{})
		}
		news := l.news
		l.mu.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
		}
	}
}
