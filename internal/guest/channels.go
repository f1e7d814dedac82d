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
	j, r, err := s.startRequested(nc, ch)
	if err != nil {
		go ssh.DiscardRequests(reqs)
		sendEnded(ch, ended{Error: toWire(err)})
		return
	}
	_, _ = ch.SendRequest(startedRequest, false, nil)
	j.io.forward(ch, ch, ch.Stderr())
	go func() {
		for r := range reqs {
			var m signalMessage
			if r.Type == signalRequest && ssh.Unmarshal(r.Payload, &m) == nil {
				j.signal(m.Name)
			}
		}
		j.kill(false) // the channel is closed: nobody waits for the command any more
	}()
	e := j.wait(r.Timeout)
	_ = ch.CloseWrite()
	sendEnded(ch, ended{Exit: e})
}

func (s *server) startRequested(nc ssh.NewChannel, ch ssh.Channel) (*job, execRequest, error) {
	payload, err := readPayload(nc.ExtraData(), ch, maxExecBytes)
	if err != nil {
		return nil, execRequest{}, err
	}
	r, err := decodeExec(payload)
	if err != nil {
		return nil, execRequest{}, err
	}
	if r.TTY != nil && r.TTY.Term != "" {
		r.Env = withVariable(r.Env, "TERM", r.TTY.Term)
	}
	j, err := s.start(r)
	return j, r, err
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
