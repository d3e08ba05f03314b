package launch

import (
	"sync"

	"github.com/jailer-project/jailer/internal/pid1"
)

// reports hands what PID 1 says of each job to the one who waits for it.
type reports struct {
	gone chan struct{} // closed when PID 1 is

	mu   sync.Mutex
	jobs map[uint32]chan pid1.Report
}

func readReports(ctl *pid1.Conn) *reports {
	r := &reports{gone: make(chan struct{}), jobs: map[uint32]chan pid1.Report{}}
	go func() {
		for {
			rep, err := ctl.Next()
			if err != nil {
				break
			}
			r.hand(rep)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, ch := range r.jobs {
			close(ch)
		}
		r.jobs = nil
		close(r.gone)
	}()
	return r
}

// of gives the reports of a job that is about to be started; closed with PID 1.
func (r *reports) of(job uint32) <-chan pid1.Report {
	ch := make(chan pid1.Report, 4) // of a job there are three at most: nobody has to read them
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.jobs == nil {
		close(ch)
	} else {
		r.jobs[job] = ch
	}
	return ch
}

// done forgets a job.
func (r *reports) done(job uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.jobs, job)
}

func (r *reports) hand(rep pid1.Report) {
	r.mu.Lock()
	ch := r.jobs[rep.Job]
	r.mu.Unlock()
	if ch != nil {
		select {
		case ch <- rep:
			return
		default:
		}
	}
	if rep.Master != nil {
		rep.Master.Close()
	}
}

// over says whether PID 1 is gone.
func (r *reports) over() bool {
	select {
	case <-r.gone:
		return true
	default:
		return false
	}
}
