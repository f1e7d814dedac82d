package shim

import (
	"strings"
	"testing"
	"unsafe"
)

// stackOf lays arguments and variables out as the kernel does.
func stackOf(args, vars []string) *Stack {
	s := new(Stack)
	*(*int)(unsafe.Pointer(s)) = len(args)
	at := 1
	for _, list := range [][]string{args, vars} {
		for _, v := range list {
			s[at] = &append([]byte(v), 0)[0]
			at++
		}
		at++
	}
	return s
}

// Where Go's runtime is not there yet, asking it for memory ends the process.
func TestQuickTakesNoMemory(t *testing.T) {
	set := strings.Repeat("a", 64)
	s := stackOf([]string{"/opt/mise/shims/node", "x"}, []string{"A=1", depthVar + "=1.2.3", SetVar + "=no", SetVar + "=" + set})
	index := string(Encode([]Command{{"nod", "", "i", "organisation", "why"}, {"node", "/bin/node", "i", "organisation", ""}, {"damaged", "/x", "", "", ""}}))
	target := ""
	allocations := testing.AllocsPerRun(100, func() {
		BecomeQuickly(s) // there is no such set
		target = quickTarget(index, "node")
		quickTarget(index, "nod")
		quickTarget(index[:len(index)-1], "node")
		quickTarget(header+"\x00\x00\x00\x02n\x00\x00\x00\x00\x00", "n")
	})
	if allocations != 0 {
		t.Errorf("%v allocations", allocations)
	}
	if target != "/bin/node" || text(s[1]) != "/opt/mise/shims/node" {
		t.Errorf("%q, %q", target, text(s[1]))
	}
}

func TestQuickVars(t *testing.T) {
	set := strings.Repeat("b", 64)
	many := make([]string, len(quick.vars)-1)
	for i := range many {
		many[i] = "V=1"
	}
	for name, c := range map[string]struct {
		vars []string
		ok   bool
	}{
		"usual":      {[]string{"A=1", SetVar + "=" + set, "B="}, true},
		"no set":     {[]string{"A=1", SetVar + "=x"}, false},
		"no marker":  {[]string{SetVar + "=" + set, depthVar + "="}, true},
		"deep":       {[]string{SetVar + "=" + set, depthVar + "=1.1.63"}, true},
		"too deep":   {[]string{SetVar + "=" + set, depthVar + "=1.1.64"}, false},
		"too many":   {append([]string{SetVar + "=" + set}, many...), false},
		"as many":    {append([]string{SetVar + "=" + set}, many[2:]...), true},
		"no name":    {[]string{SetVar + "=" + set, "", "="}, true},
		"two hashes": {[]string{SetVar + "=" + set, SetVar + "=" + strings.Repeat("c", 64)}, true},
	} {
		quick.vars = [len(quick.vars)]*byte{}
		args, vars := stackOf([]string{"node"}, c.vars).split()
		if len(args) != 1 || len(vars) != len(c.vars) {
			t.Fatalf("%s: %d arguments, %d variables", name, len(args), len(vars))
		}
		got, ok := quickVars(vars)
		if ok != c.ok || ok && got != set {
			t.Errorf("%s: %q, %v", name, got, ok)
		}
		if !ok {
			continue
		}
		want, why := deeper("node", c.vars)
		if why != nil {
			t.Fatalf("%s: %s", name, why.message)
		}
		for i, w := range want {
			if text(quick.vars[i]) != w {
				t.Errorf("%s: variable %d is %q; want %q", name, i, text(quick.vars[i]), w)
			}
		}
		if quick.vars[len(want)] != nil {
			t.Errorf("%s: more variables", name)
		}
	}
}
