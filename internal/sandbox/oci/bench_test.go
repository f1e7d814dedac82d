package oci

import (
	"strconv"
	"testing"

	"enplace"
	"enplace/internal/sandbox"
)

// benchmarkStart measures a start with three images attached, to the end of its first command.
func benchmarkStart(b *testing.B, warm bool) {
	h := newHouse(b, runtimeRunc, nil)
	var images []enplace.Digest
	for n := range 3 {
		images = append(images, h.Pack(b, map[string]string{"f" + strconv.Itoa(n): "x", "a/b/c/d": "y"}))
	}
	s := h.Spec("bench")
	s.Mounts = []sandbox.Mount{{Path: "/env/demo", Images: images}}
	s.Setup.Files = []sandbox.SetupFile{{Path: "/run/enplace/instructions.md", Content: []byte("text"), Mode: 0o444}}
	for b.Loop() {
		b.StopTimer()
		if warm {
			c, err := h.oci.create(b.Context(), newKey(s.Root, s.Limits.DiskMiB), s.Limits, nil)
			if err != nil {
				b.Fatal(err)
			}
			h.oci.pool.put(c)
		}
		b.StartTimer()
		box, err := h.Runtime.Start(b.Context(), s)
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if _, err := box.Exec(b.Context(), sandbox.Command{Argv: []string{"/bin/true"}, Dir: "/"}); err != nil {
			b.Fatal(err)
		}
		if err := box.Stop(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1000, "ms/start")
}

func BenchmarkStartWarm(b *testing.B) { benchmarkStart(b, true) }

func BenchmarkStartCold(b *testing.B) { benchmarkStart(b, false) }
