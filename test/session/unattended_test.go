package session

import (
	"testing"
	"time"

	"github.com/jailer-project/jailer/test/jail"
)

// 24: the ends of a session are its own: they come when the client of its command was
// killed, and when all that runs in it is busy and has no client at all.
func TestEndsUnattended(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		busy := []string{"--", "sh", "-c", "while :; do :; done"}
		t.Run("ttl", func(t *testing.T) {
			began := time.Now()
			create(t, c, "busy", "--ttl", ttl.String(), "--timeout", "4m")
			start(t, c, "busy", busy...)
			cmd := background(t, c, append([]string{"exec", "busy"}, busy...)...)
			connected(t, cmd)
			cmd.Process.Kill()
			gone(t, c, "busy", began, ttl)
			destroyed(t, c, "busy", "ttl")
		})
		t.Run("idle", func(t *testing.T) {
			create(t, c, "alone", "--idle", idle.String())
			cmd := background(t, c, append([]string{"exec", "alone"}, busy...)...)
			running(t, c, "alone", 1)
			began := time.Now()
			cmd.Process.Kill() // and with it goes the lease
			gone(t, c, "alone", began, idle)
			destroyed(t, c, "alone", "idle")
		})
		for _, id := range []string{"busy", "alone"} {
			c.NothingLeft(t, id)
		}
	})
}
