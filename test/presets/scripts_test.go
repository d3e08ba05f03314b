package presets

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/test/jail"
)

const orders = "city,amount\nRiga,3\nOslo,4\nRiga,5\n"

const inPython = `
import collections, csv, json, multiprocessing, os, shutil, subprocess, sys, tempfile
def double(n): return 2 * n
if __name__ == "__main__":
    total = collections.Counter()
    for row in csv.DictReader(open("orders.csv")): total[row["city"]] += int(row["amount"])
    with multiprocessing.Pool(2) as p: doubled = dict(zip(total, p.map(double, total.values())))
    os.makedirs("out/deep"); json.dump(doubled, open("out/deep/totals.json", "w"))
    shutil.copytree("out/deep", tempfile.mkdtemp() + "/copy")
    print(subprocess.run(["wc", "-c"], stdin=open("orders.csv"), capture_output=True, text=True).stdout.strip(), len(sys.argv))
    sys.exit(3)
`

const inNode = `
const fs = require("fs"), { Worker, isMainThread, parentPort, workerData } = require("worker_threads");
if (!isMainThread) { parentPort.postMessage(workerData.map(n => 2 * n)); return }
const total = {};
for (const row of fs.readFileSync("orders.csv", "utf8").trim().split("\n").slice(1)) { const [city, n] = row.split(","); total[city] = (total[city] || 0) + Number(n) }
const w = new Worker(__filename, { workerData: Object.values(total) });
w.on("message", d => {
  fs.mkdirSync("out/deep", { recursive: true });
  fs.writeFileSync("out/deep/totals.json", JSON.stringify(Object.fromEntries(Object.keys(total).map((k, i) => [k, d[i]]))));
  console.log(require("child_process").execFileSync("wc", ["-c"], { input: fs.readFileSync("orders.csv") }).toString().trim(), process.argv.length - 1);
  process.exitCode = 3;
});
`

// A script over files, with threads and processes: its output, its status and its files
// come out, and what would load other code into it doesn't go in.
func TestScripts(t *testing.T) {
	for _, lang := range []struct{ preset, program, name, text, evil string }{
		{"python", "python3", "a.py", inPython, "PYTHONPATH"},
		{"node", "node", "a.js", inNode, "NODE_OPTIONS"},
	} {
		t.Run(lang.preset, func(t *testing.T) {
			each(t, func(t *testing.T, c *jail.Caller) {
				program(t, lang.program)
				c = preset(t, c, lang.preset, "")
				out := filepath.Join(c.Home, "results")
				flags := []string{
					"--file", "/workspace/orders.csv=" + c.File(t, "orders.csv", orders),
					"--file", "/workspace/" + lang.name + "=" + c.File(t, lang.name, lang.text),
				}
				argv := []string{lang.program, lang.name, "x"}
				o := c.Run(t, jail.Job{Flags: append(flags, "--export", "out/**="+out), Argv: argv})
				r := o.Exited(t, 3)
				var totals map[string]int
				b, err := os.ReadFile(filepath.Join(out, "out/deep/totals.json"))
				if err != nil || json.Unmarshal(b, &totals) != nil || totals["Riga"] != 16 || totals["Oslo"] != 8 {
					t.Errorf("%q %v", b, err)
				}
				if want := "33 2\n"; o.Out() != want {
					t.Errorf("%q, want %q: %s", o.Out(), want, o)
				}
				t.Logf("%d ms and %d ms of set-up, %d processes, %d bytes", r.DurationMs, *r.SetupMs, *r.Usage.PidsPeak, *r.Usage.MemoryPeakBytes)
				o = c.Run(t, jail.Job{Flags: append(flags, "--env", lang.evil+"=/workspace"), Argv: argv})
				o.Refused(t, 126, jailer.CodePolicyDenied, lang.evil)
			})
		})
	}
}

// What a script printed before its end by a limit is there.
func TestScriptOutput(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		program(t, "python3")
		c = preset(t, c, "python", "")
		o := c.Run(t, jail.Job{Flags: []string{"--cpu-time", "1s"}, Argv: []string{"python3", "-c", "print('begun')\nwhile True: pass"}})
		o.Ended(t, jailer.StatusTimedOut, jailer.LimitCPU, 124)
		if strings.TrimSpace(o.Out()) != "begun" {
			t.Errorf("%s", o)
		}
	})
}
