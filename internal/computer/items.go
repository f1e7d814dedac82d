package computer

import (
	"maps"
	"slices"
	"strings"

	"enplace"
	"enplace/internal/store"
)

const (
	maxErrors = 500 // in the error log of a computer
	maxSets   = 20  // in the record of a computer: those that were brought onto it last
)

// find gives the entry of a set, empty where there is none.
func find(rec store.ComputerRecord, hash string) enplace.ComputerSet {
	if i := slices.IndexFunc(rec.Sets, func(c enplace.ComputerSet) bool { return c.Hash == hash }); i >= 0 {
		return rec.Sets[i]
	}
	return enplace.ComputerSet{Hash: hash}
}

// setOf gives the entry of a set to be changed, made where there is none.
func setOf(r *store.ComputerRecord, hash string) *enplace.ComputerSet {
	i := slices.IndexFunc(r.Sets, func(c enplace.ComputerSet) bool { return c.Hash == hash })
	if i < 0 {
		r.Sets = append(r.Sets, enplace.ComputerSet{Hash: hash, Items: []enplace.ComputerItem{}})
		i = len(r.Sets) - 1
	}
	return &r.Sets[i]
}

// same finds an item by key and scope; an item has one place on a computer, whatever set and definition it is there by.
func same(items []enplace.ComputerItem, key string, scope enplace.Scope) int {
	return slices.IndexFunc(items, func(i enplace.ComputerItem) bool { return i.Key == key && i.Scope == scope })
}

// put records how an item of a set stands.
func put(r *store.ComputerRecord, hash string, item enplace.InstalledItem) {
	now := enplace.ComputerItem{InstalledItem: item, Obtained: obtained(*r, hash, item)}
	c := setOf(r, hash)
	if i := same(c.Items, item.Key, item.Scope); i >= 0 {
		had := c.Items[i]
		if (had.Status == enplace.ItemFailed || triedAgain(had)) && item.Status == enplace.ItemInstalling && had.Definition == item.Definition && item.Error == "" {
			now.Error, now.ErrorTail = had.Error, had.ErrorTail
		}
		c.Items[i] = now
	} else {
		c.Items = append(c.Items, now)
	}
	for n := range r.Sets {
		i := same(r.Sets[n].Items, item.Key, item.Scope)
		if i < 0 || r.Sets[n].Hash == hash {
			continue
		}
		switch other := &r.Sets[n].Items[i]; {
		case item.Status == enplace.ItemInstalled && unsettled(other.Status): // what was cut off for another set is settled with this
			*other = forgotten(*other)
		case item.Status == enplace.ItemInstalling && !untried(*other) && other.Definition != item.Definition: // what it had in that place is replaced
			*other = forgotten(*other)
			r.Sets[n].AppliedAt, r.Sets[n].RetryAt = nil, nil
		}
	}
}

// forgotten is an item that is to be installed as if nothing had been done for it: neither its error nor what was there counts.
func forgotten(i enplace.ComputerItem) enplace.ComputerItem {
	tools := []enplace.ToolStatus{}
	for _, t := range i.Tools {
		tools = append(tools, enplace.ToolStatus{Name: t.Name, Requested: t.Requested, Status: enplace.ItemPending})
	}
	return enplace.ComputerItem{InstalledItem: enplace.InstalledItem{Key: i.Key, Scope: i.Scope, Tools: tools, Status: enplace.ItemPending, Definition: i.Definition}}
}

func unsettled(s enplace.ItemStatus) bool {
	return s == enplace.ItemInstalling || s == enplace.ItemInterrupted
}

// obtained says how the computer came to an item: what a bundle brought stays the bundle's until it is installed again, also for
// further sets.
func obtained(r store.ComputerRecord, hash string, item enplace.InstalledItem) enplace.Obtained {
	if item.Status == enplace.ItemInstalling {
		return enplace.FromDirect
	}
	own := find(r, hash)
	if i := same(own.Items, item.Key, item.Scope); i >= 0 && own.Items[i].Obtained != "" {
		return own.Items[i].Obtained
	}
	for _, c := range r.Sets {
		if i := same(c.Items, item.Key, item.Scope); i >= 0 && c.Items[i].Definition == item.Definition && c.Items[i].Status == enplace.ItemInstalled {
			return c.Items[i].Obtained
		}
	}
	return enplace.FromDirect
}

// have gives how the items of a set stand on the computer. What its own entry says counts, then what was cut off for another
// set, whose remains are in the way, then what another set installed by the same definition.
func have(rec store.ComputerRecord, set store.SetRecord) []enplace.InstalledItem {
	own := find(rec, set.Hash)
	var all []enplace.InstalledItem
	for _, item := range set.Items {
		if i := same(own.Items, item.Key, item.Scope); i >= 0 && own.Items[i].Status != enplace.ItemPending {
			all = append(all, own.Items[i].InstalledItem)
		} else if best := ofOthers(rec, item); best != nil {
			all = append(all, *best)
		}
	}
	return all
}

func ofOthers(rec store.ComputerRecord, item enplace.SetItem) (best *enplace.InstalledItem) {
	definition := item.Hash()
	for _, c := range rec.Sets {
		i := same(c.Items, item.Key, item.Scope)
		if i < 0 {
			continue
		}
		state := &c.Items[i].InstalledItem
		switch {
		case unsettled(state.Status):
			return state
		case state.Status == enplace.ItemInstalled && state.Definition == definition,
			state.Status == enplace.ItemFailed && (best == nil || best.Status != enplace.ItemInstalled):
			best = state
		}
	}
	return best
}

// dropOld forgets the sets beyond the limit that were brought onto the computer longest ago, and gives their hashes.
func dropOld(r *store.ComputerRecord, last string) (dropped []string) {
	i := slices.IndexFunc(r.Sets, func(c enplace.ComputerSet) bool { return c.Hash == last })
	r.Sets = append(slices.Delete(slices.Clone(r.Sets), i, i+1), r.Sets[i])
	for len(r.Sets) > maxSets {
		hash := r.Sets[0].Hash
		r.Sets = r.Sets[1:]
		delete(r.Exports, hash)
		maps.DeleteFunc(r.Reported, func(key string, _ int) bool { return strings.HasPrefix(key, hash+" ") })
		dropped = append(dropped, hash)
	}
	maps.DeleteFunc(r.Locks, func(hash string, _ []string) bool { return find(*r, hash).Attempts == 0 })
	return dropped
}
