package wire

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrProtocol is wrapped by what only a peer that is no jailer, or a broken one, does.
var ErrProtocol = errors.New("not jailer's protocol")

// A Conn is one end of a connection. One goroutine may receive while any number send.
type Conn struct {
	f   *os.File
	raw syscall.RawConn

	mu      sync.Mutex    // of the writers: a message is whole
	timeout time.Duration // of one Send; 0 is none
}

// New takes over a connected socket.
func New(fd int) (*Conn, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	f := os.NewFile(uintptr(fd), "session socket")
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &Conn{f: f, raw: raw}, nil
}

// Close ends what is being received and sent.
func (c *Conn) Close() error { return c.f.Close() }

// ReceiveUntil bounds Receive from now on; the zero time is no bound.
func (c *Conn) ReceiveUntil(t time.Time) error { return c.f.SetReadDeadline(t) }

// SendWithin bounds each Send from now on: a peer that doesn't read would hold it up.
// After one that ran into it the stream is torn, and the connection is to be closed.
func (c *Conn) SendWithin(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timeout = d
}

// Peer is who connected, or whom to: as the kernel noted it at the connect or the
// listen (SO_PEERCRED, unix(7)).
func (c *Conn) Peer() (*unix.Ucred, error) {
	var cred *unix.Ucred
	var gerr error
	err := c.raw.Control(func(fd uintptr) { cred, gerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	return cred, errors.Join(err, gerr)
}

// Gone says whether the peer has closed its end, or died, whatever is still to be read
// from it: now, and not when a Receive sees it.
func (c *Conn) Gone() bool {
	gone := true
	err := c.raw.Control(func(fd uintptr) {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(p, 0)
		gone = err == nil && n > 0 && p[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0
	})
	return err != nil || gone
}

// Send writes one message and passes copies of files with it; the caller still closes
// his own.
func (c *Conn) Send(m *Message, files ...*os.File) error {
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	switch {
	case len(body) > MaxMessage:
		return fmt.Errorf("a message of %d bytes, more than the %d allowed", len(body), MaxMessage)
	case len(files) > MaxFiles:
		return fmt.Errorf("%d descriptors, more than the %d allowed", len(files), MaxFiles)
	}
	rights, release, err := rightsOf(files)
	if err != nil {
		return err
	}
	defer release()
	return c.write(frame(body), rights)
}

func frame(body []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body))), body...)
}

// rightsOf keeps the descriptors as they are until release: a File's Fd would put it
// into blocking mode.
func rightsOf(files []*os.File) (rights []byte, release func(), err error) {
	var fds []int
	release = func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}
	for _, f := range files {
		raw, err := f.SyscallConn()
		if err != nil {
			release()
			return nil, nil, err
		}
		var derr error
		err = raw.Control(func(p uintptr) {
			var fd int
			if fd, derr = unix.FcntlInt(p, unix.F_DUPFD_CLOEXEC, 3); derr == nil {
				fds = append(fds, fd)
			}
		})
		if err := errors.Join(err, derr); err != nil {
			release()
			return nil, nil, err
		}
	}
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	return rights, release, nil
}

func (c *Conn) write(b, rights []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var end time.Time
	if c.timeout > 0 {
		end = time.Now().Add(c.timeout)
	}
	if err := c.f.SetWriteDeadline(end); err != nil {
		return err
	}
	for len(b) > 0 {
		var n int
		var werr error
		err := c.raw.Write(func(fd uintptr) bool {
			// MSG_NOSIGNAL: a peer that is gone is an error here and no signal.
			n, werr = unix.SendmsgN(int(fd), b, rights, nil, unix.MSG_NOSIGNAL)
			return !errors.Is(werr, unix.EAGAIN)
		})
		if err == nil && werr != nil && !errors.Is(werr, unix.EINTR) {
			err = os.NewSyscallError("sendmsg", werr)
		}
		if err != nil {
			return err
		}
		if n > 0 {
			b, rights = b[n:], nil
		}
	}
	return nil
}

// Receive reads one message and the descriptors that came with it, which the caller
// closes. io.EOF is the end between two messages. After any error the connection is to
// be closed.
func (c *Conn) Receive() (m *Message, files []*os.File, err error) {
	var head [4]byte
	n, files, err := c.readHead(head[:])
	defer func() {
		if err != nil {
			CloseAll(files)
			m, files = nil, nil
		}
	}()
	if err != nil {
		return nil, files, err
	}
	if err := c.readFull(head[n:]); err != nil {
		return nil, files, err
	}
	size := binary.LittleEndian.Uint32(head[:])
	if size == 0 || size > MaxMessage {
		return nil, files, fmt.Errorf("%w: a message of %d bytes", ErrProtocol, size)
	}
	body, err := c.readBody(int(size))
	if err != nil {
		return nil, files, err
	}
	m, err = decode(body)
	return m, files, err
}

func decode(body []byte) (*Message, error) {
	m := new(Message)
	if err := json.Unmarshal(body, m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	if m.Type == "" {
		return nil, fmt.Errorf("%w: a message without a type", ErrProtocol)
	}
	return m, nil
}

// readHead reads some of b, and the descriptors of the message that begins with it.
func (c *Conn) readHead(b []byte) (n int, files []*os.File, err error) {
	// Room for one more than there may be: what is cut off is closed by the kernel,
	// and the rest must not pass for the whole.
	oob := make([]byte, unix.CmsgSpace(4*(MaxFiles+1)))
	var oobn, flags int
	var rerr error
	err = c.raw.Read(func(fd uintptr) bool {
		n, oobn, flags, _, rerr = unix.Recvmsg(int(fd), b, oob, unix.MSG_CMSG_CLOEXEC)
		return !errors.Is(rerr, unix.EAGAIN) && !errors.Is(rerr, unix.EINTR)
	})
	if err == nil && rerr != nil {
		err = os.NewSyscallError("recvmsg", rerr)
	}
	if err != nil {
		return 0, nil, err
	}
	files, err = passed(oob[:oobn])
	switch {
	case err != nil:
	case len(files) > MaxFiles || flags&unix.MSG_CTRUNC != 0:
		err = fmt.Errorf("%w: more than %d descriptors with one message", ErrProtocol, MaxFiles)
	case n == 0:
		err = io.EOF
	}
	return n, files, err
}

func passed(oob []byte) (files []*os.File, err error) {
	if len(oob) == 0 {
		return nil, nil
	}
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	for i := range msgs {
		fds, err := unix.ParseUnixRights(&msgs[i])
		if err != nil {
			continue // credentials: nobody asked for them, and they hold nothing
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "passed"))
		}
	}
	return files, nil
}

// readBody takes memory as the bytes come: a length alone must not reserve 4 MiB for
// each of many silent peers.
func (c *Conn) readBody(size int) ([]byte, error) {
	const step = 64 << 10
	body := make([]byte, 0, min(size, step))
	for len(body) < size {
		n := min(size-len(body), max(step, len(body)))
		body = append(body, make([]byte, n)...)
		if err := c.readFull(body[len(body)-n:]); err != nil {
			return nil, err
		}
	}
	return body, nil
}

// readFull reads without room for descriptors: those that come with later bytes than
// a message's first are closed by the kernel.
func (c *Conn) readFull(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	_, err := io.ReadFull(c.f, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: a message was cut off", ErrProtocol)
	}
	return err
}

// CloseAll closes files, of which any may be nil.
func CloseAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}
