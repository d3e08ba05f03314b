package jailer

// Capabilities that a profile can grant and a request can narrow. They are
// rights at jailer's own verbs, not Linux capabilities, of which a job has
// none.
const (
	CapExec    = "exec"     // run a command
	CapFSRead  = "fs.read"  // read files of the workspace
	CapFSWrite = "fs.write" // write them
	CapFSList  = "fs.list"  // list its directories
	CapProcess = "process"  // start managed processes
	CapExport  = "export"   // take files out
	CapImport  = "import"   // bring files in
)

// Capabilities lists every capability that there is.
func Capabilities() []string {
	return []string{CapExec, CapFSRead, CapFSWrite, CapFSList, CapProcess, CapExport, CapImport}
}
