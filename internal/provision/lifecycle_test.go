package provision

import (
	"fmt"
	"io"
	"testing"
)

// A script could print any number of names of tools, and each was kept.
func TestLinesAboutOtherToolsAreNotKept(t *testing.T) {
	t.Parallel()
	own := &tool{name: "npm:own"}
	l := newLifecycle(io.Discard, []*tool{own})
	for i := range 1000 {
		_, _ = fmt.Fprintf(l, "mise npm:other-%d@1 > x@1 install\nmise npm:own@1 > y-%d@1 install\n", i, i)
		_, _ = fmt.Fprintf(l, "mise WARN  npm:other-%d@1 declares npm lifecycle script(s) (install) and skipped them\n", i)
	}
	_, _ = io.WriteString(l, "mise WARN  npm:own@1 declares npm lifecycle script(s) (postinstall) and skipped them\n")
	if len(l.ran) != 1 || len(l.ran["npm:own"]) != maxScripts || len(l.skipped) != 1 || l.skipped["npm:own"] != "postinstall" {
		t.Errorf("%d tools, %d scripts of the one, skipped %v", len(l.ran), len(l.ran["npm:own"]), l.skipped)
	}
}
