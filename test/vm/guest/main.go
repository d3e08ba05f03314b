// The guest's side of the test bed: a static program that systemd starts as root
// in the booted guest. It runs the plan beside it and writes what comes of it to
// the virtio port that QEMU keeps in a file.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/jailer-project/jailer/test/vm/plan"
)

// bed is where the second disk is unpacked; its tree is the project's.
const bed = "/bed"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bed:", err)
		os.Exit(1)
	}
}

func run() error {
	cmdline, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return err
	}
	if strings.Contains(" "+string(cmdline), " bed=shell") {
		return shell()
	}
	out, err := results()
	if err != nil {
		return err
	}
	defer out.Close()
	b, err := os.ReadFile(bed + "/plan.json")
	if err != nil {
		return err
	}
	var p plan.Plan
	if err := json.Unmarshal(b, &p); err != nil {
		return err
	}
	r := runner{out: out}
	settle()
	r.send(plan.Event{Kind: plan.Boot})
	for _, w := range p.Ways {
		r.way(w)
	}
	r.send(plan.Event{Kind: plan.End})
	return r.err
}

// results opens the port named bed.results. There is no udev, so no link to it.
func results() (io.WriteCloser, error) {
	names, err := filepath.Glob("/sys/class/virtio-ports/*/name")
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		if b, err := os.ReadFile(n); err == nil && strings.TrimSpace(string(b)) == "bed.results" {
			return os.OpenFile("/dev/"+filepath.Base(filepath.Dir(n)), os.O_WRONLY, 0)
		}
	}
	return nil, fmt.Errorf("no virtio port bed.results among %v", names)
}

// runner runs ways and sends events.
type runner struct {
	mu  sync.Mutex
	out io.Writer
	err error // the first failure to send
}

func (r *runner) send(e plan.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.out.Write(e.Line()); err != nil && r.err == nil {
		r.err = err
	}
}

// lines sends what in says: records of test2json as such, the rest as text.
func (r *runner) lines(in io.Reader, way, job string) {
	s := bufio.NewReader(in)
	for {
		line, err := s.ReadString('\n')
		if text := strings.TrimRight(line, "\r\n"); text != "" {
			e := plan.Event{Kind: plan.Output, Way: way, Job: job, Text: text}
			var t plan.TestEvent
			if strings.HasPrefix(text, "{") && json.Unmarshal([]byte(text), &t) == nil && t.Action != "" {
				e = plan.Event{Kind: plan.Test, Way: way, Job: job, Go: &t}
			}
			r.send(e)
		}
		if err != nil {
			return
		}
	}
}
