package launch

import (
	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/audit"
)

// A cause is why jailer ended the run. The first one wins; the zero cause
// means that jailer did not.
type cause struct {
	status jailer.Status
	limit  jailer.Limit
	reason audit.Reason // of the session's end; "" for Requested
}

var (
	causeWall   = cause{jailer.StatusTimedOut, jailer.LimitWall, ""}
	causeCPU    = cause{jailer.StatusTimedOut, jailer.LimitCPU, ""}
	causeOutput = cause{jailer.StatusOutputLimitExceeded, jailer.LimitOutput, ""}
	causeTTL    = cause{jailer.StatusExpired, jailer.LimitTTL, audit.TTL}
	// What was killed at the quota was killed: there is no status of its own for it.
	causeWorkspace = cause{jailer.StatusSignaled, jailer.LimitWorkspace, audit.LimitHit}
	causeAborted   = cause{jailer.StatusAborted, "", ""}
	causeOwner     = cause{jailer.StatusAborted, "", audit.OwnerExited}
)
