package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"

	"golang.org/x/sys/unix"
)

// result is a measurement against another one.
type result struct {
	Row     string    `json:"row"`
	What    string    `json:"what"`
	Against string    `json:"against"`
	Unit    string    `json:"unit"`
	Ours    []float64 `json:"ours"`
	Theirs  []float64 `json:"theirs"`
	Target  float64   `json:"target,omitempty"` // the ratio to stay at or below; 0 where the design names none
}

// ratio is that of the medians.
func (r result) ratio() float64 { return median(r.Ours) / median(r.Theirs) }

func (r result) verdict() (target, met string) {
	switch {
	case r.Target == 0:
		return "-", "-"
	case r.ratio() <= r.Target:
		met = "met"
	default:
		met = "missed"
	}
	return fmt.Sprintf("%.2f ×", r.Target), met
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

// machine says what the figures were measured on.
type machine struct {
	Kernel     string `json:"kernel"`
	Processors int    `json:"processors"`
	LoadBefore string `json:"load_before"`
	LoadAfter  string `json:"load_after"`
}

func describeMachine(before string) machine {
	var u unix.Utsname
	_ = unix.Uname(&u)
	return machine{Kernel: unix.ByteSliceToString(u.Release[:]), Processors: runtime.NumCPU(), LoadBefore: before, LoadAfter: load()}
}

// load gives the three averages of the machine.
func load() string {
	b, _ := os.ReadFile("/proc/loadavg")
	return strings.Join(strings.Fields(string(b))[:3], " ")
}

func printTable(out io.Writer, m machine, all []result) {
	fmt.Fprintf(out, "\nLinux %s, %d processors, load %s before and %s after. Median (least to most) of n.\n\n", m.Kernel, m.Processors, m.LoadBefore, m.LoadAfter)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "WHAT\tOURS\tAGAINST\tTHEIRS\tRATIO\tTARGET\t")
	for _, r := range all {
		target, met := r.verdict()
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.3f ×\t%s\t%s\n", r.What, r.side(r.Ours), r.Against, r.side(r.Theirs), r.ratio(), target, met)
	}
	_ = w.Flush() // standard output says so itself
}

func (r result) side(v []float64) string {
	if len(v) == 1 {
		return fmt.Sprintf("%.4g %s", v[0], r.Unit)
	}
	return fmt.Sprintf("%.4g %s (%.4g to %.4g) of %d", median(v), r.Unit, slices.Min(v), slices.Max(v), len(v))
}
