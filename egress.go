package enplace

import (
	"encoding/json"
	"net/netip"
	"strings"
)

// EgressPolicy says which hosts a sandbox may reach through the proxy, its only way out.
type EgressPolicy string

// The policies. Whatever the policy, loopback, link-local, private and metadata addresses are refused unless the operator
// lists them.
const (
	EgressOpen      EgressPolicy = "open"
	EgressAllowlist EgressPolicy = "allowlist"
	EgressNone      EgressPolicy = "none"
)

// Egress is a policy with the hosts of an allow-list: names, or names behind "*." for every name below them.
type Egress struct {
	Policy EgressPolicy `json:"policy" enum:"open,allowlist,none"`
	Hosts  []string     `json:"hosts,omitempty" doc:"For allowlist: host names, *.example.org for all below one"`
}

// UnmarshalJSON also takes the bare policy, as in "egress": "none".
func (e *Egress) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) == nil {
		*e = Egress{Policy: EgressPolicy(s)}
		return nil
	}
	type plain Egress
	return json.Unmarshal(b, (*plain)(e))
}

// Check refuses an unknown policy, hosts without an allow-list, and hosts that are no names. The fields that errors name are below
// that one, such as "egress."; "" for a policy that stands alone.
func (e Egress) Check(below string) error {
	switch e.Policy {
	case EgressOpen, EgressNone:
		if len(e.Hosts) > 0 {
			return Invalidf("hosts go with the policy %q only", EgressAllowlist).WithField(below + "hosts")
		}
	case EgressAllowlist:
		if len(e.Hosts) > MaxEgressHosts { // each connection, and each meeting of two policies, looks at all
			return Invalidf("%d hosts; the limit is %d: a name such as *.example.org stands for all below it", len(e.Hosts), MaxEgressHosts).WithField(below + "hosts")
		}
		for _, h := range e.Hosts {
			if !validHost(strings.TrimPrefix(h, "*.")) {
				return Invalidf("%q is not a host name; write it without scheme, port or path, as in example.org or *.example.org", h).WithField(below + "hosts")
			}
		}
	default:
		return Invalidf("%q is none of open, allowlist, none", e.Policy).WithField(below + "policy")
	}
	return nil
}

// Allows reports whether the policy lets a connection to the host through. The address it resolves to is checked apart.
func (e Egress) Allows(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	switch e.Policy {
	case EgressOpen:
		return host != ""
	case EgressAllowlist:
		for _, h := range e.Hosts {
			h = strings.ToLower(strings.TrimSuffix(h, "."))
			if parent, ok := strings.CutPrefix(h, "*."); ok {
				if strings.HasSuffix(host, "."+parent) {
					return true
				}
			} else if h == host {
				return true
			}
		}
	}
	return false
}

func validHost(h string) bool {
	if h == "" || len(h) > 253 {
		return false
	}
	if _, err := netip.ParseAddr(h); err == nil {
		return true
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(h, "."), ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for _, c := range label {
			if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
				return false
			}
		}
	}
	return true
}
