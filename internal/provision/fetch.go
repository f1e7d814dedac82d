package provision

import (
	"context"
	"slices"

	"enplace"
	"enplace/internal/mise"
	"enplace/internal/sandbox"
)

// fetchPlace is where tools are fetched with a token: nothing of an item is there but its tools' names and versions.
const fetchPlace = mise.Place(mise.Own + "/fetch")

// fetch takes from GitHub, with the job's token, what can be taken without running anything of it: before all else, because
// from the first script on anything in the box may be somebody else's, mise among it. What cannot be fetched so is installed
// with the rest, without a token. So are items of persons: what the token may read is the operator's to give, not theirs to take.
func (p *pass) fetch(ctx context.Context) error {
	if p.job.Token == "" || len(p.job.Have) > 0 {
		return nil
	}
	for _, it := range p.items {
		if err := it.timed(func() error { return p.fetchFor(ctx, it) }); err != nil {
			return err
		}
	}
	_, _, err := p.ask(ctx, sandbox.Command{Argv: []string{"/bin/rm", "-rf", string(fetchPlace)}})
	return err
}

func (p *pass) fetchFor(ctx context.Context, it *item) error {
	if it.Scope.Person() != "" {
		return nil
	}
	toml, _ := it.File(enplace.ItemMiseName)
	versions, sources := it.known()
	names, files, err := mise.FromGitHub(toml, versions, sources)
	names = slices.DeleteFunc(names, func(name string) bool { return !it.has(name) }) // for another system
	if err != nil || len(names) == 0 {                                                // a mise.toml that cannot be read fails with its item
		return nil
	}
	p.note("fetching %s of %s with the server's token for GitHub", it.Key, it.Scope)
	if e, err := p.put(ctx, string(fetchPlace), files); err != nil || !e.ok() {
		return err
	}
	env := slices.Concat(sandbox.BaseEnv(), fetchPlace.Env(true), mise.RequestEnv(toml), []string{mise.TokenVariable + "=" + p.job.Token})
	_, err = p.run(ctx, sandbox.Command{Argv: mise.Install(false, names...), Env: env, Dir: fetchPlace.Pins()})
	if err != nil {
		return err
	}
	out, _, err := p.ask(ctx, sandbox.Command{Argv: mise.ReadBack(names), Env: append(sandbox.BaseEnv(), fetchPlace.Env(false)...), Dir: fetchPlace.Pins()})
	if err != nil {
		return err
	}
	found, _ := mise.ParseRead(out, sandbox.BaseEnv(), p.room()) // what it did not say is installed with the rest
	for _, name := range names {
		t := it.tool(name)
		if v := (&tool{asked: t.asked, versions: found.Versions[name]}); v.installed() {
			t.pinned = v.exact()
			t.learn(found.Sources[name])
		}
	}
	return nil
}
