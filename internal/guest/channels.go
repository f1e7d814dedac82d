package guest

import (
	"encoding/json"

	"golang.org/x/crypto/ssh"

	"enplace"
)

// signalMessage is the payload of a signal request (RFC 4254 section 6.9).
type signalMessage struct{ Name string }

// exec serves one Client.Exec.
func (s *server) exec(nc ssh.NewChannel) {
	ch, reqs, err := nc.Accept()
	if err != nil {
		return
	}
	defer ch.Close()
	j, err := s.beginRequested(nc, ch)
	if err != nil {
		go ssh.DiscardRequests(reqs)
		sendEnded(ch, ended{Error: toWire(err)})
		return
	}
	go j.obey(reqs)
	if err := j.confirm(); err != nil {
		sendEnded(ch, ended{Error: toWire(err)})
		return
	}
	_, _ = ch.SendRequest(startedRequest, false, nil)
	j.io.forward(ch, ch, ch.Stderr())
	e := j.wait()
	_ = ch.CloseWrite()
	sendEnded(ch, ended{Exit: e})
}

// obey does what the host asks of a running command. A closed channel means that nobody waits for it any more.
func (j *job) obey(reqs <-chan *ssh.Request) {
	for r := range reqs {
		var m signalMessage
		if r.Type == signalRequest && ssh.Unmarshal(r.Payload, &m) == nil {
			j.signal(m.Name)
		}
	}
	j.kill(false)
}

func (s *server) beginRequested(nc ssh.NewChannel, ch ssh.Channel) (*job, error) {
	payload, err := readPayload(nc.ExtraData(), ch, maxExecBytes)
	if err != nil {
		return nil, err
	}
	r, err := decodeExec(payload)
	if err != nil {
		return nil, err
	}
	if r.TTY != nil && r.TTY.Term != "" {
		r.Env = withVariable(r.Env, "TERM", r.TTY.Term)
	}
	return s.begin(r)
}

// call serves a channel that carries a payload and gets an answer.
func call(nc ssh.NewChannel, limit int, do func(payload []byte) error) {
	ch, reqs, err := nc.Accept()
	if err != nil {
		return
	}
	defer ch.Close()
	go ssh.DiscardRequests(reqs)
	payload, err := readPayload(nc.ExtraData(), ch, limit)
	if err == nil {
		err = do(payload)
	}
	sendEnded(ch, ended{Error: toWire(err)})
}

func (s *server) setup(nc ssh.NewChannel) {
	call(nc, maxSetupBytes, func(payload []byte) error {
		var set Setup
		if err := json.Unmarshal(payload, &set); err != nil {
			return enplace.Errorf(enplace.KindMalformed, "the guest was sent a setup that it cannot read").WithCause(err)
		}
		return set.do()
	})
}

func (s *server) killAll(nc ssh.NewChannel) {
	call(nc, 0, func([]byte) error {
		s.procs.killAll()
		return nil
	})
}
