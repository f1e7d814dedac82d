package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"enplace"
)

// answer is what a client is told instead of what it asked for.
type answer struct {
	status int
	text   string // one line: what is wrong, and what to do
}

// write sends the answer as text. To a CONNECT, whose body no client shows, the text is the reason phrase as well: pip and Go
// print that one.
func (a answer) write(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodConnect {
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			defer conn.Close()
			body := "enplace: " + a.text + "\n"
			fmt.Fprintf(conn, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
				a.status, a.text, len(body), body)
			return
		}
	}
	if a.status == http.StatusBadRequest {
		w.Header().Set("Connection", "close") // what follows a request that was not understood is not to be trusted
	}
	http.Error(w, "enplace: "+a.text, a.status)
}

// byPolicy is the answer to a host that the policy refuses.
func byPolicy(t target, e enplace.Egress) answer {
	const owner = "Ask the owner of the environment or harness, or on a computer whoever looks after its toolchain,"
	switch {
	case e.Policy == enplace.EgressAllowlist && len(e.Hosts) > 0:
		return answer{http.StatusForbidden, fmt.Sprintf("%s is not on the egress allow-list (%s). %s to add it there.", t.host, few(e.Hosts), owner)}
	case e.Policy == enplace.EgressAllowlist:
		return answer{http.StatusForbidden, fmt.Sprintf("%s is refused: the egress allow-list is empty. %s to add it there.", t.host, owner)}
	case e.Policy == enplace.EgressNone:
		return answer{http.StatusForbidden, fmt.Sprintf("%s is refused: the egress policy is none. %s to allow this host.", t.host, owner)}
	}
	return answer{http.StatusForbidden, fmt.Sprintf("%s is refused: this sandbox has no egress policy yet.", t.host)}
}

func few(hosts []string) string {
	const most = 10
	if len(hosts) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(hosts[:most], ", "), len(hosts)-most)
	}
	return strings.Join(hosts, ", ")
}

// toFailure is the answer to a connection that could not be made. All refused addresses are alike: what is there is not told.
func toFailure(t target, err error) answer {
	var refused *RefusedError
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case errors.As(err, &refused) && t.port == smtpPort:
		return answer{http.StatusForbidden, fmt.Sprintf("%s: port 25 is refused to every sandbox; no mail is sent from here.", t.host)}
	case errors.As(err, &refused):
		return answer{http.StatusForbidden, fmt.Sprintf("%s is at an address that is refused to every sandbox (private, loopback, link-local or this server's). If it should be reached, ask the operator to list it.", t.host)}
	case errors.As(err, &dns) && dns.IsNotFound:
		return answer{http.StatusBadGateway, fmt.Sprintf("could not resolve %s: there is no such name. Check its spelling.", t.host)}
	case errors.As(err, &dns):
		return answer{http.StatusBadGateway, fmt.Sprintf("could not resolve %s: the name server did not answer. Try again later.", t.host)}
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return answer{http.StatusGatewayTimeout, fmt.Sprintf("%s did not answer in time. Try again later.", t.host)}
	}
	return answer{http.StatusBadGateway, fmt.Sprintf("could not reach %s. Check its name and port, or try again later.", t.host)}
}
