package realtest

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// registryAnswer is what a registry of a test answers.
type registryAnswer struct {
	status int
	body   string
}

// registry is a package index of the test, where builds can reach it. Its address ends in /.
func registry(t *testing.T, answer func(*registryAnswer)) string {
	t.Helper()
	return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := registryAnswer{status: http.StatusOK}
		answer(&a)
		w.WriteHeader(a.status)
		_, _ = w.Write([]byte(a.body)) // a client that went away is its own business
	})) + "/simple/"
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	ln, err := net.Listen("tcp", registryAddress+":0")
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(h)
	srv.Listener.Close()
	srv.Listener = ln
	srv.Start()
	t.Cleanup(srv.Close)
	return srv.URL
}
