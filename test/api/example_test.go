package api

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/test/jail"
)

// A session holds several commands, and what they leave to each other.
func ExampleSession() {
	ctx := context.Background()
	c := &jailer.Client{Path: jail.Program()} // "/usr/local/bin/jailer"
	s, err := c.Create(ctx, jailer.Request{
		Files:  []jailer.RequestFile{{Path: "main.py", Content: "print(6*7)\n"}},
		Limits: jailer.RequestLimits{MemoryBytes: 256 << 20},
	}, jailer.SessionOptions{TTL: 10 * time.Minute, OwnerPID: os.Getpid()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()

	if err := s.Command(ctx, "sh", "-c", "wc -l < main.py > lines").Run(); err != nil {
		fmt.Println(err)
	}
	out, err := s.Command(ctx, "cat", "lines").Output()
	fmt.Printf("%s%v\n", out, err)

	res, err := s.Exec(ctx, jailer.Request{Argv: []string{"sh", "-c", "echo no >&2; exit 3"}}, jailer.IO{})
	if err == nil {
		fmt.Println(res.Status, *res.ExitCode, *res.Stderr)
	}
	// Output:
	// 1
	// <nil>
	// exited 3 no
}

// A command has the shape of os/exec's, and a deadline of its own.
func ExampleSession_Command() {
	ctx := context.Background()
	s, err := (&jailer.Client{Path: jail.Program()}).Create(ctx, jailer.Request{}, jailer.SessionOptions{OwnerPID: os.Getpid()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	cmd := s.Command(ctx, "sleep", "1000")
	cmd.Limits.TimeoutMs = 200
	err = cmd.Run()
	if e, ok := errors.AsType[*jailer.ExitError](err); ok {
		fmt.Println(e, e.Status == jailer.StatusTimedOut)
	}
	// Output:
	// timed_out (wall) true
}

// A managed process goes on when its caller is gone; its log is kept.
func ExampleSession_Start() {
	ctx := context.Background()
	s, err := (&jailer.Client{Path: jail.Program()}).Create(ctx, jailer.Request{}, jailer.SessionOptions{OwnerPID: os.Getpid()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	_, err = s.Start(ctx, "clock", jailer.Request{Argv: []string{"sh", "-c", "trap 'echo stopped; exit 0' TERM; echo tick; while :; do sleep 0.05; done"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for log := ""; log == ""; time.Sleep(50 * time.Millisecond) { // until it has begun
		var b strings.Builder
		if _, err := s.Logs(ctx, "clock", jailer.LogOptions{}, &b); err != nil {
			fmt.Println(err)
			return
		}
		log = b.String()
	}
	p, err := s.Stop(ctx, "clock", 5*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Status, *p.ExitCode)
	_, _ = s.Logs(ctx, "clock", jailer.LogOptions{}, os.Stdout)
	// Output:
	// exited 0
	// tick
	// stopped
}
