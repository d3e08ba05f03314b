package host

import (
	"errors"
	"io/fs"
	"path"

	"github.com/jailer-project/jailer"
)

// eventsSink says whether the event log is one that a run would write to.
func (h *Host) eventsSink(w Want) Finding {
	f := Finding{ID: "events.sink", Needed: w.EventsNeeded, State: Yes, Where: w.Events, Reason: "events can be recorded there"}
	if w.Events == "" {
		if h.stateDir(w).State != Yes {
			f.State, f.Needed, f.Reason, f.Hint = Unknown, false, "rests on state.dir", "see state.dir"
			return f
		}
		dir, _ := h.statePath(w)
		priv := path.Join(dir, ".priv")
		f.Where = path.Join(priv, "events.ndjson")
		_, err := h.lstat(priv)
		switch wrong := h.mine(priv); {
		case absent(err): // it is made, as the state directory is; the way there may yet be others'
			if errors.Is(h.Events(f.Where), fs.ErrNotExist) {
				f.Reason = "it can be made"
				return f
			}
		case wrong != "":
			f.State, f.Where, f.Reason, f.Hint = No, priv, wrong, "move it away, or name another state directory with --state-dir"
			return f
		}
	}
	err := h.Events(f.Where)
	if err == nil {
		return f
	}
	f.State, f.Reason = No, cause(err)
	if e, ok := errors.AsType[*jailer.Error](err); ok {
		f.Where, f.Reason, f.Hint = e.Path, e.Message, e.Hint
		if e.Err != nil {
			f.Reason += ": " + cause(e.Err)
		}
	}
	return f
}
