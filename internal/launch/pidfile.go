package launch

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
)

func (j *Jail) openPIDFile() (*os.File, error) {
	if j.o.PIDFile == "" {
		return nil, nil
	}
	// Without O_NONBLOCK the open of a FIFO waits for a reader, with every signal
	// caught and no clock running.
	f, err := os.OpenFile(j.o.PIDFile, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, &jailer.Error{Code: jailer.CodeInvalidPath, Op: "pid-file", Err: err}
	}
	return f, nil
}

func writePIDFile(f *os.File, pid int) error {
	if f == nil {
		return nil
	}
	_, err := fmt.Fprintln(f, pid)
	return errors.Join(err, f.Close())
}
