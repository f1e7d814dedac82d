package main

import "context"

// rebuildRow measures a build after one file changed against the first build of everything. Each of the two first builds has
// a tree of its own, so that neither finds anything of the other's.
func rebuildRow(ctx context.Context, l *lab) ([]result, error) {
	var first, again []float64
	for n := range l.times(2, 1) {
		p, err := l.newProject(ctx, []string{"rebuild one", "rebuild two"}[n], l.gigabyte(byte(10+10*n)), packages)
		if err != nil {
			return nil, err
		}
		_, ms, err := l.build(ctx, p)
		if err != nil {
			return nil, err
		}
		first = append(first, ms)
		for range l.times(4, 3) {
			if err := l.edit(ctx, &p); err != nil {
				return nil, err
			}
			_, ms, err := l.build(ctx, p)
			if err != nil {
				return nil, err
			}
			again = append(again, ms)
		}
	}
	return []result{{What: "rebuild after one file changed, 1 GB", Against: "the first build", Unit: "ms", Ours: again, Theirs: first, Target: 0.05}}, nil
}
