package cgroup

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Event says what happened to a job since the event before.
type Event struct {
	OOM     bool // the kernel has killed a process because the memory limit is hit
	PidsMax bool // a fork was refused by the pids limit; not on v1 since Linux 6.12, which tells nobody of it there
	Empty   bool // its last process ended (v2, or a v2 hierarchy beside v1)
}

// source is one file whose changes the kernel announces to poll(2).
type source struct {
	f      *os.File
	events int16
	fresh  func() (Event, error) // reads it, which also arms the next poll
}

// Watch reports events of the job until ctx ends, then closes the channel. It may
// end before, when the cgroup is gone, but v2 wakes nobody for that. Call it before
// the job starts, so that nothing is missed. Events are merged by the kernel: a
// hundred refused forks may be one event. An event is a hint to act on; what counts
// in the end is Usage.
func (o *Job) Watch(ctx context.Context) (<-chan Event, error) {
	var ss []source
	closeAll := func() {
		for _, s := range ss {
			s.f.Close()
		}
	}
	counter := func(file string, count func(map[string]int64) int64, ev Event) error {
		f, err := os.Open(file)
		if err != nil {
			return fail("open", file, "", err)
		}
		last := int64(0)
		s := source{f: f, events: unix.POLLPRI, fresh: func() (Event, error) {
			kv, err := rereadKV(f)
			if err != nil {
				return Event{}, err
			}
			n := count(kv)
			rose := n > last
			last = n
			if rose {
				return ev, nil
			}
			return Event{}, nil
		}}
		ss = append(ss, s)
		return nil
	}
	open := func() error {
		if dir, ok := o.dir("memory"); ok {
			var err error
			if o.jail.base.kind == V2 {
				err = counter(filepath.Join(dir, "memory.events"), oomKills, Event{OOM: true})
			} else {
				var s source
				if s, err = o.oomV1(dir); err == nil {
					ss = append(ss, s)
				}
			}
			if err != nil {
				return err
			}
		}
		if dir, ok := o.dir("pids"); ok {
			if err := counter(filepath.Join(dir, "pids.events"), func(kv map[string]int64) int64 { return kv["max"] }, Event{PidsMax: true}); err != nil {
				return err
			}
		}
		if dir, ok := o.v2dir(); ok {
			// "Rises" when the cgroup empties; a job not yet started is no news.
			started, ended := false, int64(0)
			count := func(kv map[string]int64) int64 {
				if kv["populated"] == 1 {
					started = true
				} else if started {
					started = false
					ended++
				}
				return ended
			}
			return counter(filepath.Join(dir, "cgroup.events"), count, Event{Empty: true})
		}
		return nil
	}
	if err := open(); err != nil {
		closeAll()
		return nil, err
	}
	var first Event
	for _, s := range ss {
		if s.events != unix.POLLPRI {
			continue
		}
		ev, err := s.fresh()
		if err != nil {
			closeAll()
			return nil, fail("read", s.f.Name(), "", err)
		}
		first = first.merge(ev)
	}
	w, err := newWaker(ctx)
	if err != nil {
		closeAll()
		return nil, err
	}
	ch := make(chan Event, 8)
	go func() {
		defer close(ch)
		defer closeAll()
		defer w.close()
		watch(w, ss, first, ch)
	}()
	return ch, nil
}

func watch(w *waker, ss []source, ev Event, ch chan<- Event) {
	fds := make([]unix.PollFd, len(ss))
	for i, s := range ss {
		fds[i] = unix.PollFd{Fd: int32(s.f.Fd()), Events: s.events}
	}
	for {
		if ev != (Event{}) {
			select {
			case ch <- ev:
			case <-w.ctx.Done():
				return
			}
		}
		got, err := w.poll(fds)
		if err != nil {
			return
		}
		ev = Event{}
		for i, p := range got {
			if p.Revents == 0 {
				continue
			}
			e, err := ss[i].fresh()
			if err != nil {
				return // ENODEV: the cgroup was removed
			}
			ev = ev.merge(e)
		}
	}
}

func (e Event) merge(f Event) Event {
	return Event{OOM: e.OOM || f.OOM, PidsMax: e.PidsMax || f.PidsMax, Empty: e.Empty || f.Empty}
}

// oomV1 asks for an eventfd that counts the out-of-memory situations of a v1
// cgroup (Documentation/admin-guide/cgroup-v1/memory.rst, "OOM Control"). The
// kernel signals it before it chooses a victim, and also when the cgroup goes.
func (o *Job) oomV1(dir string) (source, error) {
	c, err := o.load1()
	if err != nil {
		return source{}, fail("load", dir, "", err)
	}
	fd, err := c.OOMEventFD()
	if err != nil {
		return source{}, fail("register", filepath.Join(dir, "memory.oom_control"), "", err)
	}
	f := os.NewFile(fd, "oom eventfd")
	last := int64(0)
	return source{f: f, events: unix.POLLIN, fresh: func() (Event, error) {
		var b [8]byte
		if _, err := f.Read(b[:]); err != nil {
			return Event{}, err
		}
		n, err := awaitKillV1(dir, last)
		ev := Event{OOM: n > last}
		last = n
		return ev, err
	}}, nil
}

// victimWait bounds how long the kernel may take from its signal to its victim,
// many times what it needs.
const victimWait = time.Second

// awaitKillV1 waits until the kernel has killed, and counted, more than last
// processes of dir for memory. Whoever kills the job at the signal already, is
// faster than the kernel every second time, and then nothing tells that memory
// was the reason.
func awaitKillV1(dir string, last int64) (int64, error) {
	file := filepath.Join(dir, "memory.oom_control")
	for end := time.Now().Add(victimWait); ; time.Sleep(time.Millisecond) {
		kv, err := readKV(file)
		if err != nil {
			return last, fail("read", file, "", err)
		}
		if n := kv["oom_kill"]; n > last || time.Now().After(end) {
			return n, nil
		}
	}
}
