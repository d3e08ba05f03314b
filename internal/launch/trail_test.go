package launch

import (
	"testing"
	"time"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/audit"
)

// Why a session was destroyed, wherever its run ended.
func TestReason(t *testing.T) {
	ran, failed := time.Now(), &jailer.Error{Code: jailer.CodeInternal}
	for name, c := range map[string]struct {
		ended   time.Time
		cause   cause
		abort   *abort
		failure *jailer.Error
		want    audit.Reason
	}{
		"ran":                         {ended: ran, want: audit.Requested},
		"timed out":                   {ended: ran, cause: causeWall, want: audit.Requested},
		"aborted":                     {ended: ran, cause: causeAborted, want: audit.Requested},
		"its owner ended":             {ended: ran, cause: causeOwner, want: audit.OwnerExited},
		"expired":                     {ended: ran, cause: causeTTL, want: audit.TTL},
		"ran, and then jailer failed": {ended: ran, cause: causeTTL, failure: failed, want: audit.Failed},
		"never started":               {want: audit.Failed},
		"its owner ended before":      {abort: &abort{"", audit.OwnerExited}, want: audit.OwnerExited},
		"expired before":              {abort: &abort{"", audit.TTL}, want: audit.TTL},
		"interrupted before":          {abort: &abort{"", audit.Requested}, want: audit.Requested},
	} {
		r := &run{endedAt: c.ended, cause: c.cause, failure: c.failure}
		if c.abort != nil {
			r.aborted.Store(c.abort)
		}
		if got := r.reason(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
