//go:build seccomp

package pid1

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/test/need"
)

// frame is one of a seed.
func frame(typ, mode uint32, path, data string) []byte {
	var b []byte
	for _, v := range []uint32{typ, mode, uint32(len(path) + 1), 0} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	b = binary.LittleEndian.AppendUint64(b, uint64(len(data)))
	return append(append(b, path...), "\x00"+data...)
}

func dir(mode uint32, path string) []byte        { return frame(SeedDir, mode, path, "") }
func file(mode uint32, path, data string) []byte { return frame(SeedFile, mode, path, data) }

var end = binary.LittleEndian.AppendUint32(nil, SeedEnd)

func frames(f ...[]byte) []byte {
	return append(bytes.Join(f, nil), append(bytes.Clone(end), make([]byte, SeedHeader-4)...)...)
}

// seedPayload is a seed under the rules of a job.
func seedPayload() Payload {
	p := job()
	p.Flags |= Seed
	p.Cwd, p.Env = "", nil
	return p
}

// seed feeds a stream to a seed and gives its only report.
func (j *jail) seed(t testing.TB, n uint32, p Payload, stream []byte) Report {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	j.SetReadDeadline(time.Now().Add(need.Time(30 * time.Second)))
	err = j.Exec(n, &p, Files{Stdin: r, Stdout: j.stdout, Stderr: j.stdout})
	r.Close()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		w.Write(stream) // EPIPE: it has failed
		w.Close()
	}()
	rep, err := j.Next()
	if err != nil || rep.Job != n || rep.Type != Exited && rep.Type != Failed || rep.Type == Exited && rep.WaitStatus != 0 {
		t.Fatalf("%+v, %v", rep, err)
	}
	return rep
}

// seeds wants a seed to succeed.
func (j *jail) seeds(t testing.TB, n uint32, f ...[]byte) {
	t.Helper()
	if r := j.seed(t, n, seedPayload(), frames(f...)); r.Type != Exited {
		t.Fatalf("%v, detail %d", r.Err(), r.Detail)
	}
}

// says runs a script in the jail and gives its output.
func (j *jail) says(t testing.TB, n uint32, script string) string {
	t.Helper()
	r := j.stream(t, n, sh(script))
	j.want(t, n, Started)
	j.want(t, n, Exited)
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestJobSeed(t *testing.T) {
	j := ready(t, options{size: "1m"})
	big := strings.Repeat("0123456789abcdef", 20000) // many reads of the buffer
	j.seeds(t, 1,
		dir(0o755, "/mnt"), // there already
		dir(0o750, "/mnt/a"), dir(0o777, "/mnt/a/b"), dir(0o700, "/mnt/a/b/..c"),
		file(0o640, "/mnt/a/f", "text\n"), file(0o755, "/mnt/a/b/x", "#!/bin/sh\necho ran\n"),
		file(0o666, "/mnt/empty", ""), file(0o400, "/mnt/a/b/..c/.d", "hidden"), file(0o600, "/mnt/big", big),
		dir(0o700, "/mnt/a"), // its mode stays
	)
	const want = `d 750 1000:1000 /mnt/a
d 777 1000:1000 /mnt/a/b
d 700 1000:1000 /mnt/a/b/..c
- 400 1000:1000 /mnt/a/b/..c/.d
- 755 1000:1000 /mnt/a/b/x
- 640 1000:1000 /mnt/a/f
- 600 1000:1000 /mnt/big
- 666 1000:1000 /mnt/empty
`
	got := j.says(t, 2, `find /mnt -mindepth 1 -printf '%y %m %U:%G %p\n' | sed 's/^f/-/' | sort -k4`)
	if got != want {
		t.Errorf("%s", got)
	}
	if got := j.says(t, 3, `cat /mnt/a/f /mnt/a/b/..c/.d /mnt/empty; /mnt/a/b/x; wc -c </mnt/big; tail -c 16 /mnt/big`); got != "text\nhiddenran\n320000\n0123456789abcdef" {
		t.Errorf("%q", got)
	}
	j.seeds(t, 4) // nothing at all
}

// What is in the way is never written through, nor over.
func TestJobSeedInTheWay(t *testing.T) {
	j := ready(t, options{size: "1m"})
	j.says(t, 1, `cd /mnt; mkdir real; echo old >file; ln -s real link; ln -s /mnt/file to-file; ln -s nowhere dangling
ln -s /proc/self/root magic; mkfifo fifo; mkdir closed; chmod 0 closed`)
	for i, c := range []struct {
		name  string
		frame []byte
		errno syscall.Errno
	}{
		{"file there", file(0o644, "/mnt/file", "new"), syscall.EEXIST},
		{"link to a file", file(0o644, "/mnt/to-file", "new"), syscall.EEXIST},
		{"dangling link", file(0o644, "/mnt/dangling", "new"), syscall.EEXIST},
		{"pipe", file(0o644, "/mnt/fifo", "new"), syscall.EEXIST},
		{"directory as a file", file(0o644, "/mnt/real", "new"), syscall.EEXIST},
		{"file below a link", file(0o644, "/mnt/link/f", "new"), syscall.ELOOP},
		{"directory below a link", dir(0o755, "/mnt/link/d"), syscall.ELOOP},
		{"link as a directory", dir(0o755, "/mnt/link"), syscall.ELOOP},
		{"dangling link as a directory", dir(0o755, "/mnt/dangling"), syscall.ELOOP},
		{"file as a directory", dir(0o755, "/mnt/file"), syscall.ENOTDIR},
		{"file as a parent", file(0o644, "/mnt/file/f", "new"), syscall.ENOTDIR},
		{"directory below a file", dir(0o755, "/mnt/file/d"), syscall.ENOTDIR},
		{"magic link", file(0o644, "/proc/self/root/mnt/f", "new"), syscall.ELOOP},
		{"link to a magic link", dir(0o755, "/mnt/magic/mnt/d"), syscall.ELOOP},
		{"no parent", file(0o644, "/mnt/no/f", "new"), syscall.ENOENT},
		{"directory without parent", dir(0o755, "/mnt/no/d"), syscall.ENOENT},
		{"not permitted", file(0o644, "/mnt/closed/f", "new"), syscall.EACCES},
		{"not the job's", file(0o644, "/proc/f", "new"), 0},
		{"directory not the job's", dir(0o755, "/usr/d"), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := j.seed(t, 2, seedPayload(), frames(dir(0o755, "/mnt"), file(0o644, fmt.Sprintf("/mnt/%d", i), ""), c.frame))
			if r.Stage != StageSeed || r.Detail != 2 || c.errno != 0 && r.Errno != c.errno {
				t.Errorf("%v, frame %d; want %v", r.Err(), r.Detail, c.errno)
			}
		})
	}
	if got := j.says(t, 3, "cd /mnt; cat file; ls real nowhere 2>/dev/null; ls -d /mnt/f 2>/dev/null; true"); got != "old\nreal:\n" {
		t.Errorf("%q", got)
	}
}

func TestJobSeedMalformed(t *testing.T) {
	j := ready(t, options{size: "1m"})
	long := "/mnt" + strings.Repeat("/x", 2046) // 4096 bytes, and the NUL
	with := func(off int, v byte) []byte {
		f := file(0o644, "/mnt/f", "data")
		f[off] = v
		return f
	}
	for name, f := range map[string][]byte{
		"type 0":          with(0, 0),
		"type 4":          with(0, 4),
		"mode":            with(5, 0x0a), // 05000 more
		"zero":            with(12, 1),
		"no path":         frame(SeedFile, 0o644, "", ""),
		"root":            dir(0o755, "/"),
		"relative":        file(0o644, "mnt/f", ""),
		"..":              file(0o644, "/mnt/../f", ""),
		".. at the end":   dir(0o755, "/mnt/.."),
		"..  at once":     dir(0o755, "/.."),
		".":               file(0o644, "/mnt/./f", ""),
		". at the end":    dir(0o755, "/mnt/."),
		"empty name":      file(0o644, "/mnt//f", ""),
		"slash behind":    dir(0o755, "/mnt/d/"),
		"NUL in the path": file(0o644, "/mnt\x00/f", ""),
		"long path":       file(0o644, long, ""),
		"path of 4 GiB":   with(11, 0xff),
		"dir of a size":   frame(SeedDir, 0o755, "/mnt/d", "data"),
		"end with a mode": append(append(bytes.Clone(end), 1), make([]byte, SeedHeader-5)...),
		"end with a size": append(append(bytes.Clone(end), make([]byte, SeedHeader-5)...), 1),
		"after the end":   frames(frames()),
	} {
		t.Run(name, func(t *testing.T) {
			stream := append(dir(0o755, "/mnt"), f...)
			if r := j.seed(t, 1, seedPayload(), stream); r.Stage != StageSeed || r.Errno != syscall.EBADMSG || r.Detail != 1 {
				t.Errorf("%v, frame %d", r.Err(), r.Detail)
			}
		})
	}
	if got := j.says(t, 2, "ls -A /mnt"); got != "" {
		t.Errorf("%q", got)
	}
	// A path as long as can be is only too long for what is there.
	if r := j.seed(t, 1, seedPayload(), frames(file(0o644, long[:4094]+"x", ""))); r.Errno != syscall.ENOENT {
		t.Errorf("%v", r.Err())
	}
}

// A stream that ends early is a failure wherever it ends.
func TestJobSeedCutShort(t *testing.T) {
	j := ready(t, options{size: "1m"})
	whole := frames(dir(0o755, "/mnt"), file(0o644, "/mnt/f", "some data"))
	for n := range len(whole) {
		if r := j.seed(t, 1, seedPayload(), whole[:n]); r.Stage != StageSeed || r.Errno != syscall.EPROTO && r.Errno != syscall.EEXIST {
			t.Errorf("cut at %d: %v", n, r.Err())
		}
		j.says(t, 2, "rm -f /mnt/f")
	}
	if r := j.seed(t, 1, seedPayload(), whole); r.Type != Exited {
		t.Errorf("%v", r.Err())
	}
}

// Every byte of a stream damaged in turn: it fails, or it makes something else, and
// PID 1 goes on.
func TestJobSeedDamaged(t *testing.T) {
	j := ready(t, options{size: "1m"})
	whole := frames(dir(0o755, "/mnt/d"), file(0o644, "/mnt/d/f", "some data"), file(0o644, "/mnt/g", ""))
	for i := range whole {
		for _, v := range []byte{whole[i] ^ 1, whole[i] ^ 0x80, 0xff} {
			b := bytes.Clone(whole)
			b[i] = v
			if r := j.seed(t, 1, seedPayload(), b); r.Type == Failed && r.Stage != StageSeed {
				t.Errorf("byte %d as %#x: %v", i, v, r.Err())
			}
			j.seeds(t, 1)
		}
		j.says(t, 2, "chmod -R u+rwx /mnt; rm -rf /mnt/*")
	}
}

// No space, and no inode, and over the size of a file.
func TestJobSeedFull(t *testing.T) {
	j := ready(t, options{size: "64k,nr_inodes=20"})
	r := j.seed(t, 1, seedPayload(), frames(dir(0o755, "/mnt/d"), file(0o644, "/mnt/d/f", strings.Repeat("x", 100000))))
	if r.Stage != StageSeed || r.Errno != syscall.ENOSPC || r.Detail != 1 {
		t.Errorf("%v, frame %d", r.Err(), r.Detail)
	}
	j.says(t, 2, "rm -r /mnt/d")
	var many [][]byte
	for i := range 30 {
		many = append(many, file(0o644, fmt.Sprintf("/mnt/%d", i), ""))
	}
	r = j.seed(t, 3, seedPayload(), frames(many...))
	if r.Stage != StageSeed || r.Errno != syscall.ENOSPC || r.Detail < 15 || r.Detail > 20 {
		t.Errorf("%v, frame %d", r.Err(), r.Detail)
	}
	j.says(t, 4, "rm -r /mnt/*")
	p := seedPayload()
	p.Rlimits = []Rlimit{{unix.RLIMIT_FSIZE, 1000, 1000}}
	r = j.seed(t, 5, p, frames(file(0o644, "/mnt/f", strings.Repeat("x", 1000)), file(0o644, "/mnt/g", strings.Repeat("x", 1001))))
	if r.Stage != StageSeed || r.Errno != syscall.EFBIG || r.Detail != 1 {
		t.Errorf("%v, frame %d", r.Err(), r.Detail)
	}
}

func TestJobSeedMany(t *testing.T) {
	j := ready(t, options{size: "100m"})
	var many [][]byte
	for i := range 100 {
		many = append(many, dir(0o755, fmt.Sprintf("/mnt/%d", i)))
		for k := range 100 {
			many = append(many, file(0o644, fmt.Sprintf("/mnt/%d/%d", i, k), fmt.Sprint(i*k)))
		}
	}
	begin := time.Now()
	j.seeds(t, 1, many...)
	t.Logf("10000 files in %v", time.Since(begin))
	if got := j.says(t, 2, "find /mnt -type f | wc -l; cat /mnt/99/99"); got != "10000\n9801" {
		t.Errorf("%q", got)
	}
}

// It has what a job has: ids, no capability, its filter; and is none of PID 1's ends.
func TestJobSeedConfined(t *testing.T) {
	j := ready(t, options{size: "1m"})
	p := seedPayload()
	p.Filters = [][]byte{allowAll, answer(unix.SYS_OPENAT2, retErrno|uint32(syscall.EXDEV))}
	if r := j.seed(t, 1, p, frames(dir(0o755, "/mnt/d"))); r.Stage != StageSeed || r.Errno != syscall.EXDEV {
		t.Errorf("%v", r.Err())
	}
	p.Filters = [][]byte{answer(unix.SYS_OPENAT2, retKill)}
	if r := j.seed(t, 1, p, frames(dir(0o755, "/mnt/d"))); r.Stage != StageDied || r.WaitStatus.Signal() != syscall.SIGSYS {
		t.Errorf("%v", r.Err())
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	p = seedPayload()
	if err := j.Exec(2, &p, Files{Stdin: r, Stdout: j.stdout, Stderr: j.stdout}); err != nil {
		t.Fatal(err)
	}
	r.Close()
	time.Sleep(need.Time(300 * time.Millisecond)) // it waits for its first frame
	// The one whose program can't be seen is the seed: it is not dumpable.
	got := j.says(t, 3, `for p in /proc/[2-9]*; do readlink $p/exe >/dev/null && continue
grep -E '^(Uid|CapPrm|CapBnd|NoNewPrivs|Seccomp):' $p/status; readlink $p/fd/0; cat $p/environ $p/maps; done 2>/dev/null`)
	zero := "0000000000000000"
	if want := "Uid: 1000 1000 1000 1000 CapPrm: " + zero + " CapBnd: " + zero + " NoNewPrivs: 1 Seccomp: 2"; strings.Join(strings.Fields(got), " ") != want {
		t.Errorf("%q, want %q", got, want)
	}
	j.Signal(2, syscall.SIGTERM)
	if r := j.want(t, 2, Failed); r.Stage != StageDied || r.WaitStatus != 15 {
		t.Errorf("%+v", r)
	}
}

// A seed holds a copy of what PID 1 had at its clone, for long: it hides no other job's
// exec, wherever that one was just then.
func TestJobSeedBesideJobs(t *testing.T) {
	j := ready(t, options{size: "1m"})
	p, stop := seedPayload(), []*os.File{}
	for n := uint32(1); n <= 30; n++ {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		stop = append(stop, w)
		j.job(t, 100+n, sh("exit 4"))
		if err := j.Exec(n, &p, Files{Stdin: r, Stdout: j.stdout, Stderr: j.stdout}); err != nil {
			t.Fatal(err)
		}
		r.Close()
		j.job(t, 200+n, sh("exit 4"))
		for job, r := range j.ends(t, 2) {
			if job < 100 || r.WaitStatus != 0x400 {
				t.Errorf("%+v (%v)", r, r.Err())
			}
		}
	}
	for i, w := range stop {
		if _, err := w.Write(frames(file(0o644, fmt.Sprintf("/mnt/%d", i), "x"))); err != nil {
			t.Error(err)
		}
		j.want(t, uint32(i+1), Exited) // without waiting for the end of the stream
		w.Close()
	}
}

// Seeds come before the job of a whole run; what fails in one doesn't end PID 1.
func TestJobSeedOnce(t *testing.T) {
	j := ready(t, options{flags: Once, size: "1m"})
	j.seeds(t, 1, file(0o644, "/mnt/f", "seeded"))
	if r := j.seed(t, 2, seedPayload(), frames(file(0o644, "/mnt/f", "again"))); r.Errno != syscall.EEXIST {
		t.Errorf("%v", r.Err())
	}
	j.job(t, 3, sh("cat /mnt/f; exit 3"))
	j.want(t, 3, Started)
	if r := j.want(t, 3, Exited); r.WaitStatus != 0x300 || r.Leftover != 0 {
		t.Errorf("%+v", r)
	}
	if got := j.output(t); got != "seeded" {
		t.Errorf("%q", got)
	}
	if err := j.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// Jobs that change the tree meanwhile lead a seed nowhere: a directory that turns into
// a link and back is written to, or refused.
func TestJobSeedRace(t *testing.T) {
	j := ready(t, options{size: "10m"})
	j.says(t, 1, "mkdir /mnt/out /mnt/in")
	j.job(t, 2, sh("cd /mnt; while :; do mv in was; ln -s out in; rm in; mv was in; done 2>/dev/null"))
	j.want(t, 2, Started)
	// Until the two have met in both ways.
	made, refused := 0, 0
	for n, end := 0, time.Now().Add(need.Time(30*time.Second)); n < 300 || (made == 0 || refused == 0) && time.Now().Before(end); n++ {
		r := j.seed(t, 3, seedPayload(), frames(dir(0o755, fmt.Sprintf("/mnt/in/d%d", n)), file(0o644, fmt.Sprintf("/mnt/in/f%d", n), "x")))
		if r.Type == Failed {
			refused++
		} else {
			made++
		}
		if r.Type == Failed && r.Errno != syscall.ELOOP && r.Errno != syscall.ENOENT {
			t.Fatalf("%v", r.Err())
		}
	}
	if made == 0 || refused == 0 {
		t.Fatalf("%d seeds were made, %d refused", made, refused)
	}
	j.Signal(2, syscall.SIGKILL)
	j.want(t, 2, Exited)
	if got := j.says(t, 4, "ls -A /mnt/out; ls -d /mnt/in/f* /mnt/was/f* 2>/dev/null | grep -q . && echo some"); got != "some\n" {
		t.Errorf("%q", got)
	}
}
