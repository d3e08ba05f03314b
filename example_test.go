package jailer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/jailer-project/jailer"
)

// A worker runs a command that it does not trust, and looks at the status
// before it looks at anything that the command printed.
func ExampleClient_Run() {
	c := jailer.Client{Path: "/usr/local/bin/jailer"}
	res, err := c.Run(context.Background(), jailer.Request{
		Argv:   []string{"python3", "-c", "print(6*7)"},
		Labels: map[string]string{"job": "42"},
		Limits: jailer.RequestLimits{TimeoutMs: 5000, MemoryBytes: 256 << 20},
	}, jailer.IO{})
	if e, ok := errors.AsType[*jailer.Error](err); ok && res == nil {
		fmt.Fprintln(os.Stderr, "not run:", e.Code, e, e.Hint)
		return
	}
	switch res.Status {
	case jailer.StatusExited:
		out, _ := res.StdoutData()
		fmt.Printf("exit %d: %s", *res.ExitCode, out)
	case jailer.StatusOOMKilled, jailer.StatusTimedOut:
		fmt.Println("too hungry:", *res.Limit)
	default:
		fmt.Println("ended:", res.Status)
	}
}

func ExampleParseRequest() {
	_, err := jailer.ParseRequest([]byte(`{"argv":["id"],"limits":{"memoryBytes":-1}}`))
	fmt.Println(err)
	_, err = jailer.ParseRequest([]byte(`{"argv":["id"],"cwd":"/proc/self/fd/7"}`))
	fmt.Println(err)
	// Output:
	// limits.memoryBytes: -1 given, must be positive
	// cwd: "/proc/self/fd/7" is below /proc
}

func ExampleError_Document() {
	err := &jailer.Error{
		Code: jailer.CodePolicyDenied, Op: "policy.resolve", Path: "limits.memory",
		Message: "32G asked, the ceiling is 16G",
	}
	doc, _ := err.Document()
	fmt.Println(string(doc))
	// Output:
	// {"v":1,"error":{"code":"policy_denied","message":"limits.memory: 32G asked, the ceiling is 16G","op":"policy.resolve","retryable":false}}
}

func ExampleResult() {
	var res jailer.Result
	_ = json.Unmarshal([]byte(`{"v":1,"status":"exited","exitCode":3,"addedLater":true,"usage":{"cpuUserMs":610}}`), &res)
	fmt.Println(res.Status, *res.ExitCode, *res.Usage.CPUUserMs)
	fmt.Println("memory was measured:", res.Usage.MemoryPeakBytes != nil)
	// Output:
	// exited 3 610
	// memory was measured: false
}
