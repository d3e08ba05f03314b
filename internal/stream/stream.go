// Package stream takes a job's output from a pipe: counted exactly, kept up to a
// cap, and drained to the end whatever the job prints, in constant memory. It
// also cuts text between characters, frames it as JSON lines, and feeds stdin.
//
// A job is hostile: it may print without a line end, without a stop, in broken
// UTF-8, or leave the pipe open in a process that outlives it. So nothing here
// reads lines, keeps more than the cap, or waits without a way out.
package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Keep says which part of an output that is larger than the cap is kept. The
// empty value is KeepHead.
type Keep string

// The parts that can be kept.
const (
	KeepHead Keep = "head"
	KeepTail Keep = "tail"
	KeepBoth Keep = "both" // half of the cap for the head, half for the tail
)

// OnLimit says what happens once the cap is passed. The empty value is Truncate.
type OnLimit string

// What can happen once the cap is passed; the pipe is drained in either case, so
// that the job never blocks on a full pipe.
const (
	Truncate OnLimit = "truncate"
	Kill     OnLimit = "kill"
)

// chunk is the most that is read at once: the default size of a pipe.
const chunk = 64 << 10

// stuck is how long Wait lets the copying goroutine finish after its ctx ended
// and the pipe was closed; only an Out that blocks needs longer.
const stuck = 200 * time.Millisecond

// Options says what becomes of one stream. The zero value keeps nothing.
type Options struct {
	Cap      int64     // most bytes kept or passed on
	Keep     Keep      // which ones
	OnLimit  OnLimit   // and what then
	Out      io.Writer // where they go; nil = memory, see Capture.Bytes
	OnExceed func()    // with Kill: called once, in its own goroutine, when more than Cap bytes were seen
}

// Capture is one stream being read. Its counts may be read at any time.
type Capture struct {
	r    *os.File
	o    Options
	done chan struct{} // closed when the goroutine has ended

	total     atomic.Int64
	delivered atomic.Int64
	exceeded  sync.Once

	// Of the copying goroutine alone, until done is closed.
	head   *head
	tail   *ring
	broken bool
	outErr error

	// mu guards what Bytes reads, so that it is safe after a Wait that gave up.
	mu  sync.Mutex
	mem []byte
}

// Start reads r to its end in one goroutine. It owns r from here on. Out, if
// there is one, is written from that goroutine only; an Out with a Flush method
// is flushed at the end.
//
// An Out that answers EPIPE closes r, so that the job gets SIGPIPE itself as in
// a plain pipeline (jailer run -- yes | head -1); that is not an error. Any other
// error of Out is kept for Wait while the reading goes on.
func Start(r *os.File, o Options) *Capture {
	c := &Capture{r: pollable(r), o: o, done: make(chan struct{})}
	c.prepare()
	go c.run()
	return c
}

func (c *Capture) prepare() {
	c.o.Cap = max(c.o.Cap, 0)
	switch o := c.o; o.Keep {
	case KeepTail:
		c.tail = &ring{cap: o.Cap}
	case KeepBoth:
		c.tail = &ring{}
		c.head = &head{cap: o.Cap - o.Cap/2, emit: c.emit}
		c.head.over = func(b []byte) {
			// Known at the first byte past the head: the head may have left out a
			// character, so that what fits into the cap is always kept whole.
			c.tail.cap = o.Cap - c.head.sent
			c.tail.write(b)
		}
	default:
		c.head = &head{cap: o.Cap, emit: c.emit}
	}
}

// Wait waits for the end of the stream and everything written to Out. When ctx
// ends first (a process that escaped the kill still holds the pipe, or Out does
// not take the bytes), the pipe is closed and ctx's error returned; a goroutine
// still blocked in Out.Write is left behind.
func (c *Capture) Wait(ctx context.Context) error {
	select {
	case <-c.done:
		return c.outErr
	default:
	}
	select {
	case <-c.done:
		return c.outErr
	case <-ctx.Done():
	}
	c.r.Close()
	select {
	case <-c.done:
		if c.outErr != nil {
			return c.outErr
		}
		return fmt.Errorf("output still open: %w", context.Cause(ctx))
	case <-time.After(stuck):
		return fmt.Errorf("output is not taken: %w", context.Cause(ctx))
	}
}

// Bytes returns what was kept in memory (Out nil), cut between characters where
// the output is text. Call it after Wait; nil when Out is set.
func (c *Capture) Bytes() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mem
}

// Total returns how many bytes the job wrote, kept or not.
func (c *Capture) Total() int64 { return c.total.Load() }

// Delivered returns how many bytes were kept or written to Out.
func (c *Capture) Delivered() int64 { return c.delivered.Load() }

// Truncated reports whether the job wrote more than the cap.
func (c *Capture) Truncated() bool { return c.total.Load() > c.o.Cap }

// Done is closed at the end of the stream.
func (c *Capture) Done() <-chan struct{} { return c.done }

func (c *Capture) run() {
	defer close(c.done)
	defer c.r.Close()
	buf := make([]byte, chunk)
	for !c.broken {
		if c.idle() {
			c.drain(buf)
			break
		}
		n, err := c.r.Read(buf)
		c.take(buf[:n])
		if err != nil {
			break // EOF, EIO of a terminal whose last process left, or closed by Wait
		}
	}
	c.finish()
}

// idle reports that no byte to come can be kept any more: all that is left is to
// count them.
func (c *Capture) idle() bool {
	return c.outErr != nil || (c.tail == nil && c.head.full)
}

func (c *Capture) take(b []byte) {
	c.count(int64(len(b)))
	if c.head != nil {
		c.head.write(b)
		return
	}
	c.tail.write(b)
}

func (c *Capture) count(n int64) {
	if c.total.Add(n) > c.o.Cap && c.o.OnLimit == Kill && c.o.OnExceed != nil {
		c.exceeded.Do(func() { go c.o.OnExceed() })
	}
}

// finish passes on what had to wait for the end.
func (c *Capture) finish() {
	if c.broken {
		return
	}
	if c.head != nil {
		c.head.finish()
	}
	if c.tail != nil {
		c.deliver(c.tail.bytes(), true)
	}
	if f, ok := c.o.Out.(interface{ Flush() error }); ok && c.outErr == nil {
		c.failed(f.Flush())
	}
}

// emit keeps a copy of b or writes it to Out.
func (c *Capture) emit(b []byte) { c.deliver(b, false) }

// deliver is emit; with last, b is the Capture's to keep.
func (c *Capture) deliver(b []byte, last bool) {
	if len(b) == 0 || c.outErr != nil || c.broken {
		return
	}
	if c.o.Out == nil {
		c.mu.Lock()
		if last && c.mem == nil {
			c.mem = b
		} else {
			c.mem = append(c.mem, b...)
		}
		c.mu.Unlock()
		c.delivered.Add(int64(len(b)))
		return
	}
	n, err := c.o.Out.Write(b)
	c.delivered.Add(int64(max(n, 0)))
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	c.failed(err)
}

func (c *Capture) failed(err error) {
	switch {
	case err == nil:
	case errors.Is(err, syscall.EPIPE):
		c.broken = true
	default:
		c.outErr = err
	}
}

// pollable returns r as a descriptor that Close can interrupt. A file whose Fd
// method was called, or that came from another process, is in blocking mode: a
// Close would then wait for the reader that it was meant to end. O_NONBLOCK
// belongs to the open file description: the job holds the other end of the pipe,
// which is another one, and does not see it.
func pollable(f *os.File) *os.File {
	raw, err := f.SyscallConn()
	if err != nil {
		return f
	}
	fd := -1
	if err := raw.Control(func(p uintptr) {
		fd, _ = unix.FcntlInt(p, unix.F_DUPFD_CLOEXEC, 3)
	}); err != nil || fd < 0 {
		return f
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return f
	}
	f.Close()
	return os.NewFile(uintptr(fd), f.Name())
}
