package jailer

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jailer-project/jailer/internal/wire"
)

// A supervisor that takes nothing, as one that is stopped, holds nobody up for ever:
// what is asked of it may be more than its socket holds.
func TestSupervisorThatReadsNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, err := wire.Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := &Session{ID: "stuck", c: &Client{}, dir: dir}
	done := make(chan error, 1)
	go func() {
		_, err := s.dial(context.Background(), &wire.Message{Type: wire.State, Name: strings.Repeat("x", 3<<20)})
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil {
			t.Error("sent, though nobody reads")
		}
	case <-time.After(stopGrace + 20*time.Second):
		t.Error("it waits for ever")
	}
}
