package run

import (
	"os"
	"runtime"
	"testing"

	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

// The program is copied into memory for each rootless jail. What makes it grow by
// megabytes at once is a call by which the linker has to keep every exported method:
// reflect.Type.Method and MethodByName with a name that is no constant, and, with Go
// 1.26, any method called "Methods" that is looked up (golang/protobuf#1704). With
// -ldflags=-dumpdep it marks them <ReflectMethod>.
func TestProgramSize(t *testing.T) {
	need.Feature(t, "amd64", runtime.GOARCH == "amd64", "other code is of other size")
	st, err := os.Stat(jail.Built())
	if err != nil {
		t.Fatal(err)
	}
	if n := st.Size(); n > 12_000_000 {
		t.Errorf("%d bytes, want 12 MB at most", n)
	}
}
