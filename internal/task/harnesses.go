package task

import (
	"context"
	"errors"
	"time"

	"enplace"
	"enplace/internal/access"
	"enplace/internal/store"
)

// CreateHarness makes a harness. It does not change afterwards, so a task's record of it stays true.
func (s *Service) CreateHarness(ctx context.Context, c enplace.Caller, in enplace.CreateHarness) (enplace.Harness, error) {
	if err := access.Check(c, access.Create, access.Thing{What: "harness", ID: in.Name}); err != nil {
		return enplace.Harness{}, err
	}
	if err := checkHarness(in); err != nil {
		return enplace.Harness{}, err
	}
	if in.Environment != "" {
		if _, err := s.environment(ctx, c, access.Read, in.Environment, ""); err != nil {
			return enplace.Harness{}, err
		}
	}
	now := s.cfg.Now().UTC().Truncate(time.Microsecond) // as the store keeps it
	h := enplace.Harness{
		ID: enplace.NewID(enplace.PrefixHarness, now), Name: in.Name, Owner: c.Name(), Environment: in.Environment, Command: in.Command,
		Instructions: in.Instructions, Egress: in.Egress, Limits: in.Limits, CreatedAt: now,
	}
	if err := s.cfg.Store.CreateHarness(ctx, h); err != nil {
		return enplace.Harness{}, err
	}
	s.cfg.Audit.Record(ctx, c, "harness.create", h.ID, map[string]any{"name": h.Name, "environment": h.Environment})
	return h, nil
}

func checkHarness(in enplace.CreateHarness) error {
	if err := enplace.CheckName(in.Name); err != nil {
		return err
	}
	if len(in.Command) > 0 && in.Command[0] == "" {
		return enplace.Invalidf("the first word must name a program; leave command out for an open sandbox").WithField("command")
	}
	if len(in.Instructions) > enplace.MaxInstructionsBytes {
		return enplace.TooLargef("has %d bytes; the limit is %d", len(in.Instructions), enplace.MaxInstructionsBytes).WithField("instructions")
	}
	if in.Egress != nil {
		if err := in.Egress.Check("egress."); err != nil {
			return err
		}
	}
	return in.Limits.Check()
}

// ListHarnesses gives the harnesses that the caller may know of, newest first.
func (s *Service) ListHarnesses(ctx context.Context, c enplace.Caller, p enplace.Page) (enplace.List[enplace.Harness], error) {
	switch c.Kind {
	case enplace.KeyOperator:
		return s.cfg.Store.ListHarnesses(ctx, "", p)
	case enplace.KeyPerson:
		return s.cfg.Store.ListHarnesses(ctx, c.Name(), p)
	}
	l := enplace.List[enplace.Harness]{Items: []enplace.Harness{}}
	if c.Kind == enplace.KeyHarness {
		if h, err := s.cfg.Store.Harness(ctx, c.Subject); err == nil {
			l.Items = append(l.Items, h)
		}
	}
	return l, nil
}

// GetHarness gives one.
func (s *Service) GetHarness(ctx context.Context, c enplace.Caller, id string) (enplace.Harness, error) {
	return s.harness(ctx, c, access.Read, id)
}

// DeleteHarness removes one. Tasks that it started stay, and those that run go on.
func (s *Service) DeleteHarness(ctx context.Context, c enplace.Caller, id string) error {
	if _, err := s.harness(ctx, c, access.Write, id); err != nil {
		return err
	}
	if err := s.cfg.Store.DeleteHarness(ctx, id); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	s.cfg.Audit.Record(ctx, c, "harness.delete", id, nil)
	return nil
}

func (s *Service) harness(ctx context.Context, c enplace.Caller, a access.Action, id string) (enplace.Harness, error) {
	t := access.Thing{What: "harness", ID: id}
	if !enplace.ValidID(enplace.PrefixHarness, id) {
		return enplace.Harness{}, access.Unknown(t)
	}
	h, err := s.cfg.Store.Harness(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return enplace.Harness{}, access.Unknown(t)
	}
	if err != nil {
		return enplace.Harness{}, err
	}
	t.Owner = h.Owner
	return h, access.Check(c, a, t)
}

// environment gives an environment that the caller may read; harness is the one it would be read through, if any.
func (s *Service) environment(ctx context.Context, c enplace.Caller, a access.Action, id, harness string) (enplace.Environment, error) {
	t := access.Thing{What: "environment", ID: id, Harness: harness}
	if !enplace.ValidID(enplace.PrefixEnvironment, id) {
		return enplace.Environment{}, access.Unknown(t)
	}
	e, err := s.cfg.Store.Environment(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return enplace.Environment{}, access.Unknown(t)
	}
	if err != nil {
		return enplace.Environment{}, err
	}
	t.Owner = e.Owner
	return e, access.Check(c, a, t)
}
