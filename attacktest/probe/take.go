package main

import (
	"bufio"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// take uses up something that the kernel counts for more than one process, says how much it got, and holds it until its input ends.
func take(what string) {
	n := 0
	var err error
	for n < 200_000 && err == nil {
		if err = takeOne(what, n); err == nil {
			n++
		}
	}
	fmt.Printf("%d\n", n)
	_, _ = bufio.NewReader(os.Stdin).ReadByte() // any end will do
}

func takeOne(what string, n int) (err error) {
	switch what {
	case "inotify":
		_, err = unix.InotifyInit1(0)
	case "terminals":
		_, err = unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY, 0)
	case "timers":
		var id int32
		err = call(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, 0, uintptr(unsafe.Pointer(&id)))()
	case "queues":
		attr := &struct{ flags, messages, size, now, _, _, _, _ int64 }{messages: 10, size: 8192}
		name := text(fmt.Sprintf("attack-%d-%d", os.Getpid(), n))
		err = call(unix.SYS_MQ_OPEN, name, unix.O_CREAT|unix.O_RDWR, 0o600, uintptr(unsafe.Pointer(attr)))()
		if err == nil {
			err = call(unix.SYS_MQ_UNLINK, name)() // it lasts as long as it is open, and no longer
		}
	case "files":
		_, err = unix.Open("/dev/null", unix.O_RDONLY, 0)
	case "pipes":
		err = widePipe()
	case "locked memory":
		err = unix.Mlock(make([]byte, 64<<10))
	default:
		err = fmt.Errorf("no taking of %s", what)
	}
	return err
}

func widePipe() error {
	var p [2]int
	if err := unix.Pipe(p[:]); err != nil {
		return err
	}
	_, err := unix.FcntlInt(uintptr(p[1]), unix.F_SETPIPE_SZ, 1<<20)
	return err
}
