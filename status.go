package jailer

// Status says how a run ended. The first cause on which jailer acted wins;
// without one, a kill by the kernel for memory; without that, the wait status.
type Status string

// The statuses.
const (
	StatusExited              Status = "exited"                // with ExitCode
	StatusSignaled            Status = "signaled"              // by Signal
	StatusTimedOut            Status = "timed_out"             // Limit is wall or cpu
	StatusOOMKilled           Status = "oom_killed"            // any process of the job, whatever the exit code
	StatusOutputLimitExceeded Status = "output_limit_exceeded" // only with OnOutputLimit kill
	StatusAborted             Status = "aborted"               // the caller asked, or is gone
	StatusExpired             Status = "expired"               // Limit is ttl or idle
)

// Limit names the limit that ended a run.
type Limit string

// The limits that can end a run.
const (
	LimitWall      Limit = "wall"
	LimitCPU       Limit = "cpu"
	LimitMemory    Limit = "memory"
	LimitOutput    Limit = "output"
	LimitWorkspace Limit = "workspace"
	LimitTTL       Limit = "ttl"
	LimitIdle      Limit = "idle"
)
