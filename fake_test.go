package jailer

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jailer-project/jailer/test/need"
)

// TestMain makes the test binary a stand-in for the program: the Client starts
// it as "BINARY run …". The environment is the Client's and can carry no mark.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "run" {
		os.Exit(fakeProgram(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// fakeProgram does what the first word of the request's argv says.
func fakeProgram(args []string) int {
	flagged := func(name string) string {
		if i := slices.Index(args, name); i >= 0 && i+1 < len(args) {
			return args[i+1]
		}
		return ""
	}
	if flagged("--request") != "/dev/fd/3" || flagged("--result-fd") != "4" {
		fmt.Fprintln(os.Stderr, "jailer: error: wrong arguments", args)
		return 125
	}
	result := os.NewFile(4, "result")
	data, err := os.ReadFile("/dev/fd/3")
	if err != nil {
		fmt.Fprintln(os.Stderr, "jailer: error:", err)
		return 125
	}
	r, err := ParseRequest(data)
	if err != nil {
		doc, _ := err.(*Error).Document()
		_, _ = result.Write(doc)
		return 125
	}
	answer := func(res Result) {
		doc, err := json.Marshal(res)
		if err != nil {
			panic(err)
		}
		_, _ = result.Write(doc)
	}
	exited := Result{Status: StatusExited, ExitCode: new(0)}

	switch r.Argv[0] {
	case "echo":
		fmt.Print(strings.Join(r.Argv[1:], " "))
		if slices.Contains(args, "--json") {
			exited.Stdout, exited.StdoutEncoding = new(strings.Join(r.Argv[1:], " ")), EncodingUTF8
		}
		answer(exited)
	case "cat":
		if flagged("--stdin") == "-" {
			_, _ = io.Copy(os.Stdout, os.Stdin)
		}
		answer(exited)
	case "show": // what the program was given
		wd, _ := os.Getwd()
		var open []string
		fds, _ := os.ReadDir("/proc/self/fd")
		for _, fd := range fds {
			to, _ := os.Readlink("/proc/self/fd/" + fd.Name())
			open = append(open, to)
		}
		exited.Labels = map[string]string{
			"args": strings.Join(args, " "), "env": strings.Join(os.Environ(), "\n"), "cwd": wd,
			"open": strings.Join(open, "\n"),
		}
		answer(exited)
	case "denied":
		doc, _ := (&Error{Code: CodePolicyDenied, Message: "no", Hint: "ask"}).Document()
		_, _ = result.Write(doc)
		return 126
	case "cleanup":
		exited.Error = &Error{Code: CodeInternal, Message: "the cgroup stays"}
		answer(exited)
		return 125
	case "version":
		_, _ = result.Write([]byte(`{"v":2,"status":"exited","exitCode":0}`))
	case "silent":
		fmt.Fprintln(os.Stderr, "jailer: error: something")
		return 125
	case "big":
		exited.Stdout = new(strings.Repeat("x", 2<<20))
		answer(exited)
	case "term": // ends in order at SIGTERM
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTERM)
		fmt.Print("ready\n")
		<-c
		answer(Result{Status: StatusAborted, Signal: new("SIGKILL")})
		return 143
	case "int": // only the second SIGINT
		c := make(chan os.Signal, 8)
		signal.Ignore(syscall.SIGTERM)
		signal.Notify(c, syscall.SIGINT)
		fmt.Print("ready\n")
		<-c
		<-c
		answer(Result{Status: StatusAborted, Signal: new("SIGKILL")})
		return 130
	case "stuck":
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
		fmt.Print("ready\n")
		time.Sleep(need.Time(time.Minute))
	}
	return 0
}
