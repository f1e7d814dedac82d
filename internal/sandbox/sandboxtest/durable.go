package sandboxtest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"enplace"
	"enplace/internal/sandbox"
)

// durable is a sandbox on a durable volume, which goes with the test.
func (h Harness) durable(t *testing.T, volume string) sandbox.Spec {
	t.Helper()
	if !h.Runtime.Abilities().Durable {
		s := h.Spec(volume)
		s.Durable = volume
		_, err := h.Runtime.Start(t.Context(), s)
		wantKind(t, err, enplace.KindUnavailable)
		h.unable(t, "this adapter has no durable sandboxes on this host")
	}
	t.Cleanup(func() { check(t, h.Runtime.DropDurable(context.Background(), volume)) })
	s := h.Spec(volume)
	s.Durable = volume
	return s
}

// What is written to the root lasts as it is: content, modes, owners, links, and what was removed. What is of one run does not.
func testDurable(t *testing.T, h Harness) {
	s := h.durable(t, "durable")
	b := h.Start(t, s)
	want(t, b, `cd /root && echo text > file && chmod 640 file && chown 1000:1001 file && ln -s file link && ln file second && mkdir -p a/b &&
		echo '#!/bin/sh' > a/run && chmod 4755 a/run && mkfifo pipe && rm /bin/ping && rm -r /var && mkdir -p /var/new && chmod 1777 /var &&
		chmod 711 / && echo more >> /etc/passwd && chown 1000 /etc/passwd && probe xattr /root/file && echo done`, "ok\ndone")
	want(t, b, "echo x > /tmp/x; echo x > /run/x; echo x > /dev/shm/x; mkdir -p /task && echo x > /task/x; cat /task/x", "x")
	list := "find / -xdev \\( -path /proc -o -path /sys -o -path /dev -o -path /run \\) -prune -o -print | sort | xargs stat -c '%n %F %a %u %g %h %s'; cat /root/second /etc/passwd; readlink /root/link"
	before := sh(t, b, list)
	for range 2 {
		stop(t, b)
		b = h.Start(t, s)
		if after := sh(t, b, list); strings.ReplaceAll(before.out, "/tmp/x regular file 644 0 0 1 2\n", "") != after.out {
			t.Errorf("after a stop:\n%s%s\nbefore it:\n%s", after.out, after.err, before.out)
		}
		want(t, b, "ls -A /tmp /dev/shm; ls /run/x 2>/dev/null; cat /task/x; stat -c %a /tmp; probe xattr-read /root/file", "/dev/shm:\n\n/tmp:\nx\n1777\nok")
	}
	_, err := h.Runtime.Work(t.Context(), "durable")
	wantIs(t, err, sandbox.ErrNotFound)
	sizes, err := b.Written(t.Context(), "/", 1)
	check(t, err)
	if sizes["root"] == 0 {
		t.Errorf("Written: %v", sizes)
	}
	stats, err := b.Stats(t.Context())
	check(t, err)
	if stats.DiskUsedBytes == 0 || stats.DiskLimitBytes < int64(s.Limits.DiskMiB)<<20 {
		t.Errorf("stats: %+v", stats)
	}
}

// A volume has one sandbox at a time, and one root for good.
func testDurableIsHad(t *testing.T, h Harness) {
	s := h.durable(t, "durable-had")
	b := h.Start(t, s)
	want(t, b, "echo mine > /root/file; cat /root/file", "mine")
	second := s
	second.ID = "durable-second"
	_, err := h.Runtime.Start(t.Context(), second)
	wantKind(t, err, enplace.KindConflict)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	wantKind(t, h.Runtime.DropDurable(ctx, s.Durable), enplace.KindBusy)
	stop(t, b)

	other := s
	other.Root = append([]enplace.Digest{h.Pack(t, map[string]string{"other": "x"})}, h.Base...)
	_, err = h.Runtime.Start(t.Context(), other)
	wantKind(t, err, enplace.KindConflict)
	for _, edit := range []func(*sandbox.Spec){
		func(s *sandbox.Spec) { s.Durable = "../durable-had" },
		func(s *sandbox.Spec) { s.Keep = true },
		func(s *sandbox.Spec) { s.Mounts = []sandbox.Mount{{Path: "/x", Writable: true}} },
	} {
		wrong := s
		edit(&wrong)
		_, err = h.Runtime.Start(t.Context(), wrong)
		wantKind(t, err, enplace.KindInvalid)
	}
	second.Mounts = []sandbox.Mount{{Path: "/env/p", Images: []enplace.Digest{h.Pack(t, map[string]string{"f": "packed"})}}}
	b = h.Start(t, second)
	want(t, b, "cat /root/file /env/p/f", "mine\npacked")
	refused(t, b, "echo x > /env/p/f", "read-only file system")
	stop(t, b)
}

// A volume that is dropped is gone, and one whose first sandbox did not start was never there.
func testDurableDropped(t *testing.T, h Harness) {
	s := h.durable(t, "durable-dropped")
	volumes := func() map[string]int64 {
		sizes, err := h.Runtime.Durables(t.Context())
		check(t, err)
		return sizes
	}
	b := h.Start(t, s)
	want(t, b, "echo x > /root/file; cat /root/file", "x")
	if volumes()[s.Durable] <= 0 {
		t.Errorf("volumes: %v", volumes())
	}
	stop(t, b)
	if volumes()[s.Durable] <= 0 {
		t.Errorf("volumes: %v", volumes())
	}
	for range 2 {
		check(t, h.Runtime.DropDurable(t.Context(), s.Durable))
	}
	check(t, h.Runtime.DropDurable(t.Context(), "../durable-dropped"))
	broken := s
	broken.Root = []enplace.Digest{"sha256:" + enplace.Digest(strings.Repeat("0", 64))}
	if _, err := h.Runtime.Start(t.Context(), broken); err == nil {
		t.Error("it started without its images")
	}
	if sizes := volumes(); len(sizes) > 0 {
		t.Errorf("volumes: %v", sizes)
	}
	want(t, h.Start(t, s), "ls /root", "")
}

// A volume that is full keeps its sandbox running, and starting again, so that room can be made.
func testDurableFull(t *testing.T, h Harness) {
	s := h.durable(t, "durable-full")
	s.Limits.DiskMiB = 64
	b := h.Start(t, s)
	want(t, b, "dd if=/dev/zero of=/root/fits bs=1M count=56 2>/dev/null && echo fits", "fits")
	for range 2 {
		refused(t, b, "dd if=/dev/zero of=/root/big bs=1M count=64", "no space left")
		refused(t, b, "dd if=/dev/zero of=/tmp/big bs=1M count=64", "no space left")
		sh(t, b, "for i in $(seq 200); do echo $i > /root/small$i || break; done; rm /tmp/big; dd if=/dev/zero of=/root/rest bs=4k") // to the last block
		refused(t, b, "mkdir /root/folder", "no space left")
		stop(t, b)
		b = h.Start(t, s)
	}
	want(t, b, "rm /root/big /root/rest && echo new > /root/new && cat /root/new && wc -c < /root/fits", "new\n58720256")
}

// Root inside reaches neither the volume's file nor another's, and whatever it makes of its own root leads nowhere else.
func testDurableHostile(t *testing.T, h Harness) {
	h.Start(t, h.durable(t, "durable-other"))
	s := h.durable(t, "durable-hostile")
	b := h.Start(t, s)
	refused(t, b, "mknod /root/disk b 7 0", "not permitted")
	want(t, b, "find /dev -type b; cat /sys/block/loop*/loop/backing_file 2>/dev/null; ls -d /tmp/../upper /tmp/../../upper 2>/dev/null; grep -c . /proc/self/mountinfo > /dev/null && echo none", "none")
	for _, attempt := range []string{"open_tree", "mountns", "userns"} {
		refused(t, b, "probe "+attempt, "not permitted", "not implemented")
	}
	refused(t, b, "umount /tmp || mount -o remount,suid /tmp", "not permitted", "permission denied")
	refused(t, b, "rmdir /tmp; mv /tmp /tmp2; mv /proc /proc2", "busy")
	for _, script := range []string{
		"mv /etc /kept && ln -s /proc/1 /etc",
		"rm /etc; mkdir -p /etc/hosts/x && ln -s /proc/self/environ /etc/hostname && ln -s ../../../../etc/shadow /etc/resolv.conf",
		"mv /etc /gone; echo x > /etc",
		"mv /task /task2; ln -s / /task; chown 1000 /; chmod 0 /",
	} {
		want(t, b, script+"; echo done", "done")
		stop(t, b)
		b = h.Start(t, s)
		want(t, b, "grep -c localhost /etc/hosts; cat /etc/hostname", "2\nsandbox")
	}
	want(t, b, "cat /kept/passwd", "root:x:0:0::/root:/bin/sh")
}

// The policy of a sandbox that runs is exchanged, and what was open by the old one is cut.
func testEgressChanges(t *testing.T, h Harness) {
	open := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("hello"))
		if r.URL.Path == "/slow" {
			_ = http.NewResponseController(w).Flush()
			close(open)
			<-r.Context().Done()
		}
	}))
	defer srv.Close()
	b := h.Start(t, h.Spec("egress-changes"))
	fetch := "wget -q -O - " + srv.URL
	if r := sh(t, b, fetch); r.Code == 0 {
		t.Errorf("policy none let %q through", r.out)
	}
	b.Egress(enplace.Egress{Policy: enplace.EgressAllowlist, Hosts: []string{"127.0.0.1"}})
	want(t, b, fetch, "hello")
	cut := make(chan result, 1)
	go func() { cut <- sh(t, b, "wget -O - "+srv.URL+"/slow") }()
	<-open
	b.Egress(enplace.Egress{Policy: enplace.EgressNone})
	if r := <-cut; r.out != "hello" && r.out != "" {
		t.Errorf("the open connection gave %q", r.out)
	}
	if r := sh(t, b, fetch); r.Code == 0 {
		t.Errorf("policy none let %q through", r.out)
	}
	stop(t, b)
	b.Egress(enplace.Egress{Policy: enplace.EgressOpen}) // as much as nothing
}
