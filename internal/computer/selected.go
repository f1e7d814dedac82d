package computer

import (
	"cmp"
	"context"
	"slices"
	"time"

	"enplace"
)

// selected says of a computer's sets which conversations have them now: these come first, also where one was not brought onto the
// computer yet, and the others behind them, those that were used last first.
func (s *Service) selected(ctx context.Context, id string, sets []enplace.ComputerSet) ([]enplace.ComputerSet, error) {
	conversations, err := s.cfg.Toolchain.ConversationsOn(ctx, id)
	if err != nil {
		return nil, err
	}
	byTeam := map[string]string{} // hashes: conversations on one computer differ by nothing else
	for _, conv := range conversations {
		hash, ok := byTeam[conv.Team]
		if !ok {
			set, err := s.cfg.Toolchain.SetOf(ctx, conv)
			if enplace.KindOf(err) == enplace.KindUnavailable { // without a base nothing has a set
				break
			}
			if err != nil {
				return nil, err
			}
			hash = set.Hash
			byTeam[conv.Team] = hash
			if !slices.ContainsFunc(sets, func(c enplace.ComputerSet) bool { return c.Hash == hash }) {
				fresh := enplace.ComputerSet{Hash: hash, Items: []enplace.ComputerItem{}}
				for _, item := range set.Items {
					fresh.Items = append(fresh.Items, enplace.ComputerItem{InstalledItem: standing(fresh, item)})
				}
				sets = append(sets, fresh)
			}
		}
		c := &sets[slices.IndexFunc(sets, func(c enplace.ComputerSet) bool { return c.Hash == hash })]
		if len(c.Conversations) < enplace.MaxShownWith {
			c.Conversations = append(c.Conversations, conv.ID)
		} else {
			c.More++
		}
	}
	slices.SortStableFunc(sets, func(a, b enplace.ComputerSet) int {
		return cmp.Or(-cmp.Compare(min(len(a.Conversations), 1), min(len(b.Conversations), 1)), lastUse(b).Compare(lastUse(a)))
	})
	return sets, nil
}

// lastUse is when a set was used last, as far as it is known: it was tried for a command.
func lastUse(c enplace.ComputerSet) time.Time {
	for _, at := range []*time.Time{c.UsedAt, c.TriedAt} {
		if at != nil {
			return *at
		}
	}
	return time.Time{}
}

// useSets notes when sets were used, by hash.
func useSets(sets []enplace.ComputerSet, at map[string]time.Time) {
	for i := range sets {
		if used, ok := at[sets[i].Hash]; ok {
			sets[i].UsedAt = &used
		}
	}
}
