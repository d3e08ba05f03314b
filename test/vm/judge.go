package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jailer-project/jailer/test/vm/plan"
)

// report gathers a guest's answer and judges it. Only what was asked for and is
// in the answer counts: whatever is missing is a failure.
type report struct {
	plan  plan.Plan
	lists map[string][]string // top-level tests by "way job"
	out   io.Writer

	began  time.Time
	phase  time.Time
	booted bool
	ended  bool
	ways   map[string]*wayReport
	jobs   map[string]*jobReport // by "way job"
}

type wayReport struct {
	ended bool
	err   string
}

type jobReport struct {
	ended   bool
	code    int
	results map[string]string // pass, fail or skip, by test
	output  map[string]string // by test; "" for what is no test's
}

func newReport(p plan.Plan, lists map[string][]string, out io.Writer) *report {
	return &report{
		plan: p, lists: lists, out: out, began: time.Now(), phase: time.Now(),
		ways: map[string]*wayReport{}, jobs: map[string]*jobReport{},
	}
}

// lap is the time since the last phase.
func (r *report) lap() time.Duration {
	d := time.Since(r.phase)
	r.phase = time.Now()
	return d.Round(time.Second)
}

func (r *report) add(e plan.Event) {
	id := e.Way + " " + e.Job
	switch e.Kind {
	case plan.Boot:
		r.booted = true
		fmt.Fprintf(r.out, "vm: booted: %s\n", r.lap())
	case plan.WayBegin:
		r.ways[e.Way] = &wayReport{}
	case plan.WayEnd:
		if w := r.ways[e.Way]; w != nil {
			w.ended, w.err = true, e.Error
		}
	case plan.JobBegin:
		r.lap()
		r.jobs[id] = &jobReport{results: map[string]string{}, output: map[string]string{}}
	case plan.JobEnd:
		if j := r.jobs[id]; j != nil {
			j.ended, j.code = true, e.Code
			pass, fail, skip := j.count()
			fmt.Fprintf(r.out, "vm: %-10s %-24s %4d passed %3d failed %3d skipped  %s\n", e.Way, e.Job, pass, fail, skip, r.lap())
		}
	case plan.Output:
		if j := r.jobs[id]; j != nil {
			j.output[""] += e.Text + "\n"
		}
	case plan.Test:
		if j := r.jobs[id]; j != nil && e.Go != nil {
			j.test(*e.Go)
		}
	case plan.End:
		r.ended = true
	}
}

func (j *jobReport) test(e plan.TestEvent) {
	switch e.Action {
	case "pass", "fail", "skip":
		if e.Test != "" {
			j.results[e.Test] = e.Action
		}
	case "output":
		j.output[e.Test] += e.Output
	}
}

func (j *jobReport) count() (pass, fail, skip int) {
	for _, a := range j.results {
		switch a {
		case "pass":
			pass++
		case "fail":
			fail++
		case "skip":
			skip++
		}
	}
	return pass, fail, skip
}

// judge says what is wrong with the answer, or nil; e is how QEMU ended.
func (r *report) judge(e end) error {
	var bad []string
	if !r.ended {
		bad = append(bad, e.reason()+"\n"+indent(tail(e.console, 15)))
	}
	pass, skip := 0, 0
	for _, w := range r.plan.Ways {
		bad = append(bad, r.judgeWay(w)...)
		for _, j := range w.Jobs {
			if jr := r.jobs[w.Name+" "+j.Name]; jr != nil {
				p, _, s := jr.count()
				pass, skip = pass+p, skip+s
			}
		}
	}
	fmt.Fprintf(r.out, "vm: %d ways, %d passed, %d skipped, whole run %s\n", len(r.plan.Ways), pass, skip, time.Since(r.began).Round(time.Second))
	r.skips()
	if len(bad) == 0 {
		return nil
	}
	return errors.New("FAIL\n" + strings.Join(bad, "\n"))
}

// skips says aloud what no way showed and why.
func (r *report) skips() {
	reasons := map[string]int{}
	for id, j := range r.jobs {
		way, _, _ := strings.Cut(id, " ")
		for name, a := range j.results {
			if m := skipReason.FindString(j.output[name]); a == "skip" && m != "" {
				reasons[way+": "+m]++
			}
		}
	}
	for _, s := range slices.Sorted(maps.Keys(reasons)) {
		fmt.Fprintf(r.out, "vm: %d in %s\n", reasons[s], s)
	}
}

var skipReason = regexp.MustCompile(`SKIPPED \(needs [^\n]*`)

func (r *report) judgeWay(w plan.Way) []string {
	wr := r.ways[w.Name]
	if wr == nil {
		return []string{"way " + w.Name + ": missing from the guest's answer"}
	}
	var bad []string
	for _, j := range w.Jobs {
		for _, s := range r.judgeJob(w, j) {
			bad = append(bad, fmt.Sprintf("way %s: %s: %s", w.Name, j.Name, s))
		}
	}
	switch {
	case wr.err != "":
		bad = append(bad, "way "+w.Name+": "+wr.err)
	case !wr.ended:
		bad = append(bad, "way "+w.Name+": did not come to its end")
	}
	return bad
}

func (r *report) judgeJob(w plan.Way, j plan.Job) []string {
	jr := r.jobs[w.Name+" "+j.Name]
	if jr == nil {
		return []string{"missing from the guest's answer"}
	}
	var bad []string
	for _, name := range slices.Sorted(maps.Keys(jr.results)) {
		switch jr.results[name] {
		case "fail":
			bad = append(bad, "FAIL "+name+"\n"+indent(tail(jr.output[name], 60)))
		case "skip":
			if !allowed(w, jr.output[name]) {
				bad = append(bad, "SKIP "+name+", which this way must show\n"+indent(tail(jr.output[name], 10)))
			}
		}
	}
	for _, name := range slices.Concat(r.lists[w.Name+" "+j.Name], j.Must) {
		if jr.results[name] == "" {
			bad = append(bad, name+" is missing from the guest's answer\n"+indent(tail(jr.output[name], 20)))
		}
	}
	if pass, _, _ := jr.count(); j.Test && pass == 0 {
		bad = append(bad, "no test passed")
	}
	switch {
	case !jr.ended:
		bad = append(bad, "did not come to its end\n"+indent(tail(jr.output[""], 40)))
	case jr.code != 0:
		bad = append(bad, fmt.Sprintf("exit status %d\n%s", jr.code, indent(tail(jr.output[""], 40))))
	}
	return bad
}

// allowed says whether a skip is for something that the way is known to lack.
func allowed(w plan.Way, output string) bool {
	for _, f := range strings.Split(w.Env["JAILER_LACKS"], ",") {
		if f != "" && strings.Contains(output, "SKIPPED (needs "+f+")") {
			return true
		}
	}
	return false
}

func indent(s string) string {
	if s = strings.TrimRight(s, "\n"); s == "" {
		return ""
	}
	return "    | " + strings.ReplaceAll(s, "\n", "\n    | ")
}
